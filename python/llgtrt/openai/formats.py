"""How models write function calls and reasoning.

Both the core's grammar and the parser are made from a `Format`, so the parser can read everything that the
grammar allows. A format is learned from the model's chat template (`learn.py`), or is one of those in
`known.py`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Markers = tuple[str, str]
"""The texts before and behind reasoning."""

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""JSON's types, as the core names them."""

CHOSEN = re.compile(r"\{(id|index)\}")
"""Placeholders for texts that the model chooses: the id of a call, or its number."""
NAME = "{name}"
"""Placeholder for the function's name, in triggers and between a name and the arguments."""
_BRACES = ("{", "{\n  ", "{\n    ", "{{")
"""How models begin a JSON object. Qwen2.5-Coder's template shows two braces, and the model repeats them."""


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Texts around arguments that are written one by one (`rust/grammar/src/spec.rs`, `Parameters`)."""

    before: str
    between: Mapping[str, str]
    """By the value's type (`TYPES`)."""
    after: str
    separator: str = ""
    raw: bool = True
    """Strings are written as they are; otherwise as JSON."""
    quote: str = ""
    """Stands before and after raw strings."""
    nested: bool = False
    """Within arrays and objects, strings are in these quotes, too, and keys have no quotes."""
    python: bool = False
    """`True`, `False` and `None` stand for `true`, `false` and `null`."""
    cdata: bool = False
    """Raw strings may stand between `<![CDATA[` and `]]>`."""

    def write(self, name: str, value: Any) -> str:
        """A parameter the way a model writes it."""
        return f"{self.before}{name}{self.between[type_of(value)]}{self._value(value)}{self.after}"

    def core(self) -> dict[str, Any]:
        """The texts as the core's grammar has them."""
        texts = dataclasses.asdict(self)
        # To the core, it is a part of the string.
        del texts["cdata"]
        return texts

    def _value(self, value: Any) -> str:
        match value:
            case str() if self.raw:
                return f"{self.quote}{value}{self.quote}"
            case None | bool() if self.python:
                return str(value)
            case list() if self.nested:
                return f"[{','.join(map(self._value, value))}]"
            case dict() if self.nested:
                return f"{{{','.join(f'{key}:{self._value(inner)}' for key, inner in value.items())}}}"
        return json.dumps(value, ensure_ascii=False)


