"""`probabilities`: how probable each value of an enum or a boolean was at its place in an answer.

The tokens before the value are those of the answer. The values are the options of a decision, under the
answer's own constraint.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from llgtrt.engine import AsyncEngine
from llgtrt.openai import schema, translate
from llgtrt.openai.constraint import constraint, field
from llgtrt.openai.decisions.tree import Decision, all_decided
from llgtrt.openai.errors import invalid
from llgtrt.openai.parse import Grammar, Parser, whole
from llgtrt.openai.pieces import Content
from llgtrt.openai.render import Whole
from llgtrt.openai.tools import decoded
from llgtrt.prompt import Vocabulary

_MOST = 32
_MOST_IN_ALL = 256
"""Of all choices of a request together: each place is a decision of its own."""
_DEEP = 64
"""References and branches that are followed to one place."""

_decoder = json.JSONDecoder()

Scalar = str | int | float | bool | None


@dataclasses.dataclass(frozen=True)
class Places:
    """The places that a request asks for."""

    options: Mapping[str, Sequence[Scalar]]
    """The values that may stand at each place, by its JSON pointer."""
    core: Mapping[str, Any]
    """Fields of the core's request, its constraint among them."""
    prompts: Sequence[Sequence[int]]
    parts: Grammar | None
    """Tells a chat's answer from its reasoning and calls."""

    def check(self, lacks: Mapping[str, Any]) -> None:
        """Refuses the request before its answer is generated; `lacks`: what the engine cannot do.

        Raises:
            ApiError: it makes no decisions.
        """
        if "Decisions" in lacks["features"]:
            what = "probabilities"
            raise invalid(what, f"{what}: is not possible on {lacks['engine']}; leave it out")

    async def tell(self, engine: AsyncEngine, vocabulary: Vocabulary, choices: Sequence[Whole]) -> None:
        """Sets `probabilities` of all choices: by pointer, or None where the answer lacks the place.

        Raises:
            CoreError: the engine fails.
        """
        each = len(choices) // len(self.prompts)
        asked = [
            (choice, pointer, decision)
            for index, choice in enumerate(choices)
            for pointer, decision in self._decisions(vocabulary, self.prompts[index // each], choice)
        ]
        there = [decision for *_, decision in asked if decision is not None]
        found = iter(await all_decided(engine, vocabulary, there) if there else ())
        for choice, pointer, decision in asked:
            told = None
            if decision is not None:
                names = map(_name, self.options[pointer])
                told = dict(zip(names, next(found).probabilities, strict=True))
            choice.probabilities = {**(choice.probabilities or {}), pointer: told}

    def _decisions(
        self, vocabulary: Vocabulary, prompt: Sequence[int], choice: Whole
    ) -> Iterator[tuple[str, Decision | None]]:
        """For each pointer the decision at its place; None where the answer lacks the place."""
        content = self._content(choice)
        pieces = [vocabulary.lookup(token)[0] for token in choice.tokens]
        text = b"".join(pieces)
        start = text.rfind(content.encode())
        for pointer, values in self.options.items():
            place = span(content, _parts(pointer))
            if place is None or start < 0:
                yield pointer, None
                continue
            base, before = _boundary(pieces, text, start + len(content[: place[0]].encode()))
            written = content[slice(*place)]
            options = [before + value for value in _written(values, written)]
            yield (
                pointer,
                Decision(dict(self.core), prompt, options, tuple(choice.tokens[:base]), inside=True),
            )

    def _content(self, choice: Whole) -> str:
        if self.parts is None:
            return choice.text
        told = whole(Parser(self.parts), choice.text, choice.finish_reason)
        return "".join(piece.text for piece in told if isinstance(piece, Content))


def places(
    body: schema.Common, core: str, prompts: Sequence[Sequence[int]], parts: Grammar | None = None
) -> Places | None:
    """What a request asks for; None where it asks for nothing. `core`: its request of the core.

    Raises:
        ApiError: it has no JSON schema, or a pointer is not to an enum or a boolean of it.
    """
    pointers = body.probabilities
    if not pointers:
        return None
    if body.stream:
        raise invalid("probabilities", "probabilities: not in a stream; leave one of both out")
    if len(pointers) > _MOST:
        message = f"probabilities: has {len(pointers)} pointers; send at most {_MOST}"
        raise invalid("probabilities", message)
    choices = len(prompts) * translate.choices(body)
    if len(pointers) * choices > _MOST_IN_ALL:
        asked = f"{len(pointers)} pointers and {choices} choices"
        raise invalid("probabilities", f"probabilities: {asked}; {_MOST_IN_ALL} places are the most")
    root = _schema(constraint(body), field(body))
    options = {pointer: _options_at(root, pointer) for pointer in pointers}
    fields = msgspec.json.decode(core, type=dict[str, Any])
    kept = {name: fields[name] for name in ("grammar", "client", "priority", "cache_salt")}
    return Places(options, kept, prompts, parts)


def _schema(grammar: Any, at: str) -> Any:
    """The JSON schema of a constraint; `at`: its field."""
    while isinstance(grammar, dict) and "styled" in grammar:
        grammar = grammar["styled"]["grammar"]
    if not isinstance(grammar, dict) or "json_schema" not in grammar:
        message = "probabilities: needs a JSON schema of the answer; send one as response_format"
        raise invalid("probabilities", message)
    return decoded(grammar["json_schema"], at)


def _options_at(root: Any, pointer: str) -> list[Scalar]:
    """The values that the schema allows at the place.

    Raises:
        ApiError: it is not a place with few values.
    """
    if pointer and not pointer.startswith("/"):
        message = f"probabilities: {pointer:.64}: is no JSON pointer; write it like /sentiment"
        raise invalid("probabilities", message)
    nodes = [root]
    for part in _parts(pointer):
        nodes = [child for node in _joined(root, nodes) for child in _children(node, part)]
    known: dict[int, list[Scalar] | None] = {}
    listed = [_values(root, node, known, _DEEP) for node in nodes]
    told = [values for values in listed if values is not None]
    found = _unique(told) if len(told) == len(listed) else []
    if not found or len({_name(value) for value in found}) < len(found):
        message = f"probabilities: {pointer:.64}: is not the place of an enum or a boolean of the schema"
        raise invalid("probabilities", message)
    return found


def _joined(root: Any, nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """These schemas, and all that they are combined with or refer to, each once."""
    found: dict[int, dict[str, Any]] = {}
    line = list(nodes)
    while line:
        node = line.pop()
        if isinstance(node, dict) and id(node) not in found:
            found[id(node)] = node
            line += _branches(root, node)
    return list(found.values())


def _children(node: dict[str, Any], part: str) -> Iterator[Any]:
    """The schema of a member or of an item."""
    properties, first = node.get("properties"), node.get("prefixItems")
    if isinstance(properties, dict) and part in properties:
        yield properties[part]
    elif part.isdecimal():
        first = first if isinstance(first, list) else []
        yield first[int(part)] if int(part) < len(first) else node.get("items")


def _branches(root: Any, node: dict[str, Any]) -> list[Any]:
    """What a schema is combined with, and what it refers to."""
    lists = (node.get(keyword) for keyword in ("anyOf", "oneOf", "allOf"))
    found = [branch for branches in lists if isinstance(branches, list) for branch in branches]
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        target = root
        for part in _parts(reference[1:]):
            target = target.get(part) if isinstance(target, dict) else None
        found.append(target)
    return found


def _values(root: Any, node: Any, known: dict[int, list[Scalar] | None], deep: int) -> list[Scalar] | None:
    """The values that a schema lists; None where it lists none. `known`: what was found so far, by node."""
    if not isinstance(node, dict) or not deep:
        return None
    if id(node) not in known:
        known[id(node)] = None  # it refers to itself
        known[id(node)] = _listed(root, node, known, deep)
    return known[id(node)]


def _listed(
    root: Any, node: dict[str, Any], known: dict[int, list[Scalar] | None], deep: int
) -> list[Scalar] | None:
    if "enum" in node or "const" in node:
        listed = node.get("enum", [node.get("const")])
        scalars = isinstance(listed, list) and not any(isinstance(value, dict | list) for value in listed)
        return list(listed) if scalars else None
    kinds = node.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    values: dict[Any, list[Scalar]] = {"boolean": [True, False], "null": [None]}
    if all(isinstance(kind, str) and kind in values for kind in kinds):
        return [value for kind in kinds for value in values[kind]]
    several = [_values(root, branch, known, deep - 1) for branch in _branches(root, node)]
    told = [values for values in several if values is not None]
    complete = told and ("allOf" in node or len(told) == len(several))
    return _unique(told) if complete else None


def _unique(lists: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """The values of all lists, each once. 1 and true are not the same value."""
    return list({json.dumps(value): value for values in lists for value in values}.values())


def _parts(pointer: str) -> list[str]:
    """The reference tokens of a JSON pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def span(text: str, parts: Sequence[str]) -> tuple[int, int] | None:
    """Where the value at a place of a JSON text begins and ends; None where it is not there."""
    try:
        at = _blank(text, 0)
        for part in parts:
            found = next((start for name, start in _members(text, at) if name == part), None)
            if found is None:
                return None
            at = found
        return at, _decoder.raw_decode(text, at)[1]
    except (ValueError, IndexError, RecursionError):
        return None


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The members of an object or an array: their names or indices, and where their values begin."""
    is_object = text[at] == "{"
    if not is_object and text[at] != "[":
        return
    at, number = _blank(text, at + 1), 0
    while text[at] not in "}]":
        name = str(number)
        if is_object:
            name, at = _decoder.raw_decode(text, at)
            at = _blank(text, _blank(text, at) + 1)
        yield name, at
        at = _blank(text, _decoder.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _blank(text, at + 1)
        number += 1


def _blank(text: str, at: int) -> int:
    """Where white space ends."""
    while text[at] in " \n\r\t":
        at += 1
    return at


def _boundary(pieces: Sequence[bytes], text: bytes, at: int) -> tuple[int, str]:
    """The last border of tokens before byte `at`: the tokens before it, and the text from there to `at`."""
    borders = [0, *accumulate(map(len, pieces))]
    for tokens in reversed(range(len(borders))):
        if borders[tokens] <= at:
            try:
                return tokens, text[borders[tokens] : at].decode()
            except UnicodeDecodeError:
                continue  # the border is within a character
    return 0, text[:at].decode("utf-8", "replace")


def _written(values: Sequence[Scalar], there: str) -> list[str]:
    """Values as JSON; the one that is in the answer as it is written there."""
    own = json.loads(there)
    return [
        there if type(own) is type(value) and own == value else json.dumps(value, ensure_ascii=False)
        for value in values
    ]


def _name(value: Scalar) -> str:
    """A value as the key of an answer."""
    return value if isinstance(value, str) else json.dumps(value)
