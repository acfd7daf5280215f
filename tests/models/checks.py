"""What every model is held to on our server, and how far it is from llama-server.

An answer is fresh where its request has a `cache_salt` that none had before: no kept prefix is reused then.
"""

from __future__ import annotations

import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from .asks import Answer, Ours, Peer
from .compare import Distance, apart_by, follow

LETTERS = 96
"""Tokens of one letter, the first ones: prompts are made of them."""
WRITTEN = 48
DRAWN: dict[str, Any] = {"temperature": 1, "seed": 5}
"""Beside greedy text, which soon repeats itself in models with random weights."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["the", "and", None]},
        "parts": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "count", "kind", "parts"],
    "additionalProperties": False,
}
DENSE = {"0": -100, str(LETTERS - 1): -100}
"""Against spaces and newlines, of which a model with random weights would write as many as it may."""
salts = itertools.count()


@dataclass
class Finding:
    """What a check found: faults in words, and numbers."""

    faults: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)

    def hold(self, right: bool, fault: str) -> None:
        """Notes a fault where something is not right."""
        if not right:
            self.faults.append(fault)

    def add(self, name: str, number: float) -> None:
        """Adds to a number."""
        self.numbers[name] = self.numbers.get(name, 0) + number

    def most(self, name: str, number: float) -> None:
        """Keeps the larger one of a number and what there is."""
        self.numbers[name] = max(self.numbers.get(name, 0), number)


@dataclass
class Judge:
    """Compares answers of our server to each other: to the last bit, or up to near-ties, as it promises."""

    exact: bool
    finding: Finding = field(default_factory=Finding)

    def equal(self, what: str, fresh: Answer, other: Answer, greedy: bool) -> None:
        """Notes a fault where an answer is not what it is to be; where it may and does, counts that."""
        self.finding.add("answers", 1)
        if fresh.same(other):
            return
        self.finding.add("differ", 1)
        distance = Distance()
        equal = distance.add(fresh, other)
        self.finding.most("drift", distance.drift)
        kind = "text" if fresh.text != other.text else "scores"
        told = f"{what}: other {kind} after {equal} of {len(fresh.tokens)} tokens, "
        told += f"scores of the same candidates {apart_by(distance.drift)}"
        near = distance.drift_is_near
        # A drawn token depends on noise, too: its score alone does not show a near-tie.
        if greedy:
            near = distance.near
            told += "".join(f"; {where}" for where in distance.where)
        complete = distance.parted > 0 or equal == len(fresh.tokens) == len(other.tokens)
        self.finding.hold(near and complete and not self.exact, told)


def salt() -> str:
    """A salt that no request had before."""
    return f"salt {next(salts)}"


def prompt(seed: int, length: int) -> list[int]:
    """Letters at random."""
    rng = random.Random(seed)
    return [rng.randrange(LETTERS) for _ in range(length)]


def ways() -> list[tuple[str, dict[str, Any]]]:
    """Greedy, and drawn."""
    return [("greedy", {}), ("drawn", DRAWN)]


def beside_peer(mine: Ours, theirs: Peer) -> Finding:
    """The same greedy tokens as llama-server's, for prompts within and beyond a window of 32 tokens."""
    finding = Finding()
    for length in (5, 40, 120):
        distance = follow(mine, theirs, prompt(length, length), 64)
        finding.add("tokens", distance.tokens)
        finding.add("parted", distance.parted)
        finding.most("drift", distance.drift)
        finding.most("gap", distance.gap)
        told = f"prompt of {length}, {distance.tokens} tokens: scores of the same candidates "
        told += apart_by(distance.drift)
        finding.hold(distance.near, told + "".join(f"; {where}" for where in distance.where[-1:]))
    return finding


def prefixes(mine: Ours, exact: bool) -> Finding:
    """The same text from kept prefixes as from none: all of a prompt, an answer with more behind, a part."""
    judge = Judge(exact)
    for name, way in ways():
        first = prompt(1, 100)
        kept = {"cache_salt": salt(), **way}
        fresh = mine.complete(first, WRITTEN, cache_salt=salt(), **way)
        judge.equal(f"{name}, first", fresh, mine.complete(first, WRITTEN, **kept), not way)
        longer = first + fresh.tokens[:30] + prompt(2, 9)
        prompts = [
            ("again", first),
            ("longer", longer),
            ("shorter", first[:61] + prompt(3, 5)),
            ("back", first),
        ]
        for what, tokens in prompts:
            alone = mine.complete(tokens, WRITTEN, cache_salt=salt(), **way)
            reused = mine.complete(tokens, WRITTEN, **kept)
            judge.finding.add("reused", reused.usage["prompt_tokens_details"]["cached_tokens"])
            judge.finding.add("prompt tokens", len(tokens))
            judge.equal(f"{name}, {what}", alone, reused, not way)
    return judge.finding


