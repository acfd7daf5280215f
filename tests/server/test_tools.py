"""Functions and reasoning through the official client, on the weightless engine and on the demo model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pydantic
import pytest

from .serving import Server, serving
from .test_chat import validate

HI: Any = [{"role": "user", "content": "hi"}]
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome"]},
        "days": {"enum": [1, 2, 30]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
SWITCH = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}},
    "required": ["on"],
    "additionalProperties": False,
}
SCHEMAS = {"get_weather": WEATHER, "switch": SWITCH}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in SCHEMAS.items()
]
END = "</think>"


@pytest.fixture(
    scope="module",
    params=["hermes", "llama3_json", "mistral", "json", "qwen3_coder", "glm", "gemma", "python", "kimi"],
)
def caller(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server whose model writes calls in one of the formats."""
    with serving("toy", config={"server": {"tool_format": request.param}}) as server:
        yield server.wait_ready()


def ask(server: Server, **fields: Any) -> dict[str, Any]:
    """The body of an answer."""
    answer = server.http.post("/v1/chat/completions", json={"messages": HI, "max_tokens": 400, **fields})
    body: dict[str, Any] = answer.json()
    assert answer.status_code == 200, body
    return body


def streamed(server: Server, **fields: Any) -> list[dict[str, Any]]:
    """The chunks of a stream."""
    settings = {"messages": HI, "max_tokens": 400, "stream": True, **fields}
    with server.http.stream("POST", "/v1/chat/completions", json=settings) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def check(calls: list[Any]) -> None:
    for call in calls:
        jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMAS[call["function"]["name"]])
    assert len({call["id"] for call in calls}) == len(calls)


def put_together(chunks: list[dict[str, Any]]) -> tuple[dict[str, str], list[Any], str]:
    """Texts, calls and the reason of the end, from the deltas of one choice."""
    texts = {"content": "", "reasoning_content": ""}
    calls: list[Any] = []
    reason = ""
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        for name in texts:
            texts[name] += choice["delta"].get(name) or ""
        for call in choice["delta"].get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"id": call["id"], "type": call["type"], "function": dict(call["function"])})
                assert call["function"]["name"] in SCHEMAS
            else:
                assert "name" not in call["function"]
                assert "id" not in call
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return texts, calls, reason


def test_a_required_call_is_a_call(caller: Server, spec: Any) -> None:
    functions = set()
    for seed in range(12):
        fields: Any = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "temperature": 1.5}
        body = ask(caller, **fields, parallel_tool_calls=False)
        validate(spec, "CreateChatCompletionResponse", body)
        choice = body["choices"][0]
        calls = choice["message"]["tool_calls"]
        assert (choice["finish_reason"], len(calls), choice["message"]["content"]) == ("tool_calls", 1, None)
        check(calls)
        functions.add(calls[0]["function"]["name"])
    assert functions == set(SCHEMAS)


def test_several_calls_in_one_answer(caller: Server) -> None:
    counts = set()
    for seed in range(12):
        body = ask(caller, tools=TOOLS, tool_choice="required", seed=seed, temperature=1.5, max_tokens=1500)
        choice = body["choices"][0]
        if choice["finish_reason"] == "tool_calls":
            check(choice["message"]["tool_calls"])
            counts.add(len(choice["message"]["tool_calls"]))
    assert max(counts) > 1


def test_a_named_function_is_called(caller: Server) -> None:
    named = {"type": "function", "function": {"name": "switch"}}
    for seed in range(4):
        calls = ask(caller, tools=TOOLS, tool_choice=named, seed=seed)["choices"][0]["message"]["tool_calls"]
        assert [call["function"]["name"] for call in calls] == ["switch"]
        check(calls)


def test_calls_or_the_schema(caller: Server) -> None:
    wanted = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    schema = {**wanted, "additionalProperties": False}
    kinds: set[str] = set()
    for seed in range(60):
        body = ask(
            caller,
            tools=TOOLS,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            parallel_tool_calls=False,
            seed=seed,
            temperature=2,
        )
        message, reason = body["choices"][0]["message"], body["choices"][0]["finish_reason"]
        kinds.add(reason)
        if reason == "tool_calls":
            check(message["tool_calls"])
        else:
            assert reason == "stop"
            jsonschema.validate(json.loads(message["content"]), schema)
            assert "tool_calls" not in message
        if len(kinds) == 2:
            break
    assert kinds == {"stop", "tool_calls"}


@pytest.mark.parametrize("drafts", [True, False])
def test_streams_come_to_the_same(caller: Server, spec: Any, drafts: bool) -> None:
    for seed in range(4):
        fields: Any = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "max_tokens": 1500}
        whole = ask(caller, **fields)["choices"][0]
        chunks = streamed(caller, **fields, speculative={"enabled": drafts})
        for chunk in chunks:
            validate(spec, "CreateChatCompletionStreamResponse", chunk)
        texts, calls, reason = put_together(chunks)
        assert reason == whole["finish_reason"]
        assert texts == {"content": "", "reasoning_content": ""}
        expected = [call["function"] for call in whole["message"]["tool_calls"]]
        assert [call["function"] for call in calls] == expected


