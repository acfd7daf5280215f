"""What OpenAI's documents say of strict mode: nothing of it has been run.

The page is `SOURCE`, section "Supported schemas"; it was read, on 2026-11-25, in `PROFILE`, which keeps
what the page said in February 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SOURCE = "https://platform.openai.com/docs/guides/structured-outputs"
PROFILE = "https://jsonschemaprofiles.unitvectorylabs.com/schemas/openai"
ANNOTATIONS = {
    "$schema",
    "$id",
    "id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
}
"""Not in the list, and taken for harmless, which is in strict mode's favour."""
KEYWORDS = {
    *("type", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems", "pattern", "format"),
    *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
PROPERTIES, DEPTH, ENUMERATED, LETTERS = 5_000, 10, 1_000, 120_000
"""Most properties, levels of objects, values of enumerations, and letters of names and values, in all."""
LONG_ENUM, LONG_ENUM_LETTERS = 250, 15_000
"""An enumeration with more strings than this has at most so many letters."""


def parts(schema: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """All schemas in a schema, each with the objects around it."""
    yield schema, depth
    if not isinstance(schema, dict):
        return
    inner = depth + ("properties" in schema)
    for keyword in ("properties", "$defs", "definitions"):
        if isinstance(named := schema.get(keyword), dict):
            for part in named.values():
                yield from parts(part, inner if keyword == "properties" else 0)
    listed = schema.get("anyOf")
    for part in [schema.get("items"), *(listed if isinstance(listed, list) else [])]:
        if part is not None:
            yield from parts(part, inner)


def missing(schema: Any) -> str | None:
    """What the schema has that the documents do not list, or lacks that they ask for."""
    if not isinstance(schema, dict):
        return "a schema that is no object"
    if unknown := sorted(map(str, schema.keys() - KEYWORDS - ANNOTATIONS)):
        return unknown[0]
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return "additionalProperties is not false"
        if set(schema.get("properties", {})) - set(schema.get("required", [])):
            return "a property is not required"
    return None


def too_large(schema: Any) -> bool:
    """Whether a limit is passed."""
    properties = enumerated = letters = 0
    for part, depth in parts(schema):
        if not isinstance(part, dict):
            continue
        names = [*part.get("properties", {}), *part.get("$defs", {}), *part.get("definitions", {})]
        values = [*part.get("enum", []), *([part["const"]] if "const" in part else [])]
        texts = [value for value in values if isinstance(value, str)]
        properties += len(part.get("properties", {}))
        enumerated += len(part.get("enum", []))
        letters += sum(map(len, names)) + sum(map(len, texts))
        if depth + ("properties" in part) > DEPTH:
            return True
        if len(part.get("enum", [])) > LONG_ENUM and sum(map(len, texts)) > LONG_ENUM_LETTERS:
            return True
    return properties > PROPERTIES or enumerated > ENUMERATED or letters > LETTERS


def outside(schema: Any) -> str | None:
    """Why a schema is not in the subset that the documents describe; None where it is."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        return "the root is no object"
    reasons = [reason for part, _ in parts(schema) if (reason := missing(part))]
    if reasons:
        return reasons[0]
    return "a limit" if too_large(schema) else None
