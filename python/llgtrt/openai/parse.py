"""The text of a choice, told apart into reasoning, content and calls of functions.

A pure function of the text: however it is cut into chunks, the pieces come to the same texts. What may be the
beginning of something else is held back until that is decided.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from llgtrt.openai.formats import Format, Markers

SPACE = " \t\n\r"
"""White space around the parts of an answer, which is in none of them."""


@dataclasses.dataclass(frozen=True)
class Reasoning:
    """More of the reasoning."""

    text: str


@dataclasses.dataclass(frozen=True)
class Content:
    """More of the answer's text."""

    text: str


@dataclasses.dataclass(frozen=True)
class Call:
    """A call begins."""

    index: int
    name: str


@dataclasses.dataclass(frozen=True)
class Arguments:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


Piece = Reasoning | Content | Call | Arguments


@dataclasses.dataclass(frozen=True)
class Grammar:
    """What a choice may have in it."""

    markers: Markers | None = None
    """Those of reasoning, where there may be some."""
    inside: bool = False
    """The text begins inside of it."""
    format: Format | None = None
    """That of calls, where there may be some."""
    names: Sequence[str] = ()
    """Of the functions."""


class Parser:
    """Takes a choice's text in chunks."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._buffer = ""
        self._state: Callable[[], Iterator[Piece]] = self._text
        if grammar.markers:
            self._state = self._think if grammar.inside else self._begin
        self._started = False
        """Something but white space has come of what is being read."""
        self._space = ""
        """White space of the content that nothing has followed yet."""
        self._plain = True
        """The content is all there is."""
        self._value = _Value()
        self._ended = False
        self.calls = 0
        """Calls so far."""

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        self._buffer += text
        return list(self._run())

    def finish(self) -> list[Piece]:
        """The rest, where the text ends."""
        self._ended = True
        return list(self._run())

    def _run(self) -> Iterator[Piece]:
        while True:
            before = self._state, len(self._buffer)
            yield from self._state()
            if (self._state, len(self._buffer)) == before:
                break
        if self._ended and self._plain and self._space:
            yield Content(self._space)
            self._space = ""

    def _begin(self) -> Iterator[Piece]:
        """Reasoning may begin here, behind white space."""
        assert self._grammar.markers
        begin = self._grammar.markers[0]
        found = self._buffer.lstrip(SPACE)
        if found.startswith(begin):
            self._buffer = found[len(begin) :]
            self._state = self._think
        elif self._ended or not begin.startswith(found):
            self._state = self._text
        yield from ()

    def _think(self) -> Iterator[Piece]:
        assert self._grammar.markers
        end = self._grammar.markers[1]
        self._plain = False
        body, found, rest = self._buffer.partition(end)
        if not found and not self._ended:
            body = body[: len(body) - _overlap(body, end)]
        lead = 0 if self._started else len(body) - len(body.lstrip(SPACE))
        told = body[lead:].rstrip(SPACE)
        if told:
            self._started = True
            yield Reasoning(told)
        if found:
            self._buffer, self._state, self._started = rest, self._text, False
        elif self._ended:
            self._buffer = ""
        elif told:
            self._buffer = self._buffer[lead + len(told) :]

    def _text(self) -> Iterator[Piece]:
        """Content, in which calls may begin."""
        style = self._grammar.format
        if style is None:
            self._state = self._rest
            return
        at = self._buffer.find(style.trigger)
        if style.at_start:
            found = self._buffer.lstrip(SPACE)
            if not found.startswith(style.trigger):
                if self._ended or not style.trigger.startswith(found):
                    self._state = self._rest
                return
            at = len(self._buffer) - len(found)
        if at >= 0:
            yield from self._content(self._buffer[:at])
            self._buffer, self._state = self._buffer[at:], self._head
            return
        held = 0 if self._ended else _overlap(self._buffer, style.trigger)
        yield from self._content(self._buffer[: len(self._buffer) - held])
        self._buffer = self._buffer[len(self._buffer) - held :]

    def _content(self, text: str) -> Iterator[Piece]:
        body = (self._space + text).rstrip(SPACE)
        told = body if self._plain or self._started else body.lstrip(SPACE)
        self._space = (self._space + text)[len(body) :]
        if told:
            self._started = True
            yield Content(told)

    def _head(self) -> Iterator[Piece]:
        """The first name, of which nothing is told until it is whole."""
        assert self._grammar.format
        yield from self._named(self._grammar.format.head)

    def _named(self, before: str) -> Iterator[Piece]:
        assert self._grammar.format
        heads = {f"{before}{name}{self._grammar.format.between}": name for name in self._grammar.names}
        head = next((head for head in heads if self._buffer.startswith(head)), None)
        if head is not None:
            self._plain = False
            self._buffer = self._buffer[len(head) :]
            self._state, self._value = self._arguments, _Value()
            self.calls += 1
            yield Call(self.calls - 1, heads[head])
        elif not any(head.startswith(self._buffer) for head in heads):
            self._state = self._rest
        elif self._ended:
            self._buffer = ""

    def _arguments(self) -> Iterator[Piece]:
        taken = self._value.take(self._buffer)
        if taken:
            yield Arguments(self.calls - 1, self._buffer[:taken])
        self._buffer = self._buffer[taken:]
        if self._value.whole:
            self._state = self._after

    def _after(self) -> Iterator[Piece]:
        """Behind the arguments: the call's end, and perhaps another call."""
        style = self._grammar.format
        assert style
        if self._buffer.startswith(style.after):
            self._buffer = self._buffer[len(style.after) :]
            self._state = self._text if style.resumes else self._next
        elif self._ended or not style.after.startswith(self._buffer):
            self._state = self._rest
        yield from ()

    def _next(self) -> Iterator[Piece]:
        assert self._grammar.format
        if self._buffer or self._ended:
            yield from self._named(self._grammar.format.separator + self._grammar.format.before)

    def _rest(self) -> Iterator[Piece]:
        """What is no call: the whole answer, or what closes the calls."""
        if self.calls == 0:
            yield from self._content(self._buffer)
        self._buffer = ""


class _Value:
    """Finds the end of a JSON value."""

    def __init__(self) -> None:
        self._depth = 0
        self._string = False
        self._escaped = False
        self._scalar = False
        self.whole = False

    def take(self, text: str) -> int:
        """How many of the characters belong to the value."""
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


def pieces(parser: Parser | None, text: str, ended: bool) -> list[Piece]:
    """The pieces of more text, and of the rest at the end. Without a parser, all text is content."""
    if parser is None:
        return [Content(text)] if text else []
    return [*parser.feed(text), *(parser.finish() if ended else ())]


def _overlap(text: str, marker: str) -> int:
    """The length of the longest end of `text` that is a beginning of `marker`, but not all of it."""
    longest = min(len(text), len(marker) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(marker[:n])), 0)
