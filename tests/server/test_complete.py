"""Constrained answers are complete within `max_tokens`."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from .serving import Server

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["street", "city"],
        },
    },
    "required": ["name", "tags", "address"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
TOOL = {"type": "function", "function": {"name": "save_person", "parameters": PERSON}}


def ask(server: Server, status: int = 200, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Anna, 34, of Long Street."}]
    answer = server.http.post("/v1/chat/completions", json={"messages": messages, "temperature": 0, **fields})
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize("name", ["toy", "demo"])
def test_an_answer_that_would_be_cut_is_completed(name: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(name)
    refused = ask(server, 400, response_format=FORMAT, max_tokens=3)["error"]
    assert refused["param"] == "max_tokens"
    advice = re.search(r"needs at least (\d+) tokens; raise it to \1 or more", refused["message"])
    assert advice, refused
    least = int(advice[1])
    checked = server.http.post("/v1/grammar/check", json={"schema": PERSON}).json()
    assert checked["min_tokens"] == least
    ask(server, 400, response_format=FORMAT, max_tokens=least - 1)
    before = server.metric("llgtrt_choices_shortened_total")
    shortened = 0
    for more in (0, 1, 9, 40):
        told = ask(server, response_format=FORMAT, max_tokens=least + more, n=2, seed=5, temperature=1)
        assert told["usage"]["completion_tokens"] <= 2 * (least + more)
        shortened += told["usage"].get("shortened", 0)
        for choice in told["choices"]:
            assert choice["finish_reason"] == "stop"
            jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)
    assert shortened > 0
    assert server.metric("llgtrt_choices_shortened_total") == before + shortened


def test_a_call_is_completed(toy: Server) -> None:
    choice = {"type": "function", "function": {"name": "save_person"}}
    message = ask(toy, 400, tools=[TOOL], tool_choice=choice, max_tokens=3)["error"]["message"]
    least = int(message.split("at least ")[1].split()[0])
    for more in (0, 1, 20):
        told = ask(toy, tools=[TOOL], tool_choice=choice, max_tokens=least + more, seed=more, temperature=1)
        call = told["choices"][0]["message"]["tool_calls"][0]["function"]
        jsonschema.validate(json.loads(call["arguments"]), PERSON)
        assert told["choices"][0]["finish_reason"] == "tool_calls"


def test_reasoning_leaves_room_for_the_answer(thinker: Server) -> None:
    for seed in range(6):
        told = ask(thinker, response_format=FORMAT, max_tokens=150 + seed, seed=seed, temperature=1)
        message = told["choices"][0]["message"]
        jsonschema.validate(json.loads(message["content"]), PERSON)
        assert told["usage"]["completion_tokens_details"]["reasoning_tokens"] > 20


def test_stop_texts_end_what_may_end(toy: Server) -> None:
    told = ask(toy, response_format=FORMAT, max_tokens=200, stop=["}", "name", ","])
    jsonschema.validate(json.loads(told["choices"][0]["message"]["content"]), PERSON)


def test_free_text_is_cut(toy: Server) -> None:
    told = ask(toy, max_tokens=5, ignore_eos=True)
    assert told["choices"][0]["finish_reason"] == "length"
    assert "shortened" not in told["usage"]
