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


class Syntax(msgspec.Struct):
    """What the input of a custom tool must be."""

    syntax: Literal["lark", "regex"]
    definition: str


class CustomFormat(msgspec.Struct):
    """`{"type": "text"}`, or `{"type": "grammar", "grammar": {"syntax": …, "definition": …}}`.

    In `/v1/responses`, the members of `grammar` stand beside `type`.
    """

    type: Literal["text", "grammar"]
    grammar: Syntax | None = None
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class Custom(msgspec.Struct):
    """A tool that takes a text."""

    name: str
    description: str | None = None
    format: CustomFormat | None = None


class Tool(msgspec.Struct, tag_field="type", tag="function"):
    """`{"type": "function", "function": {"name": …, "description": …, "parameters": {…}}}`."""

    function: Function


class CustomTool(msgspec.Struct, tag_field="type", tag="custom"):
    """`{"type": "custom", "custom": {"name": …, "description": …, "format": {…}}}`."""

    custom: Custom


class FunctionName(msgspec.Struct):
    """The name of a function."""

    name: str


class ToolName(msgspec.Struct, tag_field="type", tag="function"):
    """`{"type": "function", "function": {"name": …}}`."""

    function: FunctionName


class CustomName(msgspec.Struct, tag_field="type", tag="custom"):
    """`{"type": "custom", "custom": {"name": …}}`; as a choice, this tool is called."""

    custom: FunctionName


class AllowedTools(msgspec.Struct):
    """Some of the functions, and whether one must be called."""

    mode: Literal["auto", "required"]
    tools: list[ToolName | CustomName]


class NamedChoice(msgspec.Struct, tag_field="type", tag="function"):
    """`{"type": "function", "function": {"name": …}}`: this function is called."""

    function: FunctionName


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """`{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}`."""

    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required"] | NamedChoice | CustomName | AllowedChoice


class FunctionCall(msgspec.Struct):
    """A call in the history: the arguments are JSON text."""

    name: str
    arguments: str = "{}"


class CustomCall(msgspec.Struct):
    """A call of a custom tool in the history."""

    name: str
    input: str = ""


class ToolCall(msgspec.Struct):
    """A call in the history, which its answer names by `id`: of a function, or of a custom tool."""

    function: FunctionCall | None = None
    id: str = ""
    type: Literal["function", "custom"] = "function"
    custom: CustomCall | None = None

    @property
    def name(self) -> str:
        """The name of what is called."""
        called = self.function or self.custom
        return called.name if called else ""
