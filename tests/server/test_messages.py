"""`/v1/messages` as any HTTP client sees it, on the demo model and the weightless engine, which reasons."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from .serving import Server, serving
from .test_tools import END, SCHEMAS

HI: Any = [{"role": "user", "content": "Where is the harbour?"}]
TOOLS: Any = [
    {"name": name, "description": f"The tool {name}.", "input_schema": schema}
    for name, schema in SCHEMAS.items()
]
PAGE = "/v1/messages"


def ask(server: Server, **fields: Any) -> dict[str, Any]:
    """The message."""
    settings = {"messages": HI, "max_tokens": 200, "seed": 1, **fields}
    answer = server.http.post(PAGE, json=settings)
    body: dict[str, Any] = answer.json()
    assert answer.status_code == 200, body
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    assert (body["type"], body["role"]) == ("message", "assistant")
    assert body["id"].startswith("msg_")
    return body


def streamed(server: Server, **fields: Any) -> list[dict[str, Any]]:
    """The events of a stream, each under its own name."""
    settings = {"messages": HI, "max_tokens": 200, "seed": 1, "stream": True, **fields}
    events: list[dict[str, Any]] = []
    with server.http.stream("POST", PAGE, json=settings) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line:
                events.append(json.loads(line.removeprefix("data: ")))
                assert events[-1]["type"] == name
    return [event for event in events if event["type"] != "ping"]


GROWS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream comes to; its events must come in their order."""
    message: dict[str, Any] = events[0]["message"]
    assert (events[0]["type"], message["content"], message["stop_reason"]) == ("message_start", [], None)
    grown, is_open = "", False
    for event in events[1:-2]:
        blocks = message["content"]
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
            grown, is_open = "", True
            continue
        assert is_open
        assert event["index"] == len(blocks) - 1
        block = blocks[-1]
        if event["type"] == "content_block_stop":
            is_open = False
            if block["type"] == "tool_use":
                block["input"] = json.loads(grown)
            continue
        delta = event["delta"]
        if delta["type"] == "signature_delta":
            block["signature"] = delta["signature"]
            continue
        kind, name = GROWS[block["type"]]
        assert delta["type"] == kind
        grown += delta[name]
        if block["type"] != "tool_use":
            block[name] = grown
    assert not is_open
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    return {**message, **events[-2]["delta"], "usage": {**message["usage"], **events[-2]["usage"]}}


def shown(message: dict[str, Any]) -> tuple[Any, ...]:
    """All of a message that does not depend on when it was made."""
    blocks = [{n: v for n, v in block.items() if n != "id"} for block in message["content"]]
    usage = message["usage"]
    read = usage["input_tokens"] + usage["cache_read_input_tokens"]
    written = usage["output_tokens"], usage["output_tokens_details"]
    return blocks, message["stop_reason"], message["stop_sequence"], read, written


def test_a_message_is_the_chats_answer(demo: Server) -> None:
    system = [{"type": "text", "text": "Be short."}, {"type": "text", "text": " Be kind."}]
    own = ask(demo, system=system, temperature=0.7, top_p=0.9, top_k=40, max_tokens=40)
    chat = {
        "messages": [{"role": "system", "content": "Be short. Be kind."}, *HI],
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 40,
        "seed": 1,
    }
    body = demo.http.post("/v1/chat/completions", json=chat).json()
    choice, usage = body["choices"][0], body["usage"]
    assert own["content"] == [{"type": "text", "text": choice["message"]["content"]}]
    assert own["stop_reason"] == {"stop": "end_turn", "length": "max_tokens"}[choice["finish_reason"]]
    counted = own["usage"]
    assert counted["input_tokens"] + counted["cache_read_input_tokens"] == usage["prompt_tokens"]
    assert counted["output_tokens"] == usage["completion_tokens"]
    told = demo.http.post(f"{PAGE}/count_tokens", json={"messages": HI, "system": system}).json()
    assert told == {"input_tokens": usage["prompt_tokens"]}


@pytest.mark.parametrize("drafts", [True, False])
@pytest.mark.parametrize("choice", [None, "any", "tool", "none"])
def test_streams_come_to_the_same(demo: Server, choice: str | None, drafts: bool) -> None:
    fields: dict[str, Any] = {"tools": TOOLS} if choice else {}
    if choice:
        fields["tool_choice"] = {"type": choice, **({"name": "switch"} if choice == "tool" else {})}
    for seed in range(3):
        whole = ask(demo, **fields, seed=seed)
        events = streamed(demo, **fields, seed=seed, speculative={"enabled": drafts})
        assert shown(put_together(events)) == shown(whole)


