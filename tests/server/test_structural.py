"""Structural tags: free text with constrained tags in it."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from .serving import Server

NUMBER = {"type": "object", "properties": {"n": {"enum": [1, 2, 30]}}, "required": ["n"]}
TAGS = [
    {"begin": "<f=one>", "schema": NUMBER, "end": "</f>"},
    {"begin": "<f=two>", "schema": {"type": "boolean"}, "end": "</f>"},
]
NEW = [
    {"type": "tag", "begin": tag["begin"], "content": {"type": "json_schema", "json_schema": tag["schema"]},
     "end": tag["end"]}
    for tag in TAGS
]  # fmt: skip


TEXT = {"type": "const_string", "value": "."}
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": NEW}


def content(toy: Server, **fields: Any) -> str:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400, "temperature": 1.5, **fields}
    answer = toy.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def form(**members: Any) -> dict[str, Any]:
    return {"response_format": {"type": "structural_tag", "format": members}}


def check(text: str) -> int:
    """Validates the tags of a text, and returns their number."""
    found = 0
    for part in text.split("<f=")[1:]:
        name, _, rest = part.partition(">")
        inner, end, _ = rest.partition("</f>")
        if end:
            schema: dict[str, Any] = NUMBER if name == "one" else {"type": "boolean"}
            jsonschema.validate(json.loads(inner), schema)
            found += 1
    return found


@pytest.mark.parametrize("old", [True, False])
def test_tags_are_constrained_behind_their_triggers(toy: Server, old: bool) -> None:
    wanted = (
        {"response_format": {"type": "structural_tag", "structures": TAGS, "triggers": ["<f="]}}
        if old
        else form(type="triggered_tags", triggers=["<f="], tags=NEW)
    )
    # The weightless model hardly begins a tag by itself.
    bias = {str(byte): 9 for byte in b"<f="}
    counts = [check(content(toy, **wanted, seed=seed, logit_bias=bias)) for seed in range(12)]
    assert sum(counts) > 0


def test_text_may_have_to_have_a_tag(toy: Server) -> None:
    wanted = form(type="triggered_tags", triggers=["<f="], tags=NEW, at_least_one=True, stop_after_first=True)
    bias = {str(byte): 9 for byte in b"<f="}
    for seed in range(6):
        text = content(toy, **wanted, seed=seed, logit_bias=bias, max_tokens=2000)
        assert check(text) == 1 or text.count("<f=") == 0
        if check(text):
            assert text.endswith("</f>")


def test_tags_may_be_all_there_is(toy: Server) -> None:
    for seed in range(6):
        assert check(content(toy, **form(**NEW[0]), seed=seed)) == 1
        several = form(type="tags_with_separator", tags=NEW, separator="\n", at_least_one=True)
        text = content(toy, **several, seed=seed, max_tokens=900)
        assert check(text) == text.count("</f>") > 0, text
    assert content(toy, **form(type="const_string", value="yes")) == "yes"
    assert content(toy, **form(type="regex", pattern="[ab]{3}")).strip("ab") == ""


def of(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


LETTERS = of("regex", pattern="[ab]{1,3}")
THOUGHT = of("tag", begin="<t>", content=of("any_text"), end=["</t>", "|"])
ARGUMENTS = {
    "type": "object",
    "properties": {"n": {"enum": [1, 20]}, "s": {"enum": ["x y"]}},
    "required": ["n", "s"],
}


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        (of("sequence", elements=[LETTERS, TEXT, LETTERS]), r"[ab]{1,3}\.[ab]{1,3}"),
        (of("or", elements=[TEXT, of("sequence", elements=[TEXT, TEXT])]), r"\.\.?"),
        (of("optional", content=LETTERS), "([ab]{1,3})?"),
        (of("repeat", min=2, max=3, content=of("sequence", elements=[LETTERS, TEXT])), r"([ab]{1,3}\.){2,3}"),
        (of("tags_with_separator", tags=NEW[1:], separator=","), "(<f=two>(true|false)</f>,?)*"),
        (of("sequence", elements=[THOUGHT, NEW[1]]), r"(?s)<t>.*(</t>|\|)<f=two>(true|false)</f>"),
        (
            of("json_schema", json_schema=ARGUMENTS, style="qwen_xml"),
            "<parameter=n>(1|20)</parameter><parameter=s>x y</parameter>",
        ),
        (
            of("json_schema", json_schema=ARGUMENTS, style="kimi_k3_xml", any_order=False),
            r'<\|open\|>argument key="n" type="number"<\|sep\|>(1|20)<\|close\|>argument<\|sep\|>'
            r'<\|open\|>argument key="s" type="string"<\|sep\|>x y<\|close\|>argument<\|sep\|>',
        ),
        (
            of(
                "sequence",
                elements=[LETTERS, {**TRIGGERED, "at_least_one": True, "stop_after_first": True}, TEXT],
            ),
            r"(?s)[ab]{1,3}.*<f=(one>.*|two>(true|false))</f>\.",
        ),
        (of("sequence", elements=[TEXT, of("any_text", excludes=["a", "b"])]), r"(?s)\.[^ab]*"),
        (of("sequence", elements=[THOUGHT, {**TRIGGERED, "excludes": ["!"]}]), r"(?s)<t>.*(</t>|\|)[^!]*"),
        (of("dispatch", rules=[["<f", LETTERS]], loop=False, excludes=["!"]), "(?s)[^!]*(<f[ab]{1,3})?"),
    ],
)
def test_formats_of_formats(toy: Server, wanted: dict[str, Any], pattern: str) -> None:
    bias = {str(byte): 9 for byte in b"<f=|"}
    for seed in range(4):
        text = content(toy, **form(**wanted), seed=seed, logit_bias=bias)
        assert re.fullmatch(pattern, text), text


def test_json_in_tags_is_styled(toy: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"const": [1, 2]}}, "required": ["n"]}
    tag = of("tag", begin="<f", content=of("json_schema", json_schema=schema), end=">")
    free = of("triggered_tags", triggers=["<f"], tags=[tag], at_least_one=True, stop_after_first=True)
    for wanted in (tag, free):
        style = {"json_style": {"whitespace": "compact"}, "logit_bias": {str(ord("<")): 9, str(ord("f")): 9}}
        assert content(toy, **form(**wanted), **style, seed=1, max_tokens=2000).endswith('<f{"n":[1,2]}>')


def test_the_other_names(toy: Server) -> None:
    tag = json.dumps({"type": "structural_tag", "format": NEW[1]})
    for fields in ({"structured_outputs": {"structural_tag": tag}}, {"structural_tag": tag}):
        assert content(toy, **fields, seed=3) in ("<f=two>true</f>", "<f=two>false</f>")


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"structures": TAGS}, "response_format"),
        ({"structures": TAGS, "triggers": []}, "response_format.triggers"),
        ({"structures": TAGS, "triggers": ["<g"]}, "response_format.triggers"),
        (
            {"structures": [{"begin": "<f", "end": "x"}], "triggers": ["<f"]},
            "response_format.structures[0].schema",
        ),
        ({"format": {"type": "sequence"}}, "response_format.format.elements"),
        ({"format": {"type": "token", "token": 1}}, "response_format.format.type"),
        ({"format": {"type": "or", "elements": []}}, "response_format"),
        ({"format": {"type": "repeat", "min": 2, "max": 1, "content": TEXT}}, "response_format.format.min"),
        (
            {"format": {"type": "json_schema", "json_schema": {}, "style": "cohere_xml"}},
            "response_format.format.style",
        ),
        (
            {
                "format": {
                    "type": "sequence",
                    "elements": [{"type": "any_text"}, {"type": "regex", "pattern": "a"}],
                }
            },
            "response_format.format.elements[0]",
        ),
        (
            {"format": {"type": "or", "elements": [TRIGGERED, TEXT]}},
            "response_format.format.elements[0].type",
        ),
        (
            {"format": {"type": "sequence", "elements": [TRIGGERED, TEXT]}},
            "response_format.format.elements[0].type",
        ),
        ({"format": {"type": "dispatch", "rules": [["<f="]]}}, "response_format.format.rules[0]"),
        ({"format": {"type": "tag", "begin": "a", "end": "b"}}, "response_format.format.content.type"),
        ({"format": {**NEW[0], "begins": 1}}, "response_format.format.begins"),
        (
            {"format": {"type": "triggered_tags", "triggers": ["<f="], "tags": []}},
            "response_format.format.tags",
        ),
    ],
)
def test_what_is_wrong_is_named(toy: Server, wanted: dict[str, Any], param: str) -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "structural_tag", **wanted},
    }
    answer = toy.http.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
