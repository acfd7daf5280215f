"""Misspelled names in requests: fields that no API has, and keywords that JSON Schema does not have.

They are ignored, as other servers do. The log names each once, and the answer has them in the header
`llgtrt-ignored`, with the known name that is nearest.
"""

from __future__ import annotations

import difflib
import itertools
import logging
import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import msgspec

log = logging.getLogger(__name__)

HEADER = b"llgtrt-ignored"

ignored: ContextVar[list[str]] = ContextVar("ignored")
"""The unknown names of the current request. The threads that handle a request share the list."""

_MOST = 8
"""Names per request that are reported."""
_MOST_LOGGED = 1000
_LONGEST = 64
_NEAR = 0.85
"""Least similarity of two names (`difflib.SequenceMatcher.ratio`)."""

_logged: set[str] = set()

_ONE = frozenset(
    {
        *("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties"),
        *("additionalItems", "unevaluatedProperties", "unevaluatedItems"),
    }
)
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_OTHERS = frozenset(
    {
        *("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems"),
        *("uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
        *("dependentRequired", "nullable", "$ref", "$dynamicRef", "$recursiveRef", "$dynamicAnchor"),
    }
)
_KEYWORDS = sorted(_ONE | _SEVERAL | _NAMED | _OTHERS)
_ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$comment", "$id", "id", "$schema", "$anchor", "$vocabulary", "$recursiveAnchor"),
        *("contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs"),
    }
)
_KNOWN = _ANNOTATIONS.union(_KEYWORDS)


def unknown_fields(names: Iterable[str], known: Iterable[str]) -> None:
    """Reports fields that no API has; only the first few."""
    for name in itertools.islice(names, _MOST):
        _tell("unknown request field", name, difflib.get_close_matches(name[:_LONGEST], known, 1, _NEAR))


def ineffective(what: str) -> None:
    """Reports a part of a request that is accepted and has no effect."""
    _tell("part of a request", what, [])


def schema(field: str, text: str | bytes) -> None:
    """Reports names in a JSON schema that are almost keywords. `field`: the field with the schema."""
    for name, near in misspelled(text):
        _tell(f"unknown keyword in {field}", name, [near])


def misspelled(text: str | bytes) -> list[tuple[str, str]]:
    """Names in a JSON schema that are almost keywords, each with the keyword; only the first few."""
    try:
        whole = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []  # the compiler reports what is wrong
    unknown = dict.fromkeys(name for one in _schemas(whole) for name in one if name not in _KNOWN)
    # Names with `_` or `x-` before a keyword are meant as they are.
    odd = (name for name in unknown if len(name) <= _LONGEST and not name.startswith(("_", "x-")))
    names = itertools.islice(odd, _MOST * 4)
    near = ((name, difflib.get_close_matches(name, _KEYWORDS, 1, _NEAR)) for name in names)
    return [(name, found[0]) for name, found in near if found][:_MOST]


def _schemas(whole: Any) -> Iterator[dict[str, Any]]:
    """A schema and all that are in it."""
    left = [whole]
    while left:
        one = left.pop()
        if not isinstance(one, dict):
            continue
        yield one
        for keyword, value in one.items():
            if keyword in _NAMED and isinstance(value, dict):
                left += value.values()
            elif keyword in _SEVERAL and isinstance(value, list):
                left += value
            elif keyword in _ONE or keyword == "items":
                left.append(value)


def _tell(what: str, name: str, near: list[str]) -> None:
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if len(_logged) < _MOST_LOGGED and name not in _logged:
        _logged.add(name)
        log.warning("ignored the %s %.64r%s (said once)", what, name, hint)
    told = ignored.get(None)
    if told is not None and len(told) < _MOST:
        # Headers must be ASCII.
        shown = re.sub(r"[^\w.$\[\]-]", "?", name[:_LONGEST], flags=re.ASCII)
        told.append(f"{shown} (did you mean {near[0]}?)" if near else shown)
