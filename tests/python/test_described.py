"""Formats of calls that `server.tool_format` describes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from llgtrt.openai.described import described
from llgtrt.openai.known import FORMATS
from llgtrt.openai.learn import tool_format
from llgtrt.settings import StartError
from llgtrt.templates import ChatTemplate

XML: dict[str, Any] = {
    "before": "<call>",
    "between": "|",
    "after": "</call>",
    "parameters": {"before": "[", "between": "]=", "after": ";\n"},
}


def parts(style: Any) -> dict[str, Any]:
    """A known format as one would describe it."""
    given = dataclasses.asdict(style)
    given["alternatives"] = [parts(way) for way in style.alternatives]
    return given


@pytest.mark.parametrize("name", FORMATS)
def test_every_known_format_can_be_described(name: str) -> None:
    assert described(parts(FORMATS[name])) == FORMATS[name]


def test_what_is_left_out() -> None:
    style = tool_format(XML, ChatTemplate("", {}))
    assert (style.trigger, style.separator, style.at_start) == ("<call>", "\n", False)
    assert style.parameters is not None
    assert set(style.parameters.between.values()) == {"]="}
    assert style.write([("f", '{"a": "x", "b": 1}')]) == "<call>f|[a]=x;\n[b]=1;\n</call>"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"befor": ""}, "server.tool_format: Object contains unknown field `befor`"),
        ({"before": 1}, "server.tool_format.before: Expected `str`, got `int`"),
        (
            {"parameters": {"before": ""}},
            "server.tool_format.parameters: Object missing required field `between`",
        ),
        ({"before": " "}, "server.tool_format.trigger: must have 1 to 256 bytes"),
        ({"trigger": "<b>"}, "server.tool_format.trigger: must be how a call begins: '<call>{name}|'"),
        ({"resumes": True, "close": "</calls>"}, "server.tool_format.resumes: excludes open and close"),
        (
            {"parameters": {"before": "", "between": {"string": "="}, "after": ";"}},
            "server.tool_format.parameters.between: must be a text, or one for each of null, boolean",
        ),
        (
            {"parameters": {"before": "", "between": "", "after": ";"}},
            "server.tool_format.parameters.between: must have a text for null, boolean",
        ),
        (
            {"parameters": {"before": "[", "between": "=", "after": " "}},
            "server.tool_format.parameters.after: must say where a string ends",
        ),
        (
            {"parameters": {"before": "[", "between": "=", "after": ";", "nested": True}},
            "server.tool_format.parameters.quote: must say what stands around strings",
        ),
        # Here `&` is a part of the text, too.
        (
            {"parameters": {"before": "[", "between": "=", "after": "&"}},
            "server.tool_format: calls that are written so cannot be read again: '<call>get|[text=It is",
        ),
        # Only a comma or a bracket ends a value that is no raw string.
        (
            {"parameters": {"before": "", "between": "=", "after": "", "separator": " & ", "raw": False}},
            "server.tool_format: calls that are written so cannot be read again: '<call>get|text=\"It is",
        ),
        (
            {"alternatives": [{"before": "<c>", "between": "", "after": "", "trigger": "<b"}]},
            "server.tool_format.alternatives[0].trigger: must be how a call begins",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(StartError) as error:
        described({**XML, **change})
    assert str(error.value).startswith(told)