def test_several_choices_are_told_apart(caller: Server) -> None:
    fields: Any = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "n": 6, "seed": 8}
    whole = ask(caller, **fields)["choices"]
    chunks = streamed(caller, **fields)
    for index, choice in enumerate(whole):
        own = [{"choices": [c for c in chunk["choices"] if c["index"] == index]} for chunk in chunks]
        _, calls, reason = put_together(own)
        assert reason == choice["finish_reason"] == "tool_calls"
        assert calls[0]["function"] == choice["message"]["tool_calls"][0]["function"]
        check(calls)
    assert len({choice["message"]["tool_calls"][0]["function"]["arguments"] for choice in whole}) > 1


def test_free_text_stays_free(caller: Server) -> None:
    """The weightless model hardly begins a call by itself."""
    plain = ask(caller, seed=5, max_tokens=40)["choices"][0]
    for choice in ("auto", "none"):
        told = ask(caller, seed=5, max_tokens=40, tools=TOOLS, tool_choice=choice)["choices"][0]
        assert set(told["message"]) == set(plain["message"])
        assert told["finish_reason"] in ("stop", "length")


def test_the_older_fields(caller: Server, spec: Any) -> None:
    functions = [{"name": name, "parameters": parameters} for name, parameters in SCHEMAS.items()]
    body = ask(caller, functions=functions, function_call={"name": "switch"}, seed=1)
    validate(spec, "CreateChatCompletionResponse", body)
    choice = body["choices"][0]
    assert choice["finish_reason"] == "function_call"
    call = choice["message"]["function_call"]
    assert call["name"] == "switch"
    jsonschema.validate(json.loads(call["arguments"]), SWITCH)


def test_schemas_that_cannot_be_enforced_name_their_place(caller: Server) -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}
    tools = [*TOOLS, {"type": "function", "function": {"name": "f", "parameters": wrong}}]
    for choice in ("auto", "required"):
        fields = {"messages": HI, "tools": tools, "tool_choice": choice}
        answer = caller.http.post("/v1/chat/completions", json=fields)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"], error["code"]) == (
            400,
            "tools[2].function.parameters",
            "unsupported_grammar",
        )
        assert "/properties/a" in error["message"]


def test_the_history_of_calls_is_read(caller: Server) -> None:
    first = ask(caller, tools=TOOLS, tool_choice="required", seed=3, parallel_tool_calls=False)
    message = first["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    second = ask(caller, tools=TOOLS, messages=[*HI, message, result], max_tokens=20)
    assert second["usage"]["prompt_tokens"] > first["usage"]["prompt_tokens"]


class Switch(pydantic.BaseModel):
    """Turns something on or off."""

    on: bool


def test_the_official_clients_helpers(caller: Server) -> None:
    with caller.client() as api:
        parsed = api.chat.completions.parse(
            model="toy",
            messages=HI,
            tools=[openai.pydantic_function_tool(Switch)],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=1,
        )
        calls = parsed.choices[0].message.tool_calls
        assert calls is not None
        assert isinstance(calls[0].function.parsed_arguments, Switch)
        with api.chat.completions.stream(
            model="toy", messages=HI, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, seed=2
        ) as stream:
            grown = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
            final = stream.get_final_completion().choices[0]
        assert grown
        assert final.finish_reason == "tool_calls"
        assert final.message.tool_calls is not None
        check([call.model_dump() for call in final.message.tool_calls])


@pytest.mark.parametrize("drafts", [True, False])
@pytest.mark.parametrize("budget", [0, 1, 7, 40])
def test_reasoning_ends_after_exactly_its_budget(thinker: Server, budget: int, drafts: bool) -> None:
    fields: Any = {"thinking_budget": budget, "regex": "[0-9]{3}", "seed": budget}
    body = ask(thinker, **fields, speculative={"enabled": drafts})
    choice, usage = body["choices"][0], body["usage"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].isdigit()
    # Every byte of the marker is a token of the weightless vocabulary.
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    assert (reasoning, usage["completion_tokens"]) == (budget + len(END), budget + len(END) + 3)
    if budget == 0:
        assert "reasoning_content" not in choice["message"]


def test_the_grammar_begins_behind_the_reasoning(thinker: Server) -> None:
    for n, fields in enumerate(({}, {"logprobs": True, "top_logprobs": 2})):
        more: Any = {"thinking_budget": 20, "tools": TOOLS, "tool_choice": "required", **fields, "seed": n}
        whole = ask(thinker, **more, parallel_tool_calls=False)["choices"][0]
        check(whole["message"]["tool_calls"])
        chunks = streamed(thinker, **more, parallel_tool_calls=False)
        texts, calls, reason = put_together(chunks)
        assert reason == "tool_calls"
        assert texts == {"content": "", "reasoning_content": whole["message"]["reasoning_content"]}
        assert [c["function"] for c in calls] == [c["function"] for c in whole["message"]["tool_calls"]]
        if fields:
            entries = [
                entry
                for chunk in chunks
                for choice in chunk["choices"]
                for entry in (choice["logprobs"] or {}).get("content", ())
            ]
            assert entries == whole["logprobs"]["content"]


def test_reasoning_that_is_cut_is_no_content(thinker: Server) -> None:
    choice = ask(thinker, max_tokens=12, seed=1, ignore_eos=True)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "")
    assert choice["message"]["reasoning_content"]
