"""Custom tools: the function in place of one, and the text in its arguments."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from llgtrt.openai.custom import InputText, as_function
from llgtrt.openai.errors import ApiError
from llgtrt.openai.functions import Custom, CustomFormat, Syntax

TEXTS = ["", "plain", 'a "quoted" \\ line\n\ttab', "é 日本 😀\u2028", "\\u0041", "ends with \\"]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_the_text_is_the_same_at_every_cut(text: str, ascii_only: bool) -> None:
    for spaces in ((",", ":"), (", ", ": ")):
        arguments = json.dumps({"input": text}, ensure_ascii=ascii_only, separators=spaces)
        for width in range(1, len(arguments) + 1):
            reader = InputText()
            pieces = [arguments[i : i + width] for i in range(0, len(arguments), width)]
            assert "".join(map(reader.feed, pieces)) == text, (arguments, width)


def test_white_space_and_escapes_that_need_not_be() -> None:
    reader = InputText()
    assert reader.feed('{\n  "input" : "\\u0041\\/\\ud83d\\ude00"\n}') == "A/😀"


def test_half_characters_are_replaced() -> None:
    arguments = '{"input": "a\\udc00b\\ud800c\\ud83d\\ude00\\ud83d\\n\\ud83d"}'
    for width in range(1, len(arguments) + 1):
        reader = InputText()
        pieces = [arguments[i : i + width] for i in range(0, len(arguments), width)]
        assert "".join(map(reader.feed, pieces)) == "a\ufffdb\ufffdc😀\ufffd\n\ufffd", width


def test_a_text_that_was_cut_is_as_long_as_it_goes() -> None:
    reader = InputText()
    assert reader.feed('{"input": "ab\\ud83d') == "ab"
    assert InputText().feed('{"inp') == ""


def made(**fields: Any) -> Any:
    function = as_function(Custom("run", **fields), "tools[0].custom")
    return function.description, msgspec.json.decode(function.parameters)["properties"]["input"]


def test_formats() -> None:
    regex = {"type": "string", "pattern": "^(?:a|b)$"}
    told = "Runs.\nThe input matches the regular expression a|b"
    assert made() == ("", {"type": "string"})
    assert made(format=CustomFormat("text")) == ("", {"type": "string"})
    in_chat = CustomFormat("grammar", Syntax("regex", "a|b"))
    in_response = CustomFormat("grammar", syntax="regex", definition="a|b")
    assert made(format=in_chat, description="Runs.") == (told, regex)
    assert made(format=in_response, description="Runs.") == (told, regex)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (CustomFormat("grammar"), "a grammar has syntax and definition"),
        (CustomFormat("grammar", syntax="regex"), "a grammar has syntax and definition"),
        (CustomFormat("grammar", Syntax("lark", "start: A")), "use the syntax regex, or the type text"),
    ],
)
def test_formats_that_are_refused(wanted: CustomFormat, why: str) -> None:
    with pytest.raises(ApiError, match=why) as refused:
        made(format=wanted)
    assert refused.value.param == "tools[0].custom.format"
