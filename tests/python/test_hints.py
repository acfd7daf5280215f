"""Names that a request has by mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llgtrt.openai import hints


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "object", "requird": ["a"]}, {"requird": "required"}),
        ({"properties": {"requird": {"maxLenght": 3}}}, {"maxLenght": "maxLength"}),
        ({"anyOf": [{"tpye": "string"}, {"items": {"itemss": {}}}]}, {"itemss": "items"}),
        ({"$defs": {"a": {"adittionalProperties": False}}}, {"adittionalProperties": "additionalProperties"}),
        (
            {"not": {"minimun": 1}, "enum": [{"requird": 1}], "x-order": 1, "titel": ""},
            {"minimun": "minimum"},
        ),
        ({"enumDescriptions": [], "markdownDescription": "", "deprecationMessage": ""}, {}),
        ({"_format": "uri", "x-format": ""}, {}),
        (True, {}),
        ([{"requird": 1}], {}),
    ],
)
def test_keywords_that_are_almost_right(schema: Any, found: dict[str, str]) -> None:
    assert dict(hints.misspelled(json.dumps(schema))) == found


def test_what_is_no_json_or_too_deep_has_no_hints() -> None:
    for text in ("", "{", "[" * 100_000, '{"not":' * 100_000):
        assert hints.misspelled(text) == []


def test_a_request_tells_a_few_names() -> None:
    told: list[str] = []
    token = hints.ignored.set(told)
    try:
        hints.unknown_fields([f"zork{i}" for i in range(1_000)], ["temperature"])
        hints.schema("x", json.dumps({f"requird{i}": 1 for i in range(1_000)}))
    finally:
        hints.ignored.reset(token)
    assert told == [f"zork{i}" for i in range(8)]
