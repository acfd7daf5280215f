"""Reads the calls of an answer, in the format of its model, as names and arguments in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from llgtrt.openai import literals
from llgtrt.openai.arguments import ANY, Types
from llgtrt.openai.buffer import SPACE, Buffer, overlap
from llgtrt.openai.formats import CHOSEN, TYPES, Format, Parameters
from llgtrt.openai.pieces import Arguments, Call, Done, Steps

_CHOSEN = "_.:-"
"""What ids have beside letters and digits."""


class CallParser:
    """Reads one or several calls, from their trigger on. Text may follow them."""

    def __init__(self, style: Format, functions: Mapping[str, Types], buffer: Buffer, calls: int) -> None:
        """`calls`: how many there were before."""
        self._style = style
        self._functions = functions
        self._buffer = buffer
        self.calls = calls
        """Complete ones."""
        self.begun = False
        """There is a call, even if it is not complete."""
        self.failed = False
        """Something came that is no part of a call, or the text ended."""

    def run(self) -> Steps[None]:
        """Yields the pieces of the calls. If the text is no call, it is put back."""
        style, buffer = self._style, self._buffer
        buffer.keep()
        name = None
        if (yield from self._around(style.head)):
            name = yield from self._name_of_call()
        buffer.release(name is None and not buffer.short)
        if name is None and buffer.short:
            buffer.text = ""
        while name is not None:
            self.begun = True
            if not (yield from self._call(name)):
                self.failed = True
                return
            name = None
            if not style.resumes and style.separator is not None:
                name = yield from self._next()

    def block(self, begin: str) -> Steps[None]:
        """Yields the pieces of a call in a block of code. If the text is no call, it is put back."""
        buffer, name = self._buffer, None
        buffer.keep()
        buffer.take(len(begin))
        named = yield from buffer.one_of(list(self._functions))
        if named is not None and (yield from buffer.one_of([f'", "{self._style.key}": '])) is not None:
            name = named
        buffer.release(name is None and not (buffer.short and buffer.cut))
        if name is None:
            if buffer.short and buffer.cut:
                buffer.text = ""
            return
        self.begun = True
        yield Call(self.calls, name)
        if not ((yield from self._json(self.calls)) and (yield from buffer.one_of(["}"])) is not None):
            self.failed = True
            return
        yield Done(self.calls)
        self.calls += 1
        closing = [*(["}"] if "{{" in begin else []), *(["```"] if begin.startswith("```") else [])]
        for mark in closing:
            yield from buffer.one_of([mark])

    def _next(self) -> Steps[str | None]:
        """Reads up to the arguments of another call and returns its name; None if there is none."""
        style = self._style
        more = f"{style.separator}{style.before}"
        first, *rest = _segments(more)
        closing = [style.close] if style.close else []
        if (yield from self._buffer.one_of([first, *closing])) != first or not (
            yield from self._read(["", *rest])
        ):
            return None
        return (yield from self._name_of_call())

    def _name_of_call(self) -> Steps[str | None]:
        """Reads a function's name and the text up to the arguments; None if there is no such name."""
        name = yield from self._buffer.one_of(list(self._functions))
        if name is None:
            return None
        texts = self._style.named(name)
        if texts[0].isspace():
            yield from self._buffer.space(texts[0])
        if len(texts) == 1:
            return name if (yield from self._around(texts[0])) else None
        return name if (yield from self._buffer.one_of(texts)) is not None else None

    def _call(self, name: str) -> Steps[bool]:
        """Reads the arguments and the end of a call."""
        style, index = self._style, self.calls
        yield Call(index, name)
        if style.parameters is None:
            if not ((yield from self._json(index)) and (yield from self._around(style.after))):
                return False
        elif not (yield from self._one_by_one(index, style.parameters, self._functions[name])):
            return False
        yield Done(index)
        self.calls += 1
        return True

    def _around(self, text: str) -> Steps[bool]:
        """Reads a text around calls."""
        return (yield from self._read(_segments(text)))

    def _read(self, segments: Sequence[str]) -> Steps[bool]:
        for at, segment in enumerate(segments):
            if at % 2:
                yield from self._buffer.run(_CHOSEN)
            elif (yield from self._buffer.one_of([segment])) is None:
                return False
        return True

    def _json(self, index: int) -> Steps[bool]:
        """Reads arguments that are one JSON value."""
        value = literals.Extent()
        while not value.whole:
            taken = value.take(self._buffer.text)
            if taken:
                yield Arguments(index, self._buffer.take(taken))
            if not value.whole:
                if self._buffer.ended:
                    return False
                yield None
        return True

    def _one_by_one(self, index: int, style: Parameters, types: Types) -> Steps[bool]:
        """Reads arguments that are written one by one, and the end of the call."""
        buffer = self._buffer
        after, *rest = _segments(self._style.after)
        yield Arguments(index, "{")
        before, comma = style.before, ""
        while True:
            mark = yield from buffer.one_of([before, after])
            if mark is None:
                return False
            if mark == after:
                yield Arguments(index, "}")
                return (yield from self._read(["", *rest]))
            name = yield from self._name(style)
            between = yield from buffer.one_of(list(set(style.between.values())))
            if name is None or between is None:
                return False
            yield Arguments(index, f"{comma}{json.dumps(name, ensure_ascii=False)}: ")
            possible = frozenset(of for of in TYPES if style.between[of] == between)
            if not (yield from self._value(index, style, (possible & types.get(name, ANY)) or possible)):
                return False
            before, comma = style.separator + style.before, ", "

    def _name(self, style: Parameters) -> Steps[str | None]:
        """Reads the name of a parameter."""
        # White space within the texts behind a name does not count.
        marks = {text.split()[0] for text in style.between.values()}
        while True:
            places = [at for mark in marks if (at := self._buffer.text.find(mark)) >= 0]
            if places:
                return self._buffer.take(min(places)).strip(SPACE)
            if self._buffer.ended:
                return None
            yield None

    def _value(self, index: int, style: Parameters, types: frozenset[str]) -> Steps[bool]:
        if not style.raw or style.quote:
            return (yield from self._literal(index, style))
        if types == {"string"} and not style.cdata:
            yield Arguments(index, '"')
            complete = yield from self._raw(style.after, index)
            yield Arguments(index, '"' if complete is not None else "")
            return complete is not None
        text = yield from self._raw(style.after, None)
        if text is None:
            return False
        if style.cdata and text.startswith("<![CDATA[") and text.endswith("]]>"):
            text, types = text[len("<![CDATA[") : -len("]]>")], frozenset({"string"})
        yield Arguments(index, literals.read(text, types))
        return True

    def _raw(self, after: str, index: int | None) -> Steps[str | None]:
        """Reads a raw string and the text behind it, and returns the string; None if that text is missing.

        With an index, the string is yielded as parts of a JSON string while it arrives.
        """
        buffer, end, text = self._buffer, after.strip(SPACE), ""
        lead = after[: len(after) - len(after.lstrip(SPACE))]
        while True:
            at = buffer.text.find(end)
            size = at
            if at < 0:
                size = len(buffer.text) - max(overlap(buffer.text, end), overlap(buffer.text, lead + end))
            part = buffer.take(size)
            part = part.removesuffix(lead) if at >= 0 else part
            text += part
            if part and index is not None:
                yield Arguments(index, json.dumps(part, ensure_ascii=False)[1:-1])
            if at >= 0:
                yield from buffer.one_of([after])
                return text
            if buffer.ended:
                return None
            yield None

    def _literal(self, index: int, style: Parameters) -> Steps[bool]:
        """Reads a value that is written as in Python, or with quotes of its own."""
        buffer, value = self._buffer, literals.LiteralExtent(style.quote)
        while (size := value.end(buffer.text)) is None:
            if buffer.ended:
                return False
            yield None
        yield Arguments(index, literals.as_json(buffer.take(size), style.quote))
        return (yield from buffer.one_of([style.after])) is not None


def _segments(text: str) -> list[str]:
    """Splits a text at its placeholders: fixed texts and names of placeholders in turn."""
    return CHOSEN.split(text)
