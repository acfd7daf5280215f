"""Values of arguments as models write them: finds their end, and converts them to JSON."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from llgtrt.openai.buffer import SPACE

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONSTANTS = {
    "null": ("null", "null"),
    "None": ("null", "null"),
    "true": ("boolean", "true"),
    "True": ("boolean", "true"),
    "false": ("boolean", "false"),
    "False": ("boolean", "false"),
}
_ESCAPE, _NONE = r"\\.", "(?!)"
_DEEPEST = 100
"""The most levels of nested values."""


class Extent:
    """Finds the end of a JSON value."""

    def __init__(self) -> None:
        self._depth = 0
        self._string = False
        self._escaped = False
        self._scalar = False
        self.whole = False

    def take(self, text: str) -> int:
        """Reads more text, and returns the number of characters that belong to the value."""
        for at, c in enumerate(text):
            if self.whole:
                return at
            if self._scalar and not (c.isalnum() or c in "+-."):
                self.whole = True
                return at
            self._step(c)
        return len(text)

    def _step(self, c: str) -> None:
        if self._string:
            self._string = self._escaped or c != '"'
            self._escaped = not self._escaped and c == "\\"
            self.whole = not self._string and self._depth == 0
        elif c == '"':
            self._string = True
        elif c in "{[":
            self._depth += 1
        elif c in "}]":
            self._depth -= 1
            self.whole = self._depth == 0
        elif self._depth == 0 and c not in SPACE:
            self._scalar = True


def read(text: str, types: frozenset[str]) -> str:
    """The JSON of an argument that is written without quotes.

    `types`: those the argument may have. The text is a string if it is not a value of another of them; the
    grammar excludes such strings (`rust/grammar/src/schema/write_parameters.rs`).
    """
    if "string" not in types:
        return as_json(text.strip(SPACE), "")
    of, constant = _CONSTANTS.get(text, ("", ""))
    if of in types:
        return constant
    if "number" in types and _NUMBER.fullmatch(text):
        return text
    if ("array" in types and text.startswith("[")) or ("object" in types and text.startswith("{")):
        return as_json(text, "")
    return json.dumps(text, ensure_ascii=False)


class LiteralExtent:
    """Finds the end of a value that is written as in Python, or with quotes of its own."""

    def __init__(self, quote: str) -> None:
        """`quote`: around strings; empty: single or double ones, as in Python."""
        self._quote = quote
        self._at = self._depth = 0
        self._open = ""
        """The quote of the string that is open."""

    def end(self, text: str) -> int | None:
        """The index of the comma or bracket after the first value; None if the value may go on.

        The text begins with the text of the previous call.
        """
        while self._at < len(text):
            if self._open:
                if not self._closes(text):
                    return None
            elif self._quote and text.startswith(self._quote, self._at):
                self._open, self._at = self._quote, self._at + len(self._quote)
            elif self._quote and self._quote.startswith(text[self._at :]):
                return None
            elif not self._quote and text[self._at] in "\"'":
                self._open, self._at = text[self._at], self._at + 1
            elif self._depth == 0 and text[self._at] in ",)]}":
                return self._at
            else:
                self._depth += (text[self._at] in "([{") - (text[self._at] in ")]}")
                self._at += 1
        return None

    def _closes(self, text: str) -> bool:
        """Moves behind the end of the open string; False if the end has not arrived."""
        found = re.compile(f"{re.escape(self._open)}|{_NONE if self._quote else _ESCAPE}", re.S)
        while True:
            mark = found.search(text, self._at)
            if mark is None:
                # The text may end within a quote or an escape.
                self._at = max(self._at, len(text) - len(self._open) + 1 - (text[-1:] == "\\"))
                return False
            self._at = mark.end()
            if mark[0] == self._open:
                self._open = ""
                return True


def as_json(text: str, quote: str) -> str:
    """The JSON of a value that is written as JSON, as in Python, or with this quote and keys without quotes.

    Any other text becomes a JSON string.
    """
    text = text.strip(SPACE)
    if text in _CONSTANTS:
        return _CONSTANTS[text][1]
    try:
        if quote:
            return json.dumps(_Quoted(text, quote).value(0), ensure_ascii=False)
        json.loads(text)
    except (ValueError, RecursionError):
        return _of_python(text)
    return text


def _of_python(text: str) -> str:
    try:
        return json.dumps(ast.literal_eval(text), ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return json.dumps(text, ensure_ascii=False)


class _Quoted:
    """Reads values with strings between quotes of their own, and keys without quotes."""

    def __init__(self, text: str, quote: str) -> None:
        self._text = text
        self._quote = quote
        self._at = 0

    def value(self, depth: int) -> Any:
        """The next value.

        Raises:
            ValueError: it is not complete, or nested too deeply.
        """
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if self._has(self._quote):
            end = self._text.index(self._quote, self._at)
            found, self._at = self._text[self._at : end], end + len(self._quote)
            return found
        if self._has("["):
            return self._items(depth)
        if self._has("{"):
            return self._members(depth)
        end = next(
            (at for at in range(self._at, len(self._text)) if self._text[at] in ",]}"), len(self._text)
        )
        scalar, self._at = self._text[self._at : end].strip(SPACE), end
        return json.loads(_CONSTANTS.get(scalar, ("", scalar))[1])

    def _items(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self._has("]"):
            found.append(self.value(depth + 1))
            self._has(",")
        return found

    def _members(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._has("}"):
            end = self._text.index(":", self._at)
            key, self._at = self._text[self._at : end].strip(SPACE), end + 1
            found[key] = self.value(depth + 1)
            self._has(",")
        return found

    def _has(self, mark: str) -> bool:
        """Reads `mark` if it comes next; whether it did."""
        while self._text[self._at : self._at + 1] in SPACE and self._at < len(self._text):
            self._at += 1
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) * found
        return found
