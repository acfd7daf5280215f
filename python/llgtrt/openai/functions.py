"""The fields of request bodies that are about functions."""

from __future__ import annotations

from typing import Literal

import msgspec


class Function(msgspec.Struct):
    """A function that may be called."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class Tool(msgspec.Struct):
    """`{"type": "function", "function": {"name": …, "description": …, "parameters": {…}}}`."""

    type: Literal["function"]
    function: Function


class FunctionName(msgspec.Struct):
    """The name of a function."""

    name: str


class ToolName(msgspec.Struct):
    """`{"type": "function", "function": {"name": …}}`."""

    type: Literal["function"]
    function: FunctionName


class AllowedTools(msgspec.Struct):
    """Some of the functions, and whether one must be called."""

    mode: Literal["auto", "required"]
    tools: list[ToolName]


class NamedChoice(msgspec.Struct, tag_field="type", tag="function"):
    """`{"type": "function", "function": {"name": …}}`: this function is called."""

    function: FunctionName


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """`{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}`."""

    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required"] | NamedChoice | AllowedChoice


class FunctionCall(msgspec.Struct):
    """A call in the history: the arguments are JSON text."""

    name: str
    arguments: str = "{}"


class ToolCall(msgspec.Struct):
    """A call in the history, which its answer names by `id`."""

    function: FunctionCall
    id: str = ""
    type: Literal["function"] = "function"
