"""Anthropic's bodies as chats, and answers as its messages, however they come."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from llgtrt import _core
from llgtrt.engine import Delta
from llgtrt.openai import messages_schema as schema
from llgtrt.openai import messages_translate as translate
from llgtrt.openai import tools
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError
from llgtrt.openai.known import FORMATS
from llgtrt.openai.messages_render import MessageEvents, MessageWriter, content
from llgtrt.openai.render import Whole
from llgtrt.openai.reply import Reply, Thinking
from llgtrt.openai.translate import messages as chat_messages

from .test_answers import Script, news

USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1, {"b": "c"}]}}
TOOL = {"name": "f", "description": "Does.", "input_schema": {"type": "object"}}


def chat(**fields: Any) -> Any:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100, **fields}
    return translate.chat(parse(json.dumps(body).encode(), schema.MessagesRequest))


def test_a_conversation_becomes_a_chats() -> None:
    talk = [
        {"role": "user", "content": "One."},
        {"role": "user", "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "So:"},
                USE,
                {**USE, "id": "toolu_2"},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "yes"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True},
                {"type": "text", "text": "Well?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    made = chat_messages(chat(messages=talk, system=[{"type": "text", "text": "Be kind."}]))
    call = {"type": "function", "function": {"name": "f", "arguments": USE["input"]}}
    assert made == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "One.\nTwo."},
        {
            "role": "assistant",
            "content": "So:",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "toolu_1", **call}, {"id": "toolu_2", **call}],
        },
        {"role": "tool", "content": "yes", "tool_call_id": "toolu_2", "name": "f"},
        {"role": "tool", "content": "Error: ", "tool_call_id": "toolu_1", "name": "f"},
        {"role": "user", "content": "Well?"},
    ]


@pytest.mark.parametrize(
    ("choice", "mode", "parallel"),
    [
        (None, "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any"}, "required", True),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
        ({"type": "tool", "name": "f"}, "required", False),
        ({"type": "none"}, "none", True),
    ],
)
def test_tools_become_functions(choice: Any, mode: str, parallel: bool) -> None:
    asked = tools.tools(chat(tools=[TOOL, {**TOOL, "name": "g"}], tool_choice=choice))
    assert asked is not None
    assert (asked.mode, asked.parallel) == (mode, parallel)
    assert asked.names == (["f"] if choice and choice["type"] == "tool" else ["f", "g"])
    assert asked.rendered()[0]["function"] == {
        "name": "f",
        "description": "Does.",
        "parameters": {"type": "object"},
    }


def test_fields_become_a_chats() -> None:
    made = chat(
        thinking={"type": "enabled", "budget_tokens": 50},
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"const": 1}}},
        stop_sequences=["x"],
        top_k=7,
        seed=3,
    )
    assert (made.enable_thinking, made.thinking_budget, made.reasoning_effort) == (True, 50, "high")
    assert bytes(made.response_format.json_schema.schema) == b'{"const": 1}'
    assert (made.stop, made.include_stop_str_in_output) == (["x"], True)
    assert (made.max_tokens, made.top_k, made.seed) == (100, 7, 3)
    assert chat(thinking={"type": "disabled"}).enable_thinking is False
    assert chat(thinking={"type": "adaptive"}).enable_thinking is None
    open_ended = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert chat(messages=open_ended).continue_final_message is True
    assert chat().continue_final_message is None
    with pytest.raises(ApiError, match="thinking: not where"):
        chat(messages=open_ended, thinking={"type": "enabled", "budget_tokens": 5})


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"input_examples": [{}]}, "input_examples"),
        ({"defer_loading": True}, "defer_loading"),
        ({"allowed_callers": ["code_execution_20250825"]}, "allowed_callers"),
        ({"input_schema": None}, "input_schema"),
    ],
)
def test_what_tools_cannot_be(tool: dict[str, Any], name: str) -> None:
    with pytest.raises(ApiError, match=rf"^tools\[0\]\.{name}: "):
        chat(tools=[{**TOOL, **tool}])
    chat(tools=[{**TOOL, "type": "custom", "defer_loading": False, "allowed_callers": ["direct"]}])


def reply() -> Reply:
    """Reasoning, which the prompt has opened, then text and calls."""
    asked = tools.tools(chat(tools=[TOOL]))
    return Reply(Thinking(("<think>", "</think>"), True, True), asked, FORMATS["hermes"])


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>'
TEXT = f"Hm, hm.</think>\nSo: {CALL}\n{CALL}END"


COUNTS = {
    "prompt_tokens": 5,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def events(deltas: Sequence[Delta], given: Reply) -> list[dict[str, Any]]:
    writer = MessageWriter("m", given, ["D", "END"])
    return [event for delta in deltas for event in writer.news(delta, COUNTS)]


def test_chunks_come_to_the_same() -> None:
    draw = random.Random(5)
    for _ in range(200):
        places = sorted(draw.sample(range(len(TEXT) - 3), draw.randrange(12)))
        pieces = [TEXT[a:b] for a, b in zip([0, *places], [*places, len(TEXT)], strict=True)]
        last = len(pieces) - 1
        told = events(
            [Delta(0, text, [], "stop" if i == last else None, None) for i, text in enumerate(pieces)],
            reply(),
        )
        blocks = [{n: v for n, v in block.items() if n != "id"} for block in content(told[:-2])]
        assert blocks == [
            {"type": "thinking", "thinking": "Hm, hm.", "signature": blocks[0]["signature"]},
            {"type": "text", "text": "So:"},
            *[{"type": "tool_use", "name": "f", "input": msgspec.Raw(b'{"a": "}"}')}] * 2,
        ]
        assert told[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
        assert told[-2]["usage"] == {
            "input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
        }


@pytest.mark.parametrize(
    ("text", "reason", "told"),
    [
        ("Hm.</think>Yes.", "stop", "end_turn"),
        ("Hm.</think>Yes.", "length", "max_tokens"),
        (f"Hm.</think>{CALL}", "stop", "tool_use"),
        (f"Hm.</think>{CALL}", "length", "max_tokens"),
    ],
)
def test_why_it_ended(text: str, reason: str, told: str) -> None:
    end = events([Delta(0, text, [], reason, None)], reply())[-2]
    assert end["delta"] == {"stop_reason": told, "stop_sequence": None}


@pytest.mark.parametrize("written", ['{"a": 1, "b": "xy', '{"a": {}}', "", "{", None])
def test_calls_that_are_cut_are_left_out(written: str | None) -> None:
    begun = "<tool_c" if written is None else f'<tool_call>\n{{"name": "f", "arguments": {written}'
    writer = MessageWriter("m", reply(), [])
    whole = Whole(f"Hm.</think>So:\n{CALL}\n{begun}", finish_reason="length")
    message = writer.body([whole], COUNTS)
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["stop_reason"] == "max_tokens"


def test_silence_is_a_ping_and_a_failure_an_event() -> None:
    class Silent(Script):
        """Has nothing to say for two looks."""

        looks = 0

        async def news(self, within: float) -> bool:
            self.looks += 1
            return self.looks > 2

    failed = news(error=_core.EngineError("it broke"))
    script = Silent(1, [[news("</think>a")], [failed]])

    async def main() -> bytes:
        going = MessageEvents(script, MessageWriter("m", reply(), ()))
        return b"".join([event async for event in going.events([])])

    names = [line.split("\n")[0] for line in asyncio.run(main()).decode().split("\n\n")]
    assert names == [
        "event: ping",
        "event: ping",
        "event: message_start",
        "event: content_block_start",
        "event: content_block_delta",
        "event: error",
        "",
    ]
