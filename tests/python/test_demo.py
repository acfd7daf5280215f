"""The demo's corpus of calls and reasoning: it is what the server reads and writes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
from demo.calls import KINDS, Caller
from demo.corpus import Conversation, Turn, Writer

from llgtrt.openai.formats import markers
from llgtrt.openai.known import FORMATS
from llgtrt.openai.learn import tool_format
from llgtrt.openai.parse import Grammar, Parser
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Reasoning
from llgtrt.templates import ASK, ChatTemplate

ROOT = Path(__file__).resolve().parent.parent.parent

COUNT = 40
TEMPLATE = (ROOT / "demo" / "template.j2").read_text()
RESPONSE = ("<tool_response>\n", "\n</tool_response>")


@pytest.fixture(scope="module", params=KINDS)
def talks(request: pytest.FixtureRequest) -> list[Conversation]:
    caller = Caller(Writer(Random(request.param), unseen=True))
    return [caller.conversation(request.param) for _ in range(COUNT)]


def parsed(talk: Conversation, turn: Turn) -> tuple[str, str, list[dict[str, Any]]]:
    """What the server's parser finds in an answer: reasoning, content and calls."""
    names = [function["name"] for function in talk.functions]
    thinks = turn.thought is not None
    grammar = Grammar(
        ("<think>", "</think>"),
        thinks,
        FORMATS["hermes"] if talk.functions else None,
        {name: {} for name in names},
    )
    parser = Parser(grammar)
    said = f"{turn.thought}\n</think>\n\n{turn.text}" if thinks else turn.text
    found: dict[type, str] = {Reasoning: "", Content: ""}
    calls: list[dict[str, Any]] = []
    for piece in [*parser.feed(said), *parser.finish()]:
        if isinstance(piece, Call):
            calls.append({"name": piece.name, "arguments": ""})
        elif isinstance(piece, Arguments):
            calls[-1]["arguments"] += piece.text
        elif not isinstance(piece, Done):
            found[type(piece)] += piece.text
    decoded = [{**call, "arguments": json.loads(call["arguments"])} for call in calls]
    return found[Reasoning], found[Content], decoded


def messages(talk: Conversation) -> list[dict[str, Any]]:
    """The conversation up to its last answer, as clients have it."""
    made: list[dict[str, Any]] = []
    if talk.system is not None:
        made.append({"role": "system", "content": talk.system})
    for turn in talk.turns:
        request = turn.request
        if request.startswith(RESPONSE[0]):
            made.append(
                {"role": "tool", "content": request.removeprefix(RESPONSE[0]).removesuffix(RESPONSE[1])}
            )
        else:
            made.append({"role": "user", "content": request})
        _, content, calls = parsed(talk, turn)
        answer: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            answer["tool_calls"] = [{"id": "1", "type": "function", "function": call} for call in calls]
        made.append(answer)
    return made[:-1]


def test_the_template_writes_what_is_trained_on(talks: list[Conversation]) -> None:
    template = ChatTemplate(TEMPLATE, {})
    for talk in talks:
        options = dict(ASK) | {"enable_thinking": talk.turns[-1].thought is not None}
        if talk.functions:
            options["tools"] = [{"type": "function", "function": function} for function in talk.functions]
        assert template.render(messages(talk), options) == talk.prompt(len(talk.turns) - 1)


def test_arguments_are_what_the_functions_take(talks: list[Conversation]) -> None:
    for talk in talks:
        known = {function["name"]: function["parameters"] for function in talk.functions}
        assert len(known) == len(talk.functions), "names are told apart"
        for turn in talk.turns:
            reasoning, content, calls = parsed(talk, turn)
            assert reasoning == (turn.thought or "")
            assert bool(calls) == (turn.kind in ("call", "parallel", "think-call"))
            assert bool(content) != bool(calls)
            for call in calls:
                jsonschema.validate(call["arguments"], known[call["name"]])


def test_the_server_knows_the_template() -> None:
    assert tool_format("auto", ChatTemplate(TEMPLATE, {})) == FORMATS["hermes"]
    assert markers(None, TEMPLATE) == ("<think>", "</think>")
    shipped = json.loads((ROOT / "demo" / "target" / "tokenizer_config.json").read_text())
    assert shipped["chat_template"] == TEMPLATE


def test_earlier_reasoning_is_left_out() -> None:
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"},
        {"role": "user", "content": "</think> d"},
    ]
    written = ChatTemplate(TEMPLATE, {}).render(talk)
    assert "<think>" not in written
    assert "assistant\nc<|im_end|>\n<|im_start|>user\n</think> d<|im_end|>" in written
