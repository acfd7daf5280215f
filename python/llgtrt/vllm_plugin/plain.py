"""Which constraints XGrammar enforces, as far as is known: the ones that `auto` leaves to it.

XGrammar ignores a keyword that it doesn't know in its place, so an answer may break the schema without a
word. The list here is of shapes that were tried with XGrammar 0.2.8, and every other shape is taken over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NOTES = {"$comment", "$defs", "$schema", "default", "definitions", "deprecated", "description", "examples"}
_NOTES |= {"readOnly", "title", "writeOnly"}
"""Keywords that constrain nothing by themselves."""

_OF_TYPE = {
    "object": frozenset(["properties", "required", "additionalProperties"]),
    "array": frozenset(["items", "prefixItems", "minItems", "maxItems"]),
    "string": frozenset(["minLength", "maxLength", "pattern"]),
    "integer": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
    "number": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""Keywords that are enforced beside a `type` of that name."""

_LOOKS_AROUND = re.compile(r"\(\?|\\[bB]")
"""Groups that XGrammar reads as ordinary ones or skips, and word boundaries."""


def schema_is_plain(schema: object) -> bool:
    """Whether XGrammar enforces all of a JSON schema (parsed)."""
    if schema is True:
        return True
    if not isinstance(schema, Mapping):
        return False
    stated = {name for name in schema if name not in _NOTES and not name.startswith("x-")}
    defined = [*_members(schema.get("$defs")), *_members(schema.get("definitions"))]
    return _stated_is_plain(schema, stated) and all(map(schema_is_plain, defined))


def regex_is_plain(pattern: str) -> bool:
    """Whether XGrammar enforces all of a regular expression."""
    return not _LOOKS_AROUND.search(pattern)


def _stated_is_plain(schema: Mapping[str, Any], stated: set[str]) -> bool:
    """`stated`: the keywords of `schema` that constrain."""
    if not stated:
        return True
    # A keyword beside one of these is ignored.
    if "$ref" in stated:
        return stated == {"$ref"} and str(schema["$ref"]).startswith("#/")
    if "anyOf" in stated:
        return stated == {"anyOf"} and all(map(schema_is_plain, _items(schema["anyOf"])))
    types = [schema["type"]] if isinstance(schema.get("type"), str) else _items(schema.get("type", []))
    if not all(isinstance(name, str) and name in _OF_TYPE for name in types):
        return False
    if stated & {"enum", "const"}:
        values = [*_items(schema.get("enum", [])), *([schema["const"]] if "const" in stated else [])]
        return stated in ({"enum"}, {"const"}, {"enum", "type"}, {"const", "type"}) and (
            not types or all(_has_type(value, types) for value in values)
        )
    if not types or not stated <= {"type"}.union(*(_OF_TYPE[name] for name in types)):
        return False
    return _parts_are_plain(schema)


def _parts_are_plain(schema: Mapping[str, Any]) -> bool:
    """The schemas within a typed schema, its pattern, and the names it requires."""
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping) or not set(_items(schema.get("required", []))) <= set(properties):
        return False
    additional = schema.get("additionalProperties", True)
    parts = [*properties.values(), *_items(schema.get("prefixItems", []))]
    parts += [part for part in (additional, schema.get("items", True)) if part is not False]
    return regex_is_plain(str(schema.get("pattern", ""))) and all(map(schema_is_plain, parts))


def _has_type(value: object, types: Sequence[str]) -> bool:
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean") in types
    if isinstance(value, int):
        return "integer" in types or "number" in types
    kinds = {float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value)) in types


def _members(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, Mapping) else []


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