def test_tools_are_used(demo: Server) -> None:
    used = set()
    for seed in range(9):
        # The model is sure which one it wants, so that each is also offered alone.
        tools = (TOOLS, TOOLS[:1], TOOLS[1:])[seed % 3]
        choice = {"type": "any", "disable_parallel_tool_use": True}
        body = ask(demo, tools=tools, tool_choice=choice, seed=seed, temperature=1.5)
        (block,) = body["content"]
        assert (block["type"], body["stop_reason"]) == ("tool_use", "tool_use")
        assert block["id"].startswith("toolu_")
        assert block["name"] in [tool["name"] for tool in tools]
        jsonschema.validate(block["input"], SCHEMAS[block["name"]])
        used.add(block["name"])
    assert used == set(SCHEMAS)
    named = ask(demo, tools=TOOLS, tool_choice={"type": "tool", "name": "switch"})
    assert [block["name"] for block in named["content"]] == ["switch"]
    free = ask(demo, tools=TOOLS, tool_choice={"type": "none"}, max_tokens=20)
    assert {block["type"] for block in free["content"]} <= {"text"}


def test_uses_without_room_to_be_whole_are_refused(demo: Server) -> None:
    long = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": "x" * 300}}}
    tools = [{"name": "f", "input_schema": {**long, "required": ["a", "b"], "additionalProperties": False}}]
    asked = {"messages": HI, "tools": tools, "tool_choice": {"type": "any"}}
    refused = demo.http.post("/v1/messages", json={**asked, "max_tokens": 25})
    assert refused.status_code == 400
    least = int(refused.json()["error"]["message"].split("at least ")[1].split()[0])
    body = ask(demo, tools=tools, tool_choice={"type": "any"}, max_tokens=least)
    assert body["stop_reason"] == "tool_use"
    assert body["content"][0]["input"] == {"a": 1, "b": "x" * 300}


def test_results_of_tools_are_read(demo: Server) -> None:
    choice = {"type": "any"}
    first = ask(demo, tools=TOOLS, tool_choice=choice)
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "done"}]}
        for block in first["content"]
    ]
    words = {"type": "text", "text": "And now?"}
    talk = [
        *HI,
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [*results, words]},
    ]
    second = ask(demo, messages=talk, tools=TOOLS, max_tokens=20)
    assert second["usage"]["output_tokens"] > 0
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in first["content"]
    ]
    chat: dict[str, Any] = {
        "tools": [
            {
                "type": "function",
                "function": {n: tool[n] for n in ("name", "description")}
                | {"parameters": tool["input_schema"]},
            }
            for tool in TOOLS
        ],
        "messages": [
            *HI,
            {"role": "assistant", "content": None, "tool_calls": calls},
            *(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "name": call["function"]["name"],
                    "content": "done",
                }
                for call in calls
            ),
            {"role": "user", "content": "And now?"},
        ],
    }
    told = demo.http.post("/v1/chat/completions/render", json=chat).json()
    counted = demo.http.post(f"{PAGE}/count_tokens", json={"messages": talk, "tools": TOOLS}).json()
    assert counted == {"input_tokens": told["count"]}


def test_an_answer_goes_on_with_the_last_message(demo: Server) -> None:
    talk = [*HI, {"role": "assistant", "content": "The harbour is"}]
    own = ask(demo, messages=talk, max_tokens=12)
    chat = {"messages": talk, "continue_final_message": True, "max_tokens": 12, "seed": 1}
    body = demo.http.post("/v1/chat/completions", json=chat).json()
    assert own["content"] == [{"type": "text", "text": body["choices"][0]["message"]["content"]}]


