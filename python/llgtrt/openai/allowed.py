"""The values that a field may have, if its type lists them. Errors name them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import inspect


def values(kind: type[msgspec.Struct], path: str) -> list[str]:
    """The values of a field, such as `messages[0].role`; empty if its type does not list them."""
    types = [inspect.type_info(kind)]
    for step in re.findall(r"[A-Za-z_]\w*|\[", path):
        types = [below for one in types for each in _each(one) for below in _below(each, step)]
    told = (one for all_of in types for one in _each(all_of) if isinstance(one, inspect.LiteralType))
    return [str(value) for one in told for value in one.values]


def _each(one: inspect.Type) -> Iterator[inspect.Type]:
    """The types that a value may have."""
    if isinstance(one, inspect.UnionType):
        for part in one.types:
            yield from _each(part)
    elif isinstance(one, inspect.Metadata):
        yield from _each(one.type)
    else:
        yield one


def _below(one: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """The types of the member `step`, or, if it is `[`, of the entries of a list."""
    if isinstance(one, inspect.StructType):
        if step == one.tag_field:
            yield inspect.LiteralType((one.tag,))
        yield from (field.type for field in one.fields if field.encode_name == step)
    elif isinstance(one, inspect.ListType) and step == "[":
        yield one.item_type
