"""The JSON types that a function's arguments may have, as far as simple keywords of its schema say it.

An argument without such keywords may have any type. In formats that write strings without quotes, the core
and the parser use these types to separate strings from other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llgtrt.openai.formats import TYPES, type_of

Types = Mapping[str, frozenset[str]]
"""By parameter, `TYPES` that its values may have."""

ANY = frozenset(TYPES)
_DEEPEST = 16
"""The most references and combinations within each other that are followed."""


def types(schema: Any) -> Types:
    """The types of the arguments that a function's schema describes."""
    found: dict[str, frozenset[str]] = {}
    _collect(schema, schema, found, _DEEPEST)
    return found


def mixed(known: Types) -> dict[str, list[str]]:
    """The types of parameters that are strings or something else."""
    return {name: sorted(of) for name, of in known.items() if "string" in of and len(of) > 1}


def _collect(schema: Any, root: Any, found: dict[str, frozenset[str]], depth: int) -> None:
    """Adds the types of the properties of a schema and of those that it combines."""
    if not isinstance(schema, dict) or depth == 0:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, inner in properties.items():
            own = _types(inner, root, depth - 1)
            found[name] = found.get(name, frozenset()) | own
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in _list(schema.get(keyword)):
            _collect(inner, root, found, depth - 1)
    for keyword in ("if", "then", "else"):
        _collect(schema.get(keyword), root, found, depth - 1)
    for inner in _named(schema.get("dependentSchemas")):
        _collect(inner, root, found, depth - 1)
    if "$ref" in schema:
        _collect(_referenced(schema["$ref"], root), root, found, depth - 1)


def _types(schema: Any, root: Any, depth: int) -> frozenset[str]:
    if not isinstance(schema, dict) or depth <= 0:
        return ANY
    found = ANY
    named = schema.get("type")
    if isinstance(named, str | list):
        found &= _of_names([named] if isinstance(named, str) else named)
        if schema.get("nullable") is True:
            found |= {"null"}
    if "enum" in schema and isinstance(schema["enum"], list):
        found &= frozenset(map(type_of, schema["enum"]))
    if "const" in schema:
        found &= {type_of(schema["const"])}
    for keyword in ("anyOf", "oneOf"):
        ways = _list(schema.get(keyword))
        if ways:
            found &= frozenset().union(*(_types(way, root, depth - 1) for way in ways))
    for inner in _list(schema.get("allOf")):
        found &= _types(inner, root, depth - 1)
    if "$ref" in schema:
        found &= _types(_referenced(schema["$ref"], root), root, depth - 1)
    return found


def _of_names(names: list[Any]) -> frozenset[str]:
    return frozenset("number" if name == "integer" else name for name in names if isinstance(name, str)) & ANY


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _referenced(reference: Any, root: Any) -> Any:
    """The target of a reference into the same document; None if it is elsewhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place = root
    for part in reference.removeprefix("#").split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and part.isdigit() and int(part) < len(place):
            place = place[int(part)]
        else:
            return None
    return place
