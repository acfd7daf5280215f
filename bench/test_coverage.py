"""What other products are judged by."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from coverage_judge import Case, judge, places
from coverage_products import END, Masked
from coverage_strict import outside
from coverage_valid import Validity


class Listed(Masked):
    """A product that takes some texts, whatever the schema says."""

    def __init__(self, *texts: str) -> None:
        self.texts = [text.encode() for text in texts]

    def compile(self, schema: str) -> None:
        """Takes every schema but one."""
        if schema == "false":
            raise ValueError

    def begins(self, text: str) -> bool:
        """The text begins one of its own."""
        self.text = text.encode()
        return any(one.startswith(self.text) for one in self.texts)

    def begin(self) -> None:
        """Begins a text."""
        self.text = b""

    def allowed(self) -> list[int]:
        """Next bytes of its own texts."""
        left = [one[len(self.text) :] for one in self.texts if one.startswith(self.text)]
        return sorted({one[0] if one else END for one in left})

    def commit(self, token: int) -> None:
        """Continues the text."""
        self.text += bytes([token])


def test_verdicts() -> None:
    """What is valid may come in any order of its keys; what is not may not come."""
    value, schema = {"b": [{"d": 1, "c": 2}], "a": 0}, {"type": "object"}
    product = Listed('{"a":0,"b":[{"c":2,"d":1}]}', "3")

    def verdict(schema: Any, *tests: tuple[Any, bool]) -> str:
        return judge(product, Case("x", schema, list(tests)))

    assert verdict(schema, (value, True), (4, False)) == "enforced"
    assert verdict(schema, (value, True), (4, True)) == "stricter"
    assert verdict(schema, (4, True), (3, False)) == "lenient"
    assert verdict(False) == "refused"


def test_walks_follow_the_masks() -> None:
    """Each comes to the end of a text."""
    texts = ["ab", "abc", "b"]
    drawn = [text.decode() for text in Listed(*texts).walks(50, Random(1)) if text is not None]
    assert len(drawn) == 50
    assert set(drawn) == set(texts)


def test_places() -> None:
    """Declared names before those that are only required."""
    schema = {"required": ["z", "b"], "properties": {"b": {"properties": {"c": {}}}, "a": {}}}
    assert list(places(schema)) == ["b", "a", "c", "z"]


@pytest.mark.parametrize(
    ("schema", "text", "told"),
    [
        ({"multipleOf": 0.01}, "19.99", "valid"),  # in floating point it is none
        ({"type": "integer"}, "1.0", "valid"),
        ({"type": "integer"}, "1.5", "invalid"),
        ({"type": "string"}, '"a\n"', "invalid"),
        ({}, "{}{}", "invalid"),
        ({"format": "date"}, '"2020-02-30"', "invalid"),
        ({"$ref": "http://localhost:1/none"}, "1", "unjudged"),
    ],
)
def test_validity(schema: Any, text: str, told: str) -> None:
    """As decimals, without fetching anything."""
    assert Validity(schema).of(text.encode()) == told


def closed(**properties: Any) -> dict[str, Any]:
    """An object as strict mode wants it."""
    required = sorted(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def test_strict() -> None:
    """The subset that OpenAI documents."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(10):
        deep = closed(a=deep)
    good = [closed(a={"type": ["string", "null"]}, b={"anyOf": [{"type": "integer", "minimum": 1}]}), deep]
    assert [outside(schema) for schema in good] == [None, None]
    bad = {
        "no object": {"type": "array", "items": deep},
        "not required": closed(a={}) | {"required": []},
        "not false": {"type": "object", "properties": {}},
        "allOf": closed(a={"allOf": []}),
        "a limit": closed(a=deep),
    }
    for why, schema in bad.items():
        assert re.search(why, outside(schema) or "")
