"""Answers told apart: a pure function of the text, however it is cut."""

from __future__ import annotations

import json
import random
from collections import defaultdict

import pytest

from llgtrt.openai.arguments import Types
from llgtrt.openai.known import FORMATS
from llgtrt.openai.parse import Grammar, Parser, whole
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Piece, Reasoning

THINK = ("<think>", "</think>")
NAMES = ("get", "get_all", "look-up")
TYPES: Types = {"mixed": frozenset({"string", "null", "number"}), "text": frozenset({"string"})}
FUNCTIONS = dict.fromkeys(NAMES, TYPES)
ARGUMENTS = (
    "{}",
    '{"a": "</tool_call>]}{[\\"\\\\"}',
    '{"city": "Zürich 😀", "n": [1, {"x": null}], "q": "a\\nb"}',
    '{"text": "a\\n <para\\n\\n", "mixed": null, "none": "", "list": ["\\"", {"k": true}]}',
    '{"mixed": "nullable", "n": -1.5e3, "yes": false, "text": "[1"}',
)
JSON = [name for name, style in FORMATS.items() if style.parameters is None]


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
            case Done(index):
                json.loads(arguments[index])
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
    calls = calls[:1] if style.separator is None else calls
    if calls:
        text += style.write(calls)
        if style.resumes:
            text += draw.choice(["", "\n", "\n\nDone."])
    else:
        text += draw.choice(["plain", '{"name": "Bob"}', "{ }", "", " \n"])
    if draw.random() < 0.3:
        text = text[: draw.randint(0, len(text))]
    return Grammar(markers, inside, draw.choice([style, style, style, None]), FUNCTIONS), text


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
    style = FORMATS[name]
    grammar = Grammar(format=style, functions=FUNCTIONS, marks=style.marks)
    calls = [("get_all", arguments), ("get", "{}"), ("look-up", arguments)]
    for count in (1, 2, 3) if style.separator is not None else (1,):
        reasoning, content, found = parsed(grammar, list(style.write(calls[:count])))
        assert (reasoning, content) == ("", "")
        assert [(name, json.loads(text)) for name, text in found] == [
            (name, json.loads(text)) for name, text in calls[:count]
        ]
        assert name not in JSON or found == calls[:count], "JSON stays as it is written"


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_is_complete_or_is_none(name: str) -> None:
    style = FORMATS[name]
    grammar = Grammar(format=style, functions=FUNCTIONS)
    text = style.write([("get_all", ARGUMENTS[2])])
    complete = text[: len(text) - len(style.close)].rstrip()
    for size in range(len(text)):
        parser = Parser(grammar)
        found = whole(parser, text[:size], "length")
        called = any(isinstance(piece, Call) for piece in found)
        assert called == (size >= len(complete)), text[:size]
        assert all(isinstance(piece, Call | Arguments | Done) for piece in found), text[:size]
        assert parser.calls == called


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
        ('<tool_call>{"name":"get","arguments":{}}</tool_call>', ("", "", [("get", "{}")])),
        ('<tool_call>\n{"name": "ge', ("", "", [])),
        ('{{"name": "get", "arguments": {"a": 1}}}', ("", "", [("get", '{"a": 1}')])),
        ('```json\n{{"name": "get", "arguments": {}}}\n```\nDone.', ("", "Done.", [("get", "{}")])),
        ('```json\n{\n  "name": "get",\n  "arguments": {}\n}\n```', ("", "", [("get", "{}")])),
        ('See:\n```\n{"name": "get", "arguments": {}}\n```', ("", "See:", [("get", "{}")])),
        ('See: {"name": "get", "arguments": {}}', ("", 'See: {"name": "get", "arguments": {}}', [])),
        ('```json\n{"name": "Bob", "age": 1}\n```', ("", '```json\n{"name": "Bob", "age": 1}\n```', [])),
        (
            '<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>\nDone.\n',
            ("", "Done.", [("get", "{}")]),
        ),
        ("a <tool_ca", ("", "a <tool_ca", [])),
        ("a <tool_cat> b", ("", "a <tool_cat> b", [])),
    ],
)
def test_parts_of_texts(text: str, parts: tuple[str, str, list[tuple[str, str]]]) -> None:
    assert parsed(Grammar(THINK, False, FORMATS["hermes"], FUNCTIONS), list(text)) == parts


def test_text_is_told_as_soon_as_it_is_certain() -> None:
    parser = Parser(Grammar(format=FORMATS["hermes"], functions=FUNCTIONS))
    assert parser.feed("Hello <") == [Content("Hello")]
    assert parser.feed("b>") == [Content(" <b>")]
    assert parser.feed('<tool_call>\n{"name": "get_all"') == []
    assert parser.feed(', "arguments": {"a": "') == [Call(0, "get_all"), Arguments(0, '{"a": "')]
    assert parser.feed("x") == [Arguments(0, "x")]


def test_json_that_is_no_call_is_content() -> None:
    grammar = Grammar(format=FORMATS["llama3_json"], functions=FUNCTIONS)
    for text in ('{"name": "Bob", "parameters": {}}', '{"names": 1}', "hi {"):
        assert parsed(grammar, list(text)) == ("", text, [])
    text = '{"name": "get", "parameters": {"a": 1}}'
    assert parsed(grammar, list(text)) == ("", "", [("get", '{"a": 1}')])
