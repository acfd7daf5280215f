"""Which schemas the plug-in for vLLM leaves to XGrammar."""

from __future__ import annotations

from typing import Any

import pytest

from llgtrt.vllm_plugin import plain

PLAIN = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    "schema", [True, {}, {"type": ["string", "null"]}, {"const": 1}, {"anyOf": [PLAIN, {}]}]
)
def test_schemas_that_are_left_to_xgrammar(schema: Any) -> None:
    assert plain.schema_is_plain(schema)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"minLength": 1},
        {"type": "string", "format": "date"},
        {"type": "string", "pattern": "(?!a)b"},
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "anyOf": [{"minLength": 1}]},
        {"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"type": "string"}}},
        {"$ref": "other.json"},
        {"type": "object", "properties": {"a": True}, "required": ["b"]},
        {"type": "array", "items": {"not": {}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{}]}}},
        {"type": "array", "items": [{}]},
        {"type": "unknown"},
    ],
)
def test_schemas_that_are_not(schema: Any) -> None:
    assert not plain.schema_is_plain(schema)
