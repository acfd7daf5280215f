"""Custom tools, which take a text. The model calls them as functions with this text as the only argument."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from llgtrt.openai.errors import invalid
from llgtrt.openai.functions import Custom, CustomFormat, Function

INPUT = "input"
"""The name of the argument."""

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_ESCAPE = re.compile(
    r'\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u....)")
"""An escape of half a character, and enough behind it to see that the other half does not follow."""


def as_function(tool: Custom, at: str) -> Function:
    """The function that the model is offered for a custom tool.

    Raises:
        ApiError: the format is incomplete, or cannot be enforced.
    """
    schema: dict[str, Any] = {"type": "string"}
    description = tool.description or ""
    pattern = _pattern(tool.format, f"{at}.format")
    if pattern is not None:
        schema["pattern"] = f"^(?:{pattern})$"
        description += f"\nThe input matches the regular expression {pattern}"
    parameters = {
        "type": "object",
        "properties": {INPUT: schema},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return Function(tool.name, description.strip(), msgspec.Raw(msgspec.json.encode(parameters)))


def _pattern(wanted: CustomFormat | None, at: str) -> str | None:
    """The regular expression of the input; None: it is any text."""
    if wanted is None or wanted.type == "text":
        return None
    given = wanted.grammar
    syntax, definition = (given.syntax, given.definition) if given else (wanted.syntax, wanted.definition)
    if syntax is None or definition is None:
        raise invalid(at, f"{at}: a grammar has syntax and definition")
    if syntax == "lark":
        message = f"{at}: Lark cannot be enforced in a call; use the syntax regex, or the type text"
        raise invalid(at, message, "unsupported_parameter")
    return definition


class InputText:
    """The text in the arguments of a call of a custom tool, `{"input": "…"}`, as they come."""

    def __init__(self) -> None:
        self._json = ""
        self._at: int | None = None
        self._over = False

    def feed(self, text: str) -> str:
        """More of the arguments; gives back what is new of the text."""
        self._json += text
        if self._at is None:
            begin = _BEGIN.match(self._json)
            if begin is None:
                return ""
            self._at = begin.end()
        told = []
        while not self._over and self._at < len(self._json):
            char = self._json[self._at]
            if char == '"':
                self._over = True
            elif char != "\\":
                told.append(char)
                self._at += 1
            elif escape := _ESCAPE.match(self._json, self._at):
                told.append(json.loads(f'"{escape[0]}"'))
                self._at = escape.end()
            elif half := _HALF.match(self._json, self._at):
                told.append("\ufffd")
                self._at = half.end()
            else:
                break  # the rest of the escape is still to come
        return "".join(told)
