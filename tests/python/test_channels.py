"""Formats in which the parts of an answer are channels: Functionary 3.2, Kimi K3, Muse Glimmer, gpt-oss."""

from __future__ import annotations

from typing import Any

import pytest

from llgtrt.openai.parse import Grammar, Parser
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Piece, Reasoning
from llgtrt.templates import ChatTemplate

from .test_published import published  # noqa: F401 (a fixture)
from .test_tools import TOOLS, made

FUNCTIONARY, K3 = "meetkai-functionary-medium-v3.2", "Kimi-K3"
MUSE, OSS = "muse-glimmer", "openai-gpt-oss-120b"
OPEN, CLOSE = "<|open|>{}<|sep|>", "<|close|>{}<|sep|>"
SILENT = OPEN.format("response") + CLOSE.format("response")
ARGUMENT = '<|open|>argument key="n" type="number"<|sep|>1<|close|>argument<|sep|>'
K3_CALL = f'<|open|>call tool="get" index="1"<|sep|>{ARGUMENT}<|close|>call<|sep|>'
K3_PUT = '<|open|>call tool="put" index="2"<|sep|><|close|>call<|sep|>'
K3_CALLS = f"<|open|>tools<|sep|>{K3_CALL}{K3_PUT}<|close|>tools<|sep|><|close|>message<|sep|>"
MARKUP = (
    '<atem:function_calls>\n<atem:invoke name="get">\n<atem:parameter name="n">1</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls>"
)
MUSE_CALL = f" to=get<|message|>{MARKUP}"
ONE: list[Piece] = [Call(0, "get"), Arguments(0, '{"n": 1}'), Done(0)]
PUT: list[Piece] = [Call(1, "put"), Arguments(1, "{}"), Done(1)]


def joined(pieces: list[Piece]) -> list[Piece]:
    """Pieces of the same kind as one."""
    made: list[Piece] = []
    for piece in pieces:
        last = made[-1] if made else None
        match last, piece:
            case (Content(before), Content(text)):
                made[-1] = Content(before + text)
            case (Reasoning(before), Reasoning(text)):
                made[-1] = Reasoning(before + text)
            case (Arguments(index, before), Arguments(_, text)):
                made[-1] = Arguments(index, before + text)
            case _:
                made.append(piece)
    return made


def told(grammar: Grammar, text: str) -> list[Piece]:
    """The pieces of an answer, which are the same however it is cut."""
    whole, apart = Parser(grammar), Parser(grammar)
    found = joined([*whole.feed(text), *whole.finish()])
    assert joined([piece for c in text for piece in apart.feed(c)] + apart.finish()) == found
    return found


@pytest.mark.parametrize(
    ("name", "fields", "text", "expected"),
    [
        (FUNCTIONARY, {}, "all\nHello,\nall\nof you", [Content("Hello,\nall\nof you")]),
        (FUNCTIONARY, {}, "all\nget\n{}", [Content("get\n{}")]),
        (FUNCTIONARY, {}, 'get\n{"n": 1}', ONE),
        (FUNCTIONARY, {}, 'get\n{"n": 1}>>>put\n{}', ONE + PUT),
        (FUNCTIONARY, {}, 'all\n>>> x\n>>>get\n{"n": 1}', [Content(">>> x"), *ONE]),
        (FUNCTIONARY, {}, "Hello >>>", [Content("Hello >>>")]),
        (FUNCTIONARY, {"tool_choice": "none"}, "all\nHello", [Content("Hello")]),
        (K3, {}, f"Hm.{CLOSE.format('think')}{SILENT}{K3_CALLS}", [Reasoning("Hm."), *ONE, *PUT]),
        (
            K3,
            {},
            f"Hm.{CLOSE.format('think')}{OPEN.format('response')}On it.{CLOSE.format('response')}{K3_CALLS}",
            [Reasoning("Hm."), Content("On it."), *ONE, *PUT],
        ),
        (
            K3,
            {"enable_thinking": False},
            f"Use the response tag.{CLOSE.format('response')}{CLOSE.format('message')}",
            [Content("Use the response tag.")],
        ),
        (MUSE, {}, MUSE_CALL, ONE),
        (
            MUSE,
            {},
            f" to=self<|message|>I could {MARKUP}<|eom|><|start|>assistant{MUSE_CALL}",
            [Reasoning(f"I could {MARKUP}"), *ONE],
        ),
        (
            MUSE,
            {},
            f" to=user<|message|>Hello!<|eom|><|start|>assistant{MUSE_CALL}",
            [Content("Hello!"), *ONE],
        ),
        (
            MUSE,
            {},
            f" to=user<|message|>You invoke it like this:\n{MARKUP}",
            [Content(f"You invoke it like this:\n{MARKUP}")],
        ),
        *(
            (OSS, {}, f"<|channel|>{channel} to=functions.get{header}<|message|>{{}}", EMPTY)
            for channel in ("analysis", "commentary")
            for header in (" <|constrain|>json", " json", "")
            for EMPTY in [[Call(0, "get"), Arguments(0, "{}"), Done(0)]]
        ),
        (
            OSS,
            {},
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.get"
            '<|channel|>analysis<|message|>{"n": 1}',
            [Reasoning("Hm."), *ONE],
        ),
    ],
)
def test_channels(
    published: dict[str, ChatTemplate],  # noqa: F811
    name: str,
    fields: dict[str, Any],
    text: str,
    expected: list[Piece],
) -> None:
    parts = made(published[name].source, tools=TOOLS, **fields)[2]
    assert told(parts, text) == expected


def test_what_the_prompt_has_begun_is_not_written_again(
    published: dict[str, ChatTemplate],  # noqa: F811
) -> None:
    required: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required"}
    prompt, core, _ = made(published[FUNCTIONARY].source, **required)
    assert prompt.endswith(">>>")
    assert core["calls"]["begun"] == ">>>"
    core = made(published[FUNCTIONARY].source, regex="a+")[1]
    assert core["sections"][0] == {"bound": {"grammar": {"text": "all\n"}, "next": 1}}
    core = made(published[FUNCTIONARY].source, tools=TOOLS)[1]
    begin, text = (section["free"]["triggers"] for section in core["sections"][:2])
    assert [one["text"] for one in begin if one["at_start"]] == ["all\n", "cut\n", "get\n", "put\n"]
    assert [one["text"] for one in text] == [">>>all\n", ">>>cut\n", ">>>get\n", ">>>put\n"]
    assert not any(one["at_start"] for one in text)
    core = made(published[K3].source, **required, enable_thinking=False)[1]
    calls = core["calls"]
    assert (calls["begun"], calls["open"]) == (OPEN.format("response"), SILENT + OPEN.format("tools"))
    core = made(published[K3].source, **required)[1]
    assert core["sections"][1]["bound"]["grammar"]["calls"]["begun"] == ""
    # An answer in the place of calls has its mark.
    core = made(published[K3].source, tools=TOOLS, regex="a+")[1]
    calls = core["sections"][1]["bound"]["grammar"]["calls"]
    assert (calls["lead"], calls["or"]) == (OPEN.format("response"), {"regex": "a+"})


def test_a_message_that_goes_on_needs_no_mark(published: dict[str, ChatTemplate]) -> None:  # noqa: F811
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well, "}]
    fields: dict[str, Any] = {"messages": talk, "continue_final_message": True}
    for name in (FUNCTIONARY, OSS):
        assert made(published[name].source, regex="a+", add_generation_prompt=False, **fields)[1] == {
            "regex": "a+"
        }