@dataclasses.dataclass(frozen=True)
class Format:
    """Texts around the names and arguments of calls (`rust/grammar/src/spec.rs`, `Calls`)."""

    before: str
    between: str
    after: str
    trigger: str
    """The beginning of a call by which it is found in free text; with `{name}`, that of each function."""
    open: str = ""
    separator: str | None = "\n"
    """None: the model writes one call only."""
    close: str = ""
    at_start: bool = False
    """The trigger counts only at the beginning of an answer."""
    resumes: bool = False
    """Text may follow a call, and further calls may follow that text."""
    short_ids: bool = False
    """Templates want ids of nine letters and digits."""
    parameters: Parameters | None = None
    """How arguments are written one by one; None: they are one JSON object."""
    betweens: tuple[str, ...] = ()
    """Other texts that may stand between a name and the arguments."""
    alternatives: tuple[Format, ...] = ()
    """Other ways in which models of this format write calls."""
    ends_thinking: bool = False
    """A call may end reasoning without the mark for its end."""
    turn: str = ""
    """The text between reasoning and the rest of the answer."""
    silent: str = ""
    """The text before calls in an answer without content."""
    lead: str = ""
    """The text before the content."""
    marks: tuple[str, ...] = ()
    """Texts that are removed from the content, such as names of channels."""

    @property
    def key(self) -> str | None:
        """The key of the arguments, if a call is a JSON object that begins with the name; else None.

        Models that were trained little on calls write such objects in blocks of code, or without marks.
        """
        key = re.search(r'"(\w+)": $', self.between)
        return key[1] if key and self.parameters is None and self.before.endswith('{"name": "') else None

    def blocks(self) -> list[tuple[str, bool]]:
        """Texts before a name in a block of code, each with whether it must begin the answer."""
        if self.key is None:
            return []
        fenced = [(f"{fence}\n{brace}", False) for fence in ("```json", "```") for brace in _BRACES]
        bare = [(brace, True) for brace in _BRACES]
        begun = [(f'{begin}"name": "', at_start) for begin, at_start in (*fenced, *bare)]
        return [(begin, at_start) for begin, at_start in begun if begin != self.trigger]

    @property
    def ways(self) -> tuple[Format, ...]:
        """All ways to write calls."""
        return (self, *self.alternatives)

    def triggers(self, names: Iterable[str]) -> Iterator[tuple[str, Format, str | None]]:
        """The texts that begin a call of these functions, with the way and the function if they show it."""
        for way in self.ways:
            if NAME not in way.trigger:
                yield way.trigger, way, None
                continue
            for name in names:
                yield way.trigger.replace(NAME, name), way, name

    def named(self, name: str) -> list[str]:
        """The texts that may stand between this name and the arguments."""
        return [text.replace(NAME, name) for text in (self.between, *self.betweens)]

    def with_inner(self) -> Format:
        """A format that also accepts calls without the first of the two marks that they begin with."""
        inner = re.fullmatch(r"(<[^<>]*>)\s*(<\w[^<>]*)", self.before)
        if inner is None or self.open or self.parameters is None:
            return self
        other = dataclasses.replace(self, before=inner[2], trigger=inner[2])
        return dataclasses.replace(self, alternatives=(other,))

    @property
    def head(self) -> str:
        """The text before the first name."""
        return self.open + self.before

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, as names and arguments, the way a model writes them."""
        written = (self._call(i, name, arguments) for i, (name, arguments) in enumerate(calls))
        return self.open + (self.separator or "").join(written) + self.close

    def _call(self, index: int, name: str, arguments: str) -> str:
        if self.parameters is not None:
            pairs = [self.parameters.write(*pair) for pair in json.loads(arguments).items()]
            arguments = self.parameters.separator.join(pairs)
        chosen = {"id": f"call{index:05}", "index": str(index)}
        texts = (self.before, self.named(name)[0], self.after)
        around = [CHOSEN.sub(lambda found: chosen[found[1]], text) for text in texts]
        return f"{around[0]}{name}{around[1]}{arguments}{around[2]}"

    def texts(self) -> list[str]:
        """All texts around names and arguments."""
        found = [self.open, self.separator or "", self.close]
        found += [self.before, self.between, self.after, *self.betweens]
        found += [text for way in self.alternatives for text in way.texts()]
        of_each = self.parameters
        if of_each is None:
            return found
        return [*found, of_each.before, *of_each.between.values(), of_each.quote, of_each.after]

    def core(self) -> dict[str, Any]:
        """The texts as the core's grammar has them."""
        names = ("open", "before", "between", "betweens", "after", "close")
        texts = {name: getattr(self, name) for name in names}
        if self.parameters is None:
            return {**texts, "parameters": None}
        return {**texts, "parameters": self.parameters.core()}


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def tagged(before: str, between: str, after: str, **others: Any) -> Parameters:
    """Parameters with the same texts around values of all types."""
    return Parameters(before, dict.fromkeys(TYPES, between), after, **others)


MARKERS = (
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    (" to=self<|message|>", "<|eom|>"),
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
)
"""Known markers of reasoning."""
_SIGNS = {
    "<|end|>": "<|channel|>analysis<|message|>",
    "<|close|>think<|sep|>": "open_tag('think')",
    "<|eom|>": " to=self<|message|>",
}
"""What a template has of those whose end stands elsewhere, too, or is put together."""


def markers(configured: Sequence[str] | None, template: str) -> Markers | None:
    """The configured markers; without them, the template's. None: there is no reasoning."""
    if configured is not None:
        return (configured[0], configured[1]) if configured else None
    return next((pair for pair in MARKERS if _SIGNS.get(pair[1], pair[1]) in template), None)


def instructions(style: Format, tools: Sequence[dict[str, Any]], parallel: bool) -> str:
    """The description of functions for a model whose template has no place for them."""
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    example = style.write([("NAME", '{"PARAMETER": "VALUE"}' if style.parameters else "{…}")])
    several = "; several calls one after the other" if parallel else ", and one call only"
    return "\n".join(
        [
            "You can call functions. These are there, each with the JSON schema of its arguments:",
            *lines,
            f"To call one, answer with nothing but its name and arguments in this form{several}:",
            example,
        ]
    )
