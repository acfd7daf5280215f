"""Custom tools over HTTP: the model calls them with a text."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest

from .serving import Server

REGEX = "(add|drop) [a-f]{2,6}"
SYNTAX = {"syntax": "regex", "definition": REGEX}
CUSTOM: dict[str, Any] = {
    "name": "run",
    "description": "Runs a command.",
    "format": {"type": "grammar", "grammar": SYNTAX},
}
CHAT: dict[str, Any] = {
    "model": "toy",
    "messages": [{"role": "user", "content": "Do it."}],
    "tools": [{"type": "custom", "custom": CUSTOM}],
    "tool_choice": {"type": "custom", "custom": {"name": "run"}},
    "seed": 3,
}
RESPONSE: dict[str, Any] = {
    "model": "toy",
    "input": "Do it.",
    "tools": [
        {
            "type": "custom",
            "name": "run",
            "format": {"type": "grammar", "syntax": "regex", "definition": REGEX},
        }
    ],
    "tool_choice": {"type": "custom", "name": "run"},
    "extra_body": {"seed": 3},
}


def chat(server: Server, **more: Any) -> Any:
    answer = server.http.post("/v1/chat/completions", json={**CHAT, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def test_a_chat_calls_it_with_a_text_of_the_grammar(toy: Server) -> None:
    for seed in range(5):
        choice = chat(toy, seed=seed)
        (call,) = choice["message"]["tool_calls"]
        assert list(call) == ["id", "type", "custom"]
        assert call["type"] == "custom"
        assert call["custom"]["name"] == "run"
        assert re.fullmatch(REGEX, call["custom"]["input"])
        assert choice["finish_reason"] == "tool_calls"


def test_a_stream_has_the_same_call(api: openai.OpenAI, toy: Server) -> None:
    (whole,) = chat(toy)["message"]["tool_calls"]
    stream = api.chat.completions.create(**CHAT, stream=True)
    told: dict[str, Any] = {"input": ""}
    for chunk in stream:
        for call in chunk.choices[0].delta.tool_calls or ():
            extra: Any = call.model_dump(exclude_none=True)
            told["input"] += extra["custom"].pop("input")
            told |= extra["custom"]
    assert told == whole["custom"]


def test_any_text_and_functions_beside_it(toy: Server) -> None:
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    tools = [{"type": "custom", "custom": {"name": "say"}}, function]
    for name, kind in (("say", "custom"), ("f", "function")):
        allowed = {"mode": "required", "tools": [{"type": kind, kind: {"name": name}}]}
        choice = {"type": "allowed_tools", "allowed_tools": allowed}
        for call in chat(toy, tools=tools, tool_choice=choice, max_tokens=60)["message"]["tool_calls"]:
            assert call["type"] == kind
            assert call[kind]["name"] == name


def test_calls_and_results_of_the_history(toy: Server) -> None:
    (call,) = chat(toy)["message"]["tool_calls"]
    messages = [
        *CHAT["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "done"},
    ]
    asked = {**CHAT, "messages": messages, "tool_choice": "none", "max_tokens": 5}
    assert chat(toy, **asked)["message"]["content"] is not None
    rendered = toy.http.post("/v1/chat/completions/render", json=asked).json()["prompt"]
    assert json.dumps(call["custom"]["input"]) in rendered


def test_a_response_calls_it(api: openai.OpenAI) -> None:
    whole = api.responses.create(**RESPONSE)
    (call,) = whole.output
    assert call.type == "custom_tool_call"
    assert re.fullmatch(REGEX, call.input)
    with api.responses.create(**RESPONSE, stream=True) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[-3:] == [
        "response.custom_tool_call_input.done",
        "response.output_item.done",
        "response.completed",
    ]
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    (done,) = [e.input for e in events if e.type == "response.custom_tool_call_input.done"]
    assert "".join(deltas) == done == call.input
    items: list[Any] = [
        {"role": "user", "content": "Do it."},
        call.model_dump(exclude_none=True),
        {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"},
    ]
    more = api.responses.create(**{**RESPONSE, "input": items, "tool_choice": "none"}, max_output_tokens=5)
    assert more.output_text
    follows = {"previous_response_id": whole.id, "input": items[2:], "tool_choice": "none"}
    assert (
        api.responses.create(**{**RESPONSE, **follows}, max_output_tokens=5).output_text == more.output_text
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "custom"}]}, "tools[0].custom"),
        ({"tools": [{"type": "custom", "custom": {"name": "a b"}}]}, "tools[0].custom.name"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "a", "format": {"type": "grammar"}}}]},
            "tools[0].custom.format",
        ),
        ({"tool_choice": {"type": "custom", "custom": {"name": "nobody"}}}, "tool_choice.custom.name"),
        (
            {
                "tools": [
                    {
                        "type": "custom",
                        "custom": {
                            "name": "run",
                            "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "(a"}},
                        },
                    }
                ]
            },
            "tools[0].custom.format",
        ),
    ],
)
def test_what_is_refused_in_a_chat(toy: Server, fields: dict[str, Any], param: str) -> None:
    answer = toy.http.post("/v1/chat/completions", json={**CHAT, **fields})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param, answer.text


def test_what_is_refused_in_a_response(toy: Server) -> None:
    lark = {"type": "grammar", "syntax": "lark", "definition": "start: A"}
    tools = [{"type": "custom", "name": "run", "format": lark}]
    answer = toy.http.post("/v1/responses", json={"input": "Do it.", "tools": tools})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[0].format"
    assert "use the syntax regex" in answer.json()["error"]["message"]