def drafts(mine: Ours, exact: bool, sources: list[str]) -> Finding:
    """The same text with drafts: from the source, and from the client with every fifth token wrong."""
    judge = Judge(exact)
    for name, way in ways():
        tokens = prompt(4, 12) * 6
        fresh = mine.complete(tokens, WRITTEN, cache_salt=salt(), **way)
        wrong = [(t + 1) % LETTERS if i % 5 == 3 else t for i, t in enumerate(fresh.tokens)]
        cases: list[tuple[str, dict[str, Any]]] = [("", {"sources": sources})]
        cases.append((" and the client's", {"sources": [*sources, "prediction"], "draft_tokens": wrong}))
        for what, more in cases:
            answer = mine.complete(
                tokens, WRITTEN, cache_salt=salt(), speculative=more | {"report": True}, **way
            )
            for counts in answer.usage["speculative"]["sources"].values():
                for fate in ("drafted", "accepted"):
                    judge.finding.add(fate, counts[fate])
            judge.equal(f"{name}, {' '.join(sources)}{what}", fresh, answer, not way)
    return judge.finding


def several(mine: Ours, exact: bool) -> Finding:
    """Two choices of a prompt: the first is that of a request for one, and both are the same again."""
    judge = Judge(exact)
    tokens = prompt(6, 30)
    one = mine.complete(tokens, WRITTEN, cache_salt=salt(), **DRAWN)
    two = mine.choices(tokens, WRITTEN, n=2, cache_salt=salt(), **DRAWN)
    again = mine.choices(tokens, WRITTEN, n=2, cache_salt=salt(), **DRAWN)
    judge.equal("first of two", one, two[0], False)
    judge.equal("first of two again", two[0], again[0], False)
    judge.equal("second of two again", two[1], again[1], False)
    judge.finding.hold(two[0].text != two[1].text, "both choices are the same")
    return judge.finding


def schemas(mine: Ours, exact: bool, sources: list[str]) -> Finding:
    """Texts that a JSON schema allows, the same with drafts as without."""
    judge = Judge(exact)
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}
    for seed in (None, 1, 2):
        way: dict[str, Any] = {} if seed is None else {"temperature": 1, "seed": seed}
        more: dict[str, Any] = {
            "response_format": form,
            "ignore_eos": False,
            "logit_bias": DENSE,
            "cache_salt": salt(),
            **way,
        }
        fresh = mine.complete(prompt(7, 20), 120, **more)
        try:
            jsonschema.validate(json.loads(fresh.text), SCHEMA)
        except (ValueError, jsonschema.ValidationError) as error:
            judge.finding.hold(
                False, f"seed {seed}: {fresh.finish}, {fresh.text!r}: {str(error).splitlines()[0]}"
            )
        more |= {"cache_salt": salt(), "speculative": {"sources": sources}}
        judge.equal(
            f"seed {seed}, {' '.join(sources)}",
            fresh,
            mine.complete(prompt(7, 20), 120, **more),
            seed is None,
        )
    return judge.finding


def churn(mine: Ours, exact: bool, sources: list[str]) -> Finding:
    """The same text beside seven others as alone, while these come and go, some with drafts."""
    judge = Judge(exact)
    asks = [(prompt(10 + i, 10 + 13 * i), 16 + 8 * (i % 5), DRAWN if i % 2 else {}) for i in range(8)]

    def ask(index: int, drafting: bool) -> Answer:
        tokens, count, way = asks[index % 8]
        speculative = {"sources": sources} if drafting else {"enabled": False}
        return mine.complete(tokens, count, cache_salt=salt(), speculative=speculative, **way)

    alone = [ask(index, False) for index in range(8)]
    with ThreadPoolExecutor(8) as pool:
        among = list(pool.map(lambda index: ask(index, index % 3 == 0), range(24)))
    for index, answer in enumerate(among):
        judge.equal(f"request {index}", alone[index % 8], answer, not asks[index % 8][2])
    return judge.finding
