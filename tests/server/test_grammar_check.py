"""`/v1/grammar/check` and `llgtrt check`: what can be enforced, and where a text leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .serving import COMMAND, PATIENCE, ROOT, Server

CHECK = "/v1/grammar/check"
CHAT = "/v1/chat/completions"
ORDER = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
    "required": ["customer", "quantity"],
    "additionalProperties": False,
}


def check(server: Server, **fields: Any) -> dict[str, Any]:
    answer = server.http.post(CHECK, json=fields)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize("text", ["Tom", "Grüße 日本 🎉", 'a "b"\\ c'])
def test_where_a_text_leaves_a_schema(demo: Server, toy: Server, text: str) -> None:
    whole = json.dumps({"customer": text, "quantity": 12}, ensure_ascii=False)
    for server in (demo, toy):
        told = check(server, schema=ORDER, text=whole)
        assert told["ok"]
        assert (told["matches"], told["matched"]) == (True, len(whole))
        assert told["compile_ms"] > 0
        assert told["mask_ms"] > 0
        short = check(server, schema=ORDER, text=whole[:-1])
        assert (short["matches"], short["matched"]) == (False, len(whole) - 1)
        assert "ends" in short["reason"]
        long = check(server, schema=ORDER, text=whole + "!")
        assert (long["matches"], long["matched"]) == (False, len(whole))
        for wrong, right in (("12}", "x}"), ("12}", "-3}"), ('"quantity"', '"quality"')):
            broken = whole.replace(wrong, right)
            at = next(i for i, (a, b) in enumerate(zip(whole, broken, strict=False)) if a != b)
            told = check(server, schema=ORDER, text=broken)
            assert (told["matches"], told["matched"]) == (False, at)
            assert f"at character {at}, " in told["reason"]


NARROWED = {
    "type": "object",
    "properties": {"tags": {"type": ["null", "array"], "not": {"type": "array", "uniqueItems": True}}},
    "required": ["tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("stream", [False, True])
def test_where_less_is_allowed_is_told(toy: Server, stream: bool) -> None:
    (place,) = check(toy, schema=NARROWED)["narrowed"]
    assert (place["pointer"], place["keyword"]) == ("/properties/tags", "uniqueItems")
    assert place["reason"]
    assert "narrowed" not in check(toy, schema=ORDER)
    # Of a function, where the request has it; of two choices once.
    tool = {"type": "function", "function": {"name": "f", "parameters": NARROWED}}
    body = {"messages": [{"role": "user", "content": "Hi"}], "n": 2, "max_tokens": 60, "seed": 1}
    asked: list[tuple[dict[str, Any], str]] = [
        ({"json_schema": NARROWED}, ""),
        ({"tools": [tool], "tool_choice": "required"}, "tools/0/function/parameters"),
    ]
    for constraint, prefix in asked:
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        answer = toy.http.post(CHAT, json={**body, **constraint, **options})
        if stream:
            usage = json.loads(answer.text.split("\n\n")[-3].removeprefix("data: "))["usage"]
        else:
            usage = answer.json()["usage"]
        (found,) = usage["narrowed"]
        assert found["pointer"].endswith(prefix + place["pointer"])
    assert "narrowed" not in toy.http.post(CHAT, json=body).json()["usage"]


def test_every_beginning_of_an_output_is_one(demo: Server) -> None:
    body = {"messages": [{"role": "user", "content": "An order of 3 by Ann, as JSON."}], "max_tokens": 60}
    constraint = {"response_format": {"type": "json_schema", "json_schema": {"schema": ORDER}}}
    for seed in range(5):
        answer = demo.http.post(CHAT, json={**body, **constraint, "seed": seed}).json()["choices"][0]
        text = answer["message"]["content"]
        for end in range(0, len(text), 7):
            told = check(demo, **constraint, text=text[:end])
            assert (told["matched"], told["matches"]) == (end, False)
        assert check(demo, **constraint, text=text)["matches"] == (answer["finish_reason"] == "stop")


@pytest.mark.parametrize(
    ("fields", "text", "matched", "matches"),
    [
        ({"guided_regex": "[a-c]{3}"}, "abc", 3, True),
        ({"guided_regex": "[a-c]{3}"}, "abd", 2, False),
        ({"guided_regex": "a*"}, "", 0, True),
        ({"guided_choice": ["yes", "no"]}, "no", 2, True),
        ({"guided_choice": ["yes", "no"]}, "nope", 2, False),
        ({"response_format": {"type": "lark_grammar", "grammar": 'start: "a" start | "b"'}}, "aaab", 4, True),
        ({"response_format": {"type": "json_object"}}, '{"a": [1, 2}', 11, False),
        ({"grammar": 'root ::= "x" | "y"'}, "z", 0, False),
        ({"ebnf": 'root ::= [^] "\\x1F600"'}, "x😀", 2, True),
        ({"grammar": 'root ::= "\\x1F600"'}, "\x1f600", 4, True),
        # A chat's other fields do not disturb.
        ({"guided_regex": "x", "messages": [], "temperature": 1}, "x", 1, True),
    ],
)
def test_constraints_of_all_kinds(
    toy: Server, fields: dict[str, Any], text: str, matched: int, matches: bool
) -> None:
    told = check(toy, **fields, text=text)
    assert (told["ok"], told["matched"], told["matches"]) == (True, matched, matches)
    assert "matches" not in check(toy, **fields)


def test_what_is_shown_means_the_same(toy: Server) -> None:
    shown = check(toy, schema=ORDER, show="lark")["lark"]
    constraint = {"response_format": {"type": "lark_grammar", "grammar": shown}}
    whole = '{"customer": "Ann", "quantity": 12}'
    for text, matches in ((whole, True), (whole.replace("12", "0"), False), (whole[:-1], False)):
        told = [check(toy, **fields, text=text) for fields in ({"schema": ORDER}, constraint)]
        assert [each["matches"] for each in told] == [matches, matches]
        assert told[0]["matched"] == told[1]["matched"]
    assert check(toy, **constraint, show="lark")["lark"] == shown
    assert "lark" not in check(toy, schema=ORDER)


def test_what_cannot_be_enforced_is_named_as_in_a_request(toy: Server) -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}
    told = check(toy, schema=wrong, text="{}")
    assert (told["ok"], told["pointer"], told["keyword"]) == (False, "/properties/a", "pattern")
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {"schema": wrong}},
    }
    refused = toy.http.post(CHAT, json=body).json()["error"]["message"]
    assert refused == f"{told['keyword']} at {told['pointer']}: {told['reason']}"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "schema"),
        ({"text": "x"}, "schema"),
        ({"schema": {}, "guided_regex": "x"}, "schema"),
        ({"guided_regex": "x", "guided_choice": ["y"]}, "guided_regex"),
        ({"schema": {}, "text": 5}, "text"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"schema": {}, "show": "gbnf"}, "show"),
    ],
)
def test_bad_bodies_are_refused_by_name(toy: Server, fields: dict[str, Any], param: str) -> None:
    answer = toy.http.post(CHECK, json=fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_long_texts_are_walked_in_bounded_time(toy: Server) -> None:
    told = check(toy, guided_regex="(ab)*", text="ab" * 5_000 + "x")
    assert (told["matches"], told["matched"]) == (False, 10_000)
    late = toy.http.post(CHECK, json={"guided_regex": "(a|b)*", "text": "ab" * 2_000_000})
    assert late.json().get("matches") or late.json()["error"]["param"] == "text"
    assert toy.http.get("/ready").status_code == 200


def run(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *COMMAND, "check", *map(str, arguments)]
    path = {"PYTHONPATH": str(ROOT / "python")}
    options: Any = {"capture_output": True, "text": True, "timeout": PATIENCE, "env": os.environ | path}
    return subprocess.run(command, input=given, **options)


def test_on_the_command_line(tmp_path: Path) -> None:
    schema, good, bad, bent = (tmp_path / f"{n}.json" for n in ("schema", "good", "bad", "bent"))
    schema.write_text(json.dumps(ORDER, indent=4))
    good.write_text(json.dumps({"customer": "Ann", "quantity": 1}, indent=2) + "\n")
    bad.write_text(json.dumps({"customer": "Ann", "quantity": 0}))
    bent.write_text("{")
    alone = run(schema)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert f"{schema}: can be enforced; compiled in " in alone.stdout
    assert run(schema, good).stdout.splitlines()[1] == f"{good}: satisfies it"
    shown = run(schema, "--show", "lark").stdout
    assert "\nstart: " in shown
    assert "customer" in shown
    refused = run(schema, bad, "--model", ROOT / "demo" / "target")
    assert refused.returncode == 1
    assert "at character 32, '0}' cannot follow" in refused.stdout
    for arguments in ((schema, bent), (tmp_path / "none.json",), (schema, good, "--model", "no-such-model")):
        assert run(*arguments).returncode == 2
    # A document that the configuration names; without it the reference leads nowhere.
    uri, runtime = "https://example.com/order.json", tmp_path / "runtime.json"
    schema.write_text(
        json.dumps({"$id": "https://example.com/orders.json", "$ref": "order.json#/properties/quantity"})
    )
    (tmp_path / "order.json").write_text(json.dumps(ORDER))
    runtime.write_text(json.dumps({"grammar": {"documents": {uri: str(tmp_path / "order.json")}}}))
    one = tmp_path / "one.json"
    for number, code in (("1", 0), ("0", 1)):
        one.write_text(number)
        assert run(schema, one, "--runtime-config", runtime).returncode == code
    assert "grammar.documents" in run(schema).stdout
    runtime.write_text(json.dumps({"grammar": {"documents": {uri: "no-such-file"}}}))
    assert "no-such-file cannot be read" in run(schema, "--runtime-config", runtime).stderr
    # What takes too long is the schema's fault, not the instance's.
    runtime.write_text(json.dumps({"grammar": {"compile_seconds": 1e-9}}))
    told = run(schema, one, "--runtime-config", runtime).stderr
    assert told.startswith(f"llgtrt: {schema}: takes too long")
    # What is too complex is told at its place.
    schema.write_text(json.dumps({"type": "string", "pattern": "^([a-z][0-9])+$", "minLength": 10_000}))
    assert f"{schema}#: schema: its patterns are together too complex" in run(schema, one).stdout
    schema.write_text(json.dumps({"type": "string", "pattern": r"(a)\1"}))
    unknown = run(schema)
    assert unknown.returncode == 1
    assert unknown.stdout.startswith(f"{schema}#: pattern: ")


def test_other_orders_and_standard_input_on_the_command_line(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(ORDER))
    turned = tmp_path / "turned.json"
    turned.write_text(json.dumps({"quantity": 1, "customer": "Ann"}))
    other = run(schema, turned)
    assert (other.returncode, "valid, but not in the order of the schema" in other.stdout) == (0, True)
    good = json.dumps({"customer": "Ann", "quantity": 1})
    assert run(schema, "-", given=good).stdout.splitlines()[1] == "-: satisfies it"
    assert run("-", "-").returncode == 2
    odd = json.dumps({**ORDER, "requird": []})
    assert "-: requird: ignored, since it is no keyword; did you mean required?" in run("-", given=odd).stdout


STYLES: list[tuple[dict[str, Any], str, bool]] = [
    ({}, '{"b": 1, "a": 2}', True),
    ({"json_style": {"whitespace": "compact"}}, '{"b": 1}', False),
    ({"structured_outputs": {"disable_any_whitespace": True}}, '{"b": 1}', False),
    ({"structured_outputs": {"whitespace_pattern": "[ ]{2}"}}, '{  "b":  1}', True),
    ({"guided_whitespace_pattern": "[ ]{2}"}, '{ "b":1}', False),
    ({"json_style": {"key_order": "schema"}}, '{"b": 1, "a": 2}', False),
    ({"json_style": {"undeclared_keys": "schema"}}, '{"b": 1, "c": 2}', True),
    ({"structured_outputs": {"disable_additional_properties": True}}, '{"b": 1, "c": 2}', False),
]


@pytest.mark.parametrize(("fields", "text", "matches"), STYLES)
def test_a_request_says_how_its_json_is_written(
    toy: Server, fields: dict[str, Any], text: str, matches: bool
) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}
    assert check(toy, schema=schema, text=text, **fields)["matches"] is matches
    body = {"messages": [{"role": "user", "content": "x"}], "json_schema": schema, "max_tokens": 5, **fields}
    assert toy.http.post(CHAT, json=body).status_code == 200


def test_white_space_is_said_once_and_is_white_space(toy: Server) -> None:
    twice = {"json_style": {"whitespace": "compact"}, "guided_whitespace_pattern": " "}
    refused = toy.http.post(CHECK, json={"schema": {}, **twice})
    assert (refused.status_code, "leave one" in refused.text) == (400, True)
    told = check(toy, schema={}, guided_whitespace_pattern="x?")
    assert (told["ok"], told["keyword"]) == (False, "whitespace_pattern")
    assert "name spaces, tabs and line breaks" in told["reason"]


def test_items_that_must_differ_are_compared(toy: Server) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert check(toy, schema=schema, text='["a", "ab"]')["matches"]
    told = check(toy, schema=schema, text='["a", "a"]')
    assert (told["matches"], told["matched"]) == (False, 8)
