"""The parts of an answer (reasoning, text and calls), as one grammar for the core and one parser."""

from __future__ import annotations

import dataclasses
from typing import Any

from llgtrt.openai import structural
from llgtrt.openai.formats import Format, Markers
from llgtrt.openai.parse import Grammar
from llgtrt.openai.tools import Tools

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Thinking:
    """What of reasoning an answer may have."""

    markers: Markers
    inside: bool
    """The prompt has opened it."""
    certain: bool
    """The model begins with it unless the request switches that off."""
    budget: int | None = None
    """Most tokens of it."""
    blocked: tuple[str, ...] = ()
    """Texts that must not come in it."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """What an answer may be."""

    thinking: Thinking | None
    tools: Tools | None
    format: Format
    constraint: Any = None
    """The core's grammar of the answer's text."""
    tail: str = ""
    """The end of the prompt, in which the first mark of the answer may have begun."""

    @property
    def bound(self) -> bool:
        """Nothing of the answer is free text."""
        constrained = self.constraint is not None and not structural.begins_free(self.constraint)
        return constrained or (self.tools is not None and self.tools.mode == "required")

    def core(self) -> Any:
        """The core's grammar; none where there is nothing to enforce, to find or to count."""
        thinking = self.thinking
        if thinking is None or not (thinking.inside or thinking.certain or not self.bound):
            sections = self._answer(0)
            match sections:
                case [{"bound": {"grammar": grammar, "next": None}}]:
                    return grammar
                case [{"free": {"triggers": []}}]:
                    return None
            return {"sections": sections}
        if thinking.inside:
            return {"sections": [self._thinking(1), *self._answer(1)]}
        begin = thinking.markers[0]
        if self.bound:
            opening = _bound({"text": begin}, 1)
            return {"sections": [opening, self._thinking(2), *self._answer(2)]}
        first, rest = self._answer(2)[0], self._answer(2)
        opens = _trigger(begin.lstrip(), 1, at_start=True)
        opening = _free([*first["free"]["triggers"], opens], may_end=True)
        return {"sections": [opening, self._thinking(2), *rest]}

    @property
    def _calls_end_thinking(self) -> bool:
        """Calls may come in free text, and before reasoning has ended."""
        in_text = self.tools is not None and self.tools.mode == "auto" and self.constraint is None
        return in_text and self.format.ends_thinking

    def _thinking(self, after: int) -> Json:
        assert self.thinking
        end = self.thinking.markers[1]
        budget = self.thinking.budget
        limit = None if budget is None else {"tokens": budget, "text": end}
        calls = self._triggers(after) if self._calls_end_thinking else []
        # A trigger that leads nowhere is refused.
        blocked = [_trigger(text, None) for text in self.thinking.blocked]
        return _free([_trigger(end, after), *calls, *blocked], not self.bound, limit=limit, reasoning=True)

    def _triggers(self, at: int) -> list[Json]:
        """Those of the calls in an answer whose free section is number `at`."""
        first = at + 1 + bool(self.format.blocks())
        found = self.format.triggers(self.tools.names if self.tools else ())
        return [_trigger(text, first + i, way.at_start) for i, (text, way, _) in enumerate(found)]

    def _answer(self, at: int) -> list[Json]:
        """The sections behind the reasoning, the first of which is number `at`."""
        tools = self.tools
        if tools is not None and tools.mode == "required":
            return [_bound(tools.core(self._behind, self._begun(self._behind.head), tools.parallel))]
        if self.constraint is not None:
            return self._constrained(at)
        text = self._text(at)
        if not self._begins(text):
            return text
        # Marks whose beginning the prompt has count at the beginning only.
        text = self._text(at + 1)
        return [_free([*self._begins(text), *text[0]["free"]["triggers"]], True), *text]

    def _begins(self, text: list[Json]) -> list[Json]:
        """The triggers of free text whose beginning the prompt has, as what is left of them."""
        begun = self.begun
        return [
            _trigger(one["text"].removeprefix(begun), one["next"], at_start=True)
            for one in text[0]["free"]["triggers"]
            if begun and one["text"] != begun and one["text"].startswith(begun)
        ]

    def _text(self, at: int) -> list[Json]:
        """Free text, perhaps with calls; the first section is number `at`."""
        tools, style = self.tools, self.format
        # These are found, so that the special tokens in them are a part of the text.
        marks = [_trigger(mark, at) for mark in style.marks]
        if tools is None:
            return [_free(marks, True)]
        blocks = [_trigger(text, at + 1, at_start) for text, at_start in style.blocks()]
        # Behind a name that is no function's, all is text.
        block = [_bound(tools.block(style), at)] if blocks else []
        found = list(style.triggers(tools.names))
        if tools.mode == "none":
            blocked = [
                _trigger(text, None, way.at_start) for text, way, _ in found if not (way.at_start and blocks)
            ]
            return [_free([*marks, *blocked, *blocks], True), *block]
        called = []
        for text, way, name in found:
            one = tools if name is None else dataclasses.replace(tools, names=[name])
            several = tools.parallel and not way.resumes
            after = at if way.resumes and tools.parallel else None
            called.append(_bound(one.core(way, text, several), after))
        return [_free([*marks, *self._triggers(at), *blocks], True), *block, *called]

    def _begun(self, text: str) -> str:
        """The beginning of a text that the prompt ends with, if the answer begins with that text."""
        if self.thinking is not None:
            return ""
        sizes = range(len(text), 0, -1)
        return next((text[:size] for size in sizes if self.tail.endswith(text[:size])), "")

    @property
    def begun(self) -> str:
        """The beginning of a call that the prompt ends with."""
        return self._begun(self._behind.head)

    @property
    def _behind(self) -> Format:
        """The format of calls that come at once, or behind reasoning."""
        style = self.format
        turn = style.turn if self.thinking else ""
        return dataclasses.replace(style, open=turn + style.silent + style.open)

    @property
    def _lead(self) -> str:
        """The text between reasoning, if there is any, and a constrained answer."""
        lead = self.format.lead
        return (self.format.turn if self.thinking else "") + lead.removeprefix(self._begun(lead))

    @property
    def opening(self) -> str:
        """The text before a constrained answer without reasoning."""
        return (self.thinking.markers[1] if self.thinking else "") + self._lead

    def _constrained(self, at: int) -> list[Json]:
        """A constrained answer, perhaps with calls in its place."""
        tools = self.tools
        lead = self._lead
        if structural.is_free(self.constraint):
            before = lead and not structural.begins_free(self.constraint)
            opening = [_bound({"text": lead}, at + 1)] if before else []
            return [*opening, *structural.shifted(self.constraint, at + len(opening))]
        if tools is not None and tools.called:
            begun = self._begun(self._behind.head)
            answer = {"lead": lead, "or": self.constraint}
            return [_bound(tools.core(self._behind, begun, tools.parallel, answer))]
        return [*([_bound({"text": lead}, at + 1)] if lead else []), _bound(self.constraint)]

    def parts(self) -> Grammar | None:
        """The parser's grammar; None where all of the text is content."""
        thinking = self.thinking
        called = self.tools is not None and self.tools.called
        if thinking is None and not called and not self.format.marks:
            return None
        return Grammar(
            markers=thinking.markers if thinking else None,
            inside=bool(thinking and thinking.inside),
            format=self.format if called else None,
            marks=self.format.marks,
            begun=self.begun,
            several=self.tools is None or self.tools.parallel,
            calls_end_thinking=self._calls_end_thinking,
            functions=self.tools.argument_types(self.format) if called and self.tools else {},
        )


def _trigger(text: str, after: int | None, at_start: bool = False) -> Json:
    return {"text": text, "next": after, "at_start": at_start}


def _free(triggers: list[Json], may_end: bool, limit: Json | None = None, reasoning: bool = False) -> Json:
    return {"free": {"triggers": triggers, "may_end": may_end, "limit": limit, "reasoning": reasoning}}


def _bound(grammar: Any, after: int | None = None) -> Json:
    return {"bound": {"grammar": grammar, "next": after}}