def test_what_stopped_is_named_and_not_shown(demo: Server) -> None:
    text = ask(demo, max_tokens=40)["content"][0]["text"]
    stop = text[len(text) // 2 :][:3]
    for answer in (
        ask(demo, max_tokens=40, stop_sequences=["never there", stop]),
        put_together(streamed(demo, max_tokens=40, stop_sequences=["never there", stop])),
    ):
        assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", stop)
        assert answer["content"] == [{"type": "text", "text": text[: text.index(stop)]}]


@pytest.mark.parametrize("older", [True, False])
def test_answers_have_the_wanted_form(demo: Server, older: bool) -> None:
    wanted = {"type": "json_schema", "schema": SCHEMAS["get_weather"]}
    fields = {"output_format": wanted} if older else {"output_config": {"format": wanted}}
    (block,) = ask(demo, **fields)["content"]
    jsonschema.validate(json.loads(block["text"]), SCHEMAS["get_weather"])


@pytest.mark.parametrize("drafts", [True, False])
def test_reasoning_comes_first(thinker: Server, drafts: bool) -> None:
    fields: Any = {
        "thinking": {"type": "enabled", "budget_tokens": 20},
        "tools": TOOLS,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }
    whole = ask(thinker, **fields)
    assert [block["type"] for block in whole["content"]] == ["thinking", "tool_use"]
    assert whole["content"][0]["signature"]
    jsonschema.validate(whole["content"][1]["input"], SCHEMAS[whole["content"][1]["name"]])
    assert whole["usage"]["output_tokens_details"] == {"thinking_tokens": 20 + len(END)}
    events = streamed(thinker, **fields, speculative={"enabled": drafts})
    assert shown(put_together(events)) == shown(whole)
    talk = [*HI, {"role": "assistant", "content": whole["content"]}]
    result = {"type": "tool_result", "tool_use_id": whole["content"][1]["id"], "is_error": True}
    ask(thinker, messages=[*talk, {"role": "user", "content": [result]}], max_tokens=5)


def test_no_reasoning_where_it_is_turned_off(thinker: Server) -> None:
    body = ask(thinker, thinking={"type": "disabled"}, max_tokens=30)
    assert "thinking" not in {block["type"] for block in body["content"]}
    assert body["usage"]["output_tokens_details"] == {"thinking_tokens": len(END)}


USE = {"type": "tool_use", "id": "toolu_1", "name": "switch", "input": {"on": True}}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [*HI, {"role": "assistant", "content": [USE]}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"tools": [{"name": "web", "type": "web_search_20250305"}]}, "tools[0].type"),
        ({"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "tools[0].name"),
        ({"tools": [{"name": "f", "input_schema": {"type": "string"}}]}, "tools[0].input_schema"),
        (
            {"tools": [{"name": "f", "input_schema": {"type": "object", "minProperties": "x"}}]},
            "tools[0].input_schema",
        ),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "nobody"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 400}}, "thinking.budget_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"n": 2}, "n"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"thread": {"type": "create"}}, "thread"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"minimum": "x"}}}},
            "output_config.format",
        ),
    ],
)
def test_bad_bodies_are_refused_by_name(toy: Server, fields: dict[str, Any], name: str) -> None:
    for stream in (False, True):
        body = {"messages": HI, "max_tokens": 40, "stream": stream, **fields}
        answer = toy.http.post(PAGE, json={n: v for n, v in body.items() if v is not None})
        told = answer.json()
        assert (answer.status_code, told["type"], told["error"]["type"]) == (
            400,
            "error",
            "invalid_request_error",
        )
        assert told["error"]["message"].startswith(f"{name}: "), told


def test_a_conversation_held_by_the_server_is_refused_so_that_the_sdk_sends_its_own(toy: Server) -> None:
    for thread in {"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}:
        body = {"messages": HI, "max_tokens": 4, "thread": thread}
        told = toy.http.post(PAGE, json=body).json()["error"]
        assert told["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert ask(toy, thread=None)


def test_errors_before_a_handler_have_the_same_form() -> None:
    config = {"server": {"api_keys": ["one", "two"], "max_body_bytes": 1000}}
    with serving("toy", config=config) as server:
        server.wait_ready()
        body = {"messages": HI, "max_tokens": 4}

        def said(status: int, headers: dict[str, str], path: str = PAGE, **fields: Any) -> str:
            answer = server.http.post(path, json={**body, **fields}, headers=headers)
            assert answer.status_code == status, answer.text
            told = answer.json()
            assert told["type"] == ("message" if status == 200 else "error")
            kind: str = "" if status == 200 else told["error"]["type"]
            return kind

        key = {"x-api-key": "two"}
        assert said(200, key) == ""
        assert said(200, {"authorization": "Bearer one"}) == ""
        assert said(401, {}) == said(401, {"x-api-key": "three"}) == "authentication_error"
        assert said(413, key, system="x" * 2000) == "request_too_large"
        assert said(404, key, model="another") == "not_found_error"
        assert said(404, key, path=f"{PAGE}/nothing") == "not_found_error"
        assert server.http.get("/v1/models", headers=key).status_code == 200
