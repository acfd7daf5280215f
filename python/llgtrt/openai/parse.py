"""The text of a choice, separated into reasoning, content and function calls.

A pure function of the text: the pieces are the same, however the text is cut into chunks. Text that may be
the beginning of something else is held back until that is decided. The parser is a generator that yields
pieces, and None if it needs more text (`buffer.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from llgtrt.openai.arguments import Types
from llgtrt.openai.buffer import SPACE, Buffer, overlap
from llgtrt.openai.call_parse import CallParser
from llgtrt.openai.formats import Format, Markers
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Piece, Reasoning, Steps


@dataclasses.dataclass(frozen=True)
class Grammar:
    """What a choice may have in it."""

    markers: Markers | None = None
    """Those of reasoning, where there may be some."""
    inside: bool = False
    """The text begins inside of it."""
    format: Format | None = None
    """That of calls, where there may be some."""
    functions: Mapping[str, Types] = dataclasses.field(default_factory=dict)
    """The types of their arguments, by name."""
    several: bool = True
    """There may be more than one call."""
    calls_end_thinking: bool = False
    """A call may come before reasoning has ended."""
    marks: tuple[str, ...] = ()
    """Texts that are removed from the content."""
    begun: str = ""
    """The beginning of a call or a mark that the prompt ends with: it is read before the text."""

    def texts(self) -> list[str]:
        """The texts that mark the parts of an answer."""
        found = [*(self.markers or ()), *self.marks]
        return found if self.format is None else [*found, *self.format.texts()]


class Parser:
    """Takes a choice's text in chunks."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._buffer = Buffer()
        self._buffer.text = grammar.begun
        self._unsaid = len(grammar.begun)
        """So many characters are the prompt's."""
        self._space = ""
        """White space of the content that nothing has followed yet."""
        self._plain = True
        """There is nothing but content so far."""
        self._said = False
        """There is content that is not white space."""
        self._blank = True
        """Since the beginning, or since the last call, there was only white space."""
        self.calls = 0
        """Complete calls so far."""
        self._run = self._answer()

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        self._buffer.text += text
        return self._pieces()

    def finish(self, cut: bool = False) -> list[Piece]:
        """The rest, at the end of the text.

        `cut`: the model was stopped. Then the beginning of a call at the end is not content.
        """
        self._buffer.ended, self._buffer.cut = True, cut
        return self._pieces()

    def _pieces(self) -> list[Piece]:
        found: list[Piece] = []
        for piece in self._run:
            if piece is None:
                break
            found.append(piece)
        return found

    def _answer(self) -> Steps[None]:
        if self._grammar.markers is not None:
            inside = self._grammar.inside or (yield from self._begins(*self._grammar.markers))
            if inside:
                yield from self._think(self._grammar.markers[1])
        style = self._grammar.format
        if style is not None:
            yield from self._calls(style)
        yield from self._text({})
        if self._plain and self._space:
            yield Content(self._space)

    def _begins(self, begin: str, _: str) -> Steps[bool]:
        """Whether reasoning begins here, behind white space."""
        buffer, begin = self._buffer, begin.lstrip(SPACE)
        while not buffer.ended and begin.startswith(buffer.text.lstrip(SPACE)) and not self._has(begin):
            yield None
        if not self._has(begin):
            return False
        buffer.text = buffer.text.lstrip(SPACE)[len(begin) :]
        return True

    def _has(self, begin: str) -> bool:
        return self._buffer.text.lstrip(SPACE).startswith(begin)

    def _think(self, end: str) -> Steps[None]:
        self._plain = False
        buffer, begun = self._buffer, False
        style = self._grammar.format if self._grammar.calls_end_thinking else None
        calls = [text for text, _, _ in style.triggers(self._grammar.functions)] if style else []
        while True:
            places = [(at, mark) for mark in (end, *calls) if (at := buffer.text.find(mark)) >= 0]
            at, found = min(places, default=(len(buffer.text), ""))
            body, rest = buffer.text[:at], buffer.text[at + len(end) * (found == end) :]
            if not found and not buffer.ended:
                body = body[: len(body) - max(overlap(body, mark) for mark in (end, *calls))]
            lead = 0 if begun else len(body) - len(body.lstrip(SPACE))
            said = body[lead:].rstrip(SPACE)
            if said:
                begun = True
                yield Reasoning(said)
            if found or buffer.ended:
                buffer.text = rest
                return
            if said:
                buffer.text = buffer.text[lead + len(said) :]
            yield None

    def _calls(self, style: Format) -> Steps[None]:
        """Yields content and calls, until no further call may come."""
        found_by = style.triggers(self._grammar.functions)
        buffer, ways = self._buffer, {text: way for text, way, _ in found_by}
        triggers = {**dict(style.blocks()), **{text: way.at_start for text, way in ways.items()}}
        while (found := (yield from self._text(triggers))) is not None:
            way = ways.get(found)
            reader = CallParser(way or style, self._grammar.functions, buffer, self.calls)
            yield from reader.block(found) if way is None else reader.run()
            self._plain &= not reader.begun
            self.calls = reader.calls
            self._blank = reader.begun
            if not reader.begun:
                return
            if reader.failed or not self._grammar.several or not (way is None or way.resumes):
                # What closes the calls, or follows one that is none.
                while not buffer.ended:
                    buffer.text = ""
                    yield None
                buffer.text = ""
                return

    def _text(self, triggers: Mapping[str, bool]) -> Steps[str | None]:
        """Yields content up to the next trigger, and returns that; None at the end of the text.

        `triggers`: by text, whether it counts only if nothing precedes it.
        """
        buffer, marks = self._buffer, dict.fromkeys(self._grammar.marks, False)
        ends = {**triggers, **marks}
        while True:
            places = [(at, end) for end in ends if (at := self._find(end, ends[end])) >= 0]
            if places:
                at, found = min(places, key=lambda place: (place[0], -len(place[1])))
                yield from self._content(buffer.take(at))
                self._unsaid = 0
                if found in triggers:
                    return found
                buffer.take(len(found))
                continue
            possible = [end for end, at_start in ends.items() if self._blank or not at_start]
            held = max((overlap(buffer.text, end) for end in possible), default=0)
            if buffer.ended:
                # If the model was stopped, an unfinished call or mark at the end is not content.
                yield from self._content(buffer.take(len(buffer.text) - held * buffer.cut))
                buffer.text = ""
                return None
            yield from self._content(buffer.take(len(buffer.text) - held))
            yield None

    def _find(self, end: str, at_start: bool) -> int:
        """Where a text stands in the buffer, if it counts there; else -1."""
        at = self._buffer.text.find(end)
        counts = not at_start or (self._blank and not self._buffer.text[:at].strip(SPACE))
        return at if counts else -1

    def _content(self, text: str) -> Steps[None]:
        text, self._unsaid = text[self._unsaid :], max(self._unsaid - len(text), 0)
        body = (self._space + text).rstrip(SPACE)
        self._blank &= not body
        said = body if self._plain or self._said else body.lstrip(SPACE)
        self._space = (self._space + text)[len(body) :]
        if said:
            self._said = True
            yield Content(said)


def pieces(parser: Parser | None, text: str, ended: str | None = None) -> list[Piece]:
    """The pieces of more text. Without a parser, all text is content.

    `ended`: why the text ends there; then the pieces of the rest are among them.
    """
    if parser is None:
        return [Content(text)] if text else []
    return [*parser.feed(text), *(parser.finish(ended not in ("stop", "tool_calls")) if ended else ())]


def whole(parser: Parser | None, text: str, ended: str | None) -> list[Piece]:
    """The pieces of a whole text, without calls that are not complete."""
    found = pieces(parser, text, ended)
    done = {piece.index for piece in found if isinstance(piece, Done)}
    return [piece for piece in found if not isinstance(piece, Call | Arguments | Done) or piece.index in done]
