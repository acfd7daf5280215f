"""Constraints: the names that several servers have for them, and what the core is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llgtrt.openai import schema, translate
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError

from .test_bodies import core


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object"),
        ({"response_format": {"type": "json_object", "schema": {"a": 1}}}, {"json_schema": '{"a": 1}'}),
        ({"response_format": {"type": "json_object", "schema": None}}, "json_object"),
        ({"response_format": {"type": "lark_grammar", "lark_grammar": "x"}}, {"lark_grammar": "x"}),
        ({"response_format": {"type": "json", "value": {"a": 1}}}, {"json_schema": '{"a": 1}'}),
        ({"response_format": {"type": "regex", "value": "a+"}}, {"regex": "a+"}),
        ({"guided_json": {"b": 1, "a": 2}}, {"json_schema": '{"b": 1, "a": 2}'}),
        ({"guided_json": '{"a":1}'}, {"json_schema": '{"a":1}'}),
        ({"json_schema": '{"a":1}'}, {"json_schema": '{"a":1}'}),
        ({"json_schema": {"a": 1}}, {"json_schema": '{"a": 1}'}),
        ({"guided_regex": "a+"}, {"regex": "a+"}),
        ({"regex": "a+"}, {"regex": "a+"}),
        ({"grammar": "root ::= x"}, {"gbnf": "root ::= x"}),
        ({"ebnf": "root ::= x"}, {"ebnf": "root ::= x"}),
        ({"guided_grammar": "root ::= x"}, {"ebnf": "root ::= x"}),
        ({"guided_grammar": "start: x"}, {"lark_grammar": "start: x"}),
        ({"structured_outputs": {"grammar": "root ::= x"}}, {"ebnf": "root ::= x"}),
        ({"guided_choice": ["a", "b"]}, {"choice": ["a", "b"]}),
        ({"structured_outputs": {"choice": ["a"]}}, {"choice": ["a"]}),
        ({"structured_outputs": {"json": {"a": 1}}}, {"json_schema": '{"a": 1}'}),
        ({"structured_outputs": {"regex": "a"}}, {"regex": "a"}),
        ({"structured_outputs": {"json_object": True}}, "json_object"),
        ({"structured_outputs": None, "guided_json": None}, None),
    ],
)
def test_constraints_have_the_names_of_several_servers(fields: dict[str, Any], grammar: object) -> None:
    assert core(**fields)["grammar"] == grammar


def test_one_constraint_at_a_time() -> None:
    for fields in (
        {"regex": "a", "guided_json": {}},
        {"response_format": {"type": "json_object"}, "structured_outputs": {"choice": ["a"]}},
        {"structured_outputs": {"choice": ["a"], "regex": "a"}},
    ):
        with pytest.raises(ApiError, match="more than one constraint"):
            core(**fields)


def test_a_schema_stays_as_it_was_written() -> None:
    text = '{"z": 1, "a": {"maximum": 1.10, "const": 123456789012345678901234567890, "é": "\\u00e9"} }'
    body = '{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema",'
    body += '"json_schema": {"name": "n", "schema": ' + text + "}}}"
    request = parse(body.encode(), schema.ChatRequest)
    assert json.loads(translate.core_request(request))["grammar"] == {"json_schema": text}
