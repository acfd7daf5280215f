"""Answers told apart: a pure function of the text, however it is cut."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from llgtrt.openai.formats import FORMATS
from llgtrt.openai.parse import Arguments, Call, Content, Grammar, Parser, Piece, Reasoning

THINK = ("<think>", "</think>")
NAMES = ("get", "get_all", "look-up")
ARGUMENTS = (
    "{}",
    '{"a": "</tool_call>]}{[\\"\\\\"}',
    '{"city": "Zürich 😀", "n": [1, {"x": null}], "q": "a\\nb"}',
    '["[TOOL_CALLS]", "<think>"]',
)


def merged(pieces: list[Piece]) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, content and calls."""
    reasoning, content = "", ""
    names: dict[int, str] = {}
    arguments: defaultdict[int, str] = defaultdict(str)
    for piece in pieces:
        match piece:
            case Reasoning(text):
                reasoning += text
            case Content(text):
                content += text
            case Call(index, name):
                assert index not in names, "the name comes once"
                names[index] = name
            case Arguments(index, text):
                assert index in names, "behind the name"
                arguments[index] += text
    assert list(names) == list(range(len(names)))
    return reasoning, content, [(names[i], arguments[i]) for i in names]


def parsed(grammar: Grammar, chunks: list[str]) -> tuple[str, str, list[tuple[str, str]]]:
    parser = Parser(grammar)
    return merged([piece for chunk in chunks for piece in parser.feed(chunk)] + parser.finish())


def cut(text: str, draw: random.Random) -> list[str]:
    places = sorted(draw.sample(range(len(text) + 1), min(len(text), draw.randint(0, 12))))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def answers(draw: random.Random) -> tuple[Grammar, str]:
    """What a model may have written in one of the formats, whole or cut short."""
    name = draw.choice(list(FORMATS))
    style = FORMATS[name]
    markers = draw.choice([None, THINK, THINK])
    inside = markers is not None and draw.random() < 0.5
    text = ""
    if markers and (inside or draw.random() < 0.5):
        text = ("" if inside else "\n<think>") + draw.choice(["", "\nI < you </thin>\n", "a\n\n b {"])
        text += draw.choice(["</think>\n\n", "</think>", "\n</think>"])
    if not style.at_start:
        text += draw.choice(["", "Let me see. ", "a < b\n", " <tool_ [TOOL_ "])
    calls = [(draw.choice(NAMES), draw.choice(ARGUMENTS)) for _ in range(draw.randint(0, 3))]
    if calls:
        text += style.write(calls)
        if style.resumes:
            text += draw.choice(["", "\n", "\n\nDone."])
    else:
        text += draw.choice(["plain", '{"name": "Bob"}', "{ }", "", " \n"])
    if draw.random() < 0.3:
        text = text[: draw.randint(0, len(text))]
    return Grammar(markers, inside, draw.choice([style, style, style, None]), NAMES), text


def test_any_cut_gives_the_same_parts() -> None:
    for seed in range(1500):
        draw = random.Random(seed)
        grammar, text = answers(draw)
        whole = parsed(grammar, [text])
        for chunks in (list(text), cut(text, draw), cut(text, draw)):
            assert parsed(grammar, chunks) == whole, (seed, grammar, text)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_calls_come_back_as_they_were_written(name: str, arguments: str) -> None:
    grammar = Grammar(format=FORMATS[name], names=NAMES)
    calls = [("get_all", arguments), ("get", "{}"), ("look-up", arguments)]
    for count in (1, 2, 3):
        assert parsed(grammar, list(FORMATS[name].write(calls[:count]))) == ("", "", calls[:count])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>\nhm\n</think>\n\nYes.", ("hm", "Yes.", [])),
        ("Yes.\n", ("", "Yes.\n", [])),
        ("  Yes.", ("", "  Yes.", [])),
        ("<think>cut sho", ("cut sho", "", [])),
        ("<think>a</thi", ("a</thi", "", [])),
        ("<think></think>x", ("", "x", [])),
        ('Look:\n<tool_call>\n{"name": "get", "arguments": {"a":', ("", "Look:", [("get", '{"a":')])),
        ('<tool_call>\n{"name": "ge', ("", "", [])),
        (
            '<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>\nDone.\n',
            ("", "Done.", [("get", "{}")]),
        ),
        ("a <tool_ca", ("", "a <tool_ca", [])),
        ("a <tool_cat> b", ("", "a <tool_cat> b", [])),
    ],
)
def test_parts_of_texts(text: str, parts: tuple[str, str, list[tuple[str, str]]]) -> None:
    assert parsed(Grammar(THINK, False, FORMATS["hermes"], NAMES), list(text)) == parts


def test_text_is_told_as_soon_as_it_is_certain() -> None:
    parser = Parser(Grammar(format=FORMATS["hermes"], names=NAMES))
    assert parser.feed("Hello <") == [Content("Hello")]
    assert parser.feed("b>") == [Content(" <b>")]
    assert parser.feed('<tool_call>\n{"name": "get_all"') == []
    assert parser.feed(', "arguments": {"a": "') == [Call(0, "get_all"), Arguments(0, '{"a": "')]
    assert parser.feed("x") == [Arguments(0, "x")]


def test_json_that_is_no_call_is_content() -> None:
    grammar = Grammar(format=FORMATS["llama3_json"], names=NAMES)
    for text in ('{"name": "Bob", "parameters": {}}', '{"names": 1}', "hi {"):
        assert parsed(grammar, list(text)) == ("", text, [])
    text = '{"name": "get", "parameters": {"a": 1}}'
    assert parsed(grammar, list(text)) == ("", "", [("get", '{"a": 1}')])
