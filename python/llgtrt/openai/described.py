"""Formats of function calls that `server.tool_format` describes (docs/tools.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llgtrt.openai.arguments import Types
from llgtrt.openai.formats import TYPES, Format, Parameters
from llgtrt.openai.parse import Grammar, Parser, whole
from llgtrt.openai.pieces import Arguments, Call
from llgtrt.settings import StartError

_AT = "server.tool_format"
_LONGEST = 256
"""Bytes of a trigger, as in the core (`rust/grammar/src/spec.rs`, `Trigger`)."""
_PLACE = re.compile(r" - at `\$\.?(.*?)`$")
_SAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("get", {"text": 'It is <5> & "so", isn\'t it?\n', "n": -5, "list": [1, {"k": "v"}], "yes": True}),
    ("get_all", {}),
]
_TYPES: Types = {
    "text": frozenset({"string"}),
    "n": frozenset({"number"}),
    "list": frozenset({"array"}),
    "yes": frozenset({"boolean"}),
}
"""Calls that must be read as they were written."""


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    """How arguments are written one by one (`formats.Parameters`)."""

    before: str
    between: str | dict[str, str]
    after: str
    separator: str = ""
    raw: bool = True
    quote: str = ""
    nested: bool = False
    python: bool = False
    cdata: bool = False

    def made(self, at: str) -> Parameters:
        """The same as the grammar and the parser know it.

        Raises:
            StartError: parts are missing or contradict each other.
        """
        given = self.between
        between = dict.fromkeys(TYPES, given) if isinstance(given, str) else given
        if wrong := sorted(between.keys() ^ {*TYPES}):
            raise StartError(
                f"{at}.between: must be a text, or one for each of {', '.join(TYPES)}: see {wrong[0]:.40}"
            )
        if empty := [of for of in TYPES if not between[of]]:
            raise StartError(
                f"{at}.between: must have a text for {', '.join(empty)}, to show where names end"
            )
        if self.raw and not (self.quote + self.after).strip():
            raise StartError(f"{at}.after: must say where a string ends; or write quote, or raw: false")
        if self.nested and not self.quote:
            raise StartError(f"{at}.quote: must say what stands around strings within arrays")
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name != "between"}
        return Parameters(between=between, **named)


class _Described(msgspec.Struct, forbid_unknown_fields=True):
    """The parts of a `formats.Format`, by the same names."""

    before: str
    between: str
    after: str
    trigger: str | None = None
    open: str = ""
    separator: str | None = "\n"
    close: str = ""
    at_start: bool = False
    resumes: bool = False
    short_ids: bool = False
    parameters: _Parameters | None = None
    betweens: list[str] = []
    alternatives: list[_Described] = []
    ends_thinking: bool = False
    turn: str = ""
    silent: str = ""
    lead: str = ""
    marks: list[str] = []

    def made(self, at: str) -> Format:
        """The same as the grammar and the parser know it.

        Raises:
            StartError: parts are missing or contradict each other.
        """
        head = self.open + self.before
        trigger = head.rstrip() if self.trigger is None else self.trigger
        if not trigger.strip() or len(trigger.encode()) > _LONGEST:
            raise StartError(f"{at}.trigger: must have 1 to {_LONGEST} bytes that show that a call begins")
        begins = f"{head}{{name}}{self.between}"
        if not begins.startswith(trigger):
            raise StartError(f"{at}.trigger: must be how a call begins: {begins!r}")
        if self.resumes and (self.open or self.close or self.separator is None):
            raise StartError(f"{at}.resumes: excludes open and close, and needs a separator")
        special = ("parameters", "alternatives", "trigger")
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name not in special}
        named |= {name: tuple(getattr(self, name)) for name in ("betweens", "marks")}
        ways = [way.made(f"{at}.alternatives[{i}]") for i, way in enumerate(self.alternatives)]
        parameters = None if self.parameters is None else self.parameters.made(f"{at}.parameters")
        return Format(trigger=trigger, parameters=parameters, alternatives=tuple(ways), **named)


def described(given: Mapping[str, Any]) -> Format:
    """The format that these parts describe.

    Raises:
        StartError: a part is unknown, missing or of another type, they contradict each other, or calls that
            are written so cannot be read again.
    """
    try:
        parts = msgspec.convert(given, _Described)
    except msgspec.ValidationError as e:
        place = _PLACE.search(str(e))
        at = f"{_AT}.{place[1]}" if place and place[1] else _AT
        raise StartError(f"{at}: {_PLACE.sub('', str(e))}; the parts are in docs/tools.md") from e
    style = parts.made(_AT)
    for i, way in enumerate(style.ways):
        at = f"{_AT}.alternatives[{i - 1}]" if i else _AT
        _check(way, style, at)
    return style


def _check(way: Format, style: Format, at: str) -> None:
    """Reads calls as they are written.

    Raises:
        StartError: they come to something else.
    """
    calls = _SAMPLES[: 1 if way.separator is None else 2]
    written = way.write([(name, json.dumps(arguments)) for name, arguments in calls])
    if _read(style, written) != calls:
        raise StartError(f"{at}: calls that are written so cannot be read again: {written!r}")


def _read(style: Format, text: str) -> Sequence[tuple[str, Any]]:
    grammar = Grammar(format=style, functions={name: _TYPES for name, _ in _SAMPLES}, marks=style.marks)
    calls: list[tuple[str, str]] = []
    for piece in whole(Parser(grammar), text, "stop"):
        if isinstance(piece, Call):
            calls.append((piece.name, ""))
        elif isinstance(piece, Arguments):
            calls[-1] = calls[-1][0], calls[-1][1] + piece.text
    return [(name, json.loads(arguments)) for name, arguments in calls]
