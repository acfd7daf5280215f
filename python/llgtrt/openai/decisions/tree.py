"""The probability of each of several texts: the sum over all token paths that spell it.

The probability of a path is the product of its tokens' probabilities, each among the tokens that the
constraint allows there. So the probability of a text is the probability that the server generates it at
temperature 1 under the same constraint.

A path is followed only while several options start with its text. Once one option is left, the path's whole
probability belongs to it. The nodes of this tree are evaluated in rounds, likely ones first. A round is one
request. Its choices share the KV of the prompt, and each continues along the text that its options have in
common. The last paths, whose probabilities add up to less than the tolerance, are not followed. Their
probability is divided among their options in the ratio of what is known of these.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Generator, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from llgtrt.engine import AsyncEngine, Successors
from llgtrt.prompt import Vocabulary

LEAST_TOLERANCE = 2e-7
"""A tolerance below this is this: the engine's numbers have no more digits."""

_MOST_ROUNDS = 64
MOST_PATHS = 128
"""Choices of one request of the core."""
_PATHS = 8
"""More paths than these are rarely open at once."""
_MOST_AHEAD = 32
"""Most tokens that a path may have after its node; the core takes as many (`MAX_WANTED`)."""

Path = tuple[int, ...]
Rows = list[list[Successors]]


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to be decided.

    `core`: fields of the core's request, including its constraint. `base`: tokens of the output before the
    options. `inside`: the options are JSON values, and the output continues after them. `tolerance`: the
    total probability of paths that need not be followed.
    """

    core: dict[str, Any]
    prompt: Sequence[int]
    options: Sequence[str]
    base: Path = ()
    inside: bool = False
    tolerance: float = 0.0


@dataclasses.dataclass(frozen=True)
class Found:
    """The probability of each option, in order; they add up to 1. None is off by more than `error`."""

    probabilities: list[float]
    error: float


async def all_decided(
    engine: AsyncEngine, vocabulary: Vocabulary, decisions: Sequence[Decision]
) -> list[Found]:
    """Decides all of them, and no more at once than the engine has places for their paths.

    Raises:
        CoreError: the engine refuses a request, or fails. The others are cancelled.
    """
    places: int = engine.info()["max_running"]
    at_once = max(1, min(len(decisions), places // _PATHS))
    turn = asyncio.Semaphore(at_once)

    async def one(decision: Decision) -> Found:
        async with turn:
            return await decided(engine, vocabulary, decision, min(places // at_once, MOST_PATHS))

    tasks = [asyncio.ensure_future(one(decision)) for decision in decisions]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def decided(engine: AsyncEngine, vocabulary: Vocabulary, decision: Decision, most: int) -> Found:
    """Follows the paths of the options, up to `most` in a round.

    Raises:
        CoreError: the engine refuses the request, or fails.
    """
    asking = rounds(vocabulary, decision, most)
    step = advance(asking, None)
    while not isinstance(step, Found):
        step = advance(asking, await _evaluated(engine, *step))
    return step


Rounds = Generator[tuple[str, int], Rows | None, Found]
"""See `rounds`."""


def advance(asking: Rounds, rows: Rows | None) -> tuple[str, int] | Found:
    """The next request and the number of its choices, given the rows of the last one; or what was found."""
    try:
        return asking.send(rows)
    except StopIteration as e:
        found: Found = e.value
        return found


def rounds(vocabulary: Vocabulary, decision: Decision, most: int) -> Rounds:
    """Yields each request of the core with the number of its choices, and takes their rows; returns the end.

    A round follows up to `most` paths. A row is what may follow on a path, after its node and after each
    further token.
    """
    tree = _Tree(vocabulary, decision.options)
    for _ in range(_MOST_ROUNDS):
        paths = tree.wanted(most, max(decision.tolerance, LEAST_TOLERANCE))
        if not paths:
            break
        rows = yield _request(decision, paths), len(paths)
        assert rows is not None
        tree.take(paths, rows)
    return tree.result()


def _request(decision: Decision, paths: Sequence[tuple[Path, int]]) -> str:
    base = decision.base
    told = [{"tokens": [*base, *path], "from": len(base) + first} for path, first in paths]
    decide = {
        "options": decision.options,
        "base": len(base),
        "paths": told,
        "inside": decision.inside,
    }
    request = {**decision.core, "prompt": decision.prompt, "n": len(paths), "decide": decide}
    return msgspec.json.encode(request).decode()


async def _evaluated(engine: AsyncEngine, request: str, paths: int) -> Rows:
    generation = await engine.submit([request], paths)
    found: Rows = [[] for _ in range(paths)]
    try:
        while deltas := await generation.next():
            for delta in deltas:
                found[delta.index] += delta.successors
    finally:
        generation.cancel()
    return found


class _Tree:
    """The nodes that are known, and what their probabilities add up to."""

    def __init__(self, vocabulary: Vocabulary, options: Sequence[str]) -> None:
        self._vocabulary = vocabulary
        self._texts = [option.encode() for option in options]
        self._settled = [0.0] * len(options)
        self._open: list[tuple[float, Path]] = [(1.0, ())]
        """Nodes that are not evaluated yet, the likeliest first."""

    @property
    def left(self) -> float:
        """The total probability of paths that are not followed yet."""
        return sum(probability for probability, _ in self._open)

    def wanted(self, most: int, tolerance: float) -> list[tuple[Path, int]]:
        """Paths to be evaluated next, and how many tokens of each lead to its node; none at the end."""
        left = self.left
        wanted = []
        for probability, node in self._open[:most]:
            if left <= tolerance:
                break
            wanted.append(((*node, *self._ahead(node)), len(node)))
            left -= probability
        return wanted

    def take(self, paths: Sequence[tuple[Path, int]], found: Sequence[Sequence[Successors]]) -> None:
        """Adds the rows of a round."""
        known = {
            path[: first + i]: row
            for (path, first), rows in zip(paths, found, strict=True)
            for i, row in enumerate(rows)
        }
        line, self._open = self._open, []
        while line:
            probability, node = line.pop()
            if node not in known:
                self._open.append((probability, node))
                continue
            settled, several = known[node]
            for option, share in enumerate(settled):
                self._settled[option] += probability * share
            line.extend((probability * share, (*node, token)) for token, share in several)
        self._open.sort(key=lambda entry: (-entry[0], entry[1]))

    def result(self) -> Found:
        """The probabilities, with the share of paths that are not followed."""
        settled = list(self._settled)
        for probability, node in self._open:
            left = self._left(node)
            known = sum(self._settled[option] for option in left)
            for option in left:
                part = self._settled[option] / known if known else 1 / len(left)
                settled[option] += probability * part
        total = sum(settled)
        return Found([share / total for share in settled], self.left)

    def _left(self, node: Path) -> list[int]:
        begun = self._bytes(node)
        return [i for i, text in enumerate(self._texts) if text.startswith(begun)]

    def _ahead(self, node: Path) -> list[int]:
        """Tokens of the text that all options of a node have in common after it."""
        begun = len(self._bytes(node))
        rests = [self._texts[option][begun:] for option in self._left(node)]
        first, last = min(rests), max(rests)
        shared = bytes(
            a for a, b in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        )
        try:
            written = self._vocabulary.text(first.decode()) if shared else []
        except UnicodeDecodeError:
            return []  # the node ends within a character
        ahead: list[int] = []
        for token in written[:_MOST_AHEAD]:
            # There are tokenizers that begin every text with a space.
            if not shared.startswith(self._bytes((*ahead, token))):
                break
            ahead.append(token)
        return ahead

    def _bytes(self, node: Path) -> bytes:
        return b"".join(self._vocabulary.lookup(token)[0] for token in node)
