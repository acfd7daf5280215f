"""What people ask of real models: free text, extraction, code, its edits, and questions about long texts."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from client import Body
from extractions import extractions
from work import Case

from llgtrt import demo

STREAMED: dict[str, Any] = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
CONTEXT = 4096
"""Tokens that the long prompts and their answers have, at most."""
PAIR = ("qwen-coder-1.5b.gguf", "qwen-coder-0.5b.gguf")

TOPICS = [
    *("how rain forms", "the history of bread", "why the sky is blue", "how a bicycle stays upright"),
    *("what a compiler does", "the life of a honey bee", "how vaccines work", "the rules of chess"),
    *("how tides come about", "why leaves turn red", "how a piano makes sound", "what inflation is"),
]
TASKS = [
    *("reverses a linked list", "parses a CSV line with quotes", "finds all primes below n"),
    *("merges two sorted lists", "counts the words of a file", "computes the edit distance of two strings"),
    *("validates an IPv4 address", "flattens a nested list", "converts Roman numerals to integers"),
]
CODE = '''class Inventory:
    """Items by name, and how many of each there are."""

    def __init__(self):
        self.items = {}

    def add(self, name, count=1):
        if count < 1:
            raise ValueError("count must be positive")
        self.items[name] = self.items.get(name, 0) + count

    def remove(self, name, count=1):
        if self.items.get(name, 0) < count:
            raise KeyError(name)
        self.items[name] -= count
        if self.items[name] == 0:
            del self.items[name]

    def total(self):
        return sum(self.items.values())

    def report(self):
        for name, count in sorted(self.items.items()):
            print(f"{name}: {count}")
'''
NAMES = ["Stock", "Warehouse", "Shelf", "Store", "Depot", "Pantry", "Cellar", "Ledger"]
SENTENCES = [
    "The ferry leaves the northern harbour at {n} minutes past every hour.",
    "In {n} villages of the valley the bakery opens before sunrise.",
    "The museum keeps {n} paintings of the river in its archive.",
    "A survey of {n} gardens found more butterflies than in the year before.",
    "The bridge was closed for {n} days while its cables were replaced.",
    "Some {n} students of the school took part in the summer course.",
]


@dataclass(frozen=True)
class Real(Case):
    """Requests of one kind: a key of `KINDS`."""

    kind: str = ""

    @property
    def count(self) -> int:
        """Requests of a round: real models are slow, so no more than are needed to keep the clients busy."""
        return max(2, self.clients + self.clients // 2)

    def bodies(self, seed: int) -> list[Body]:
        """The requests of a round: other ones for each seed."""
        if self.kind == "extraction":
            return [body | STREAMED for body in extractions(seed, self.count, True, 0.0)]
        rng = Random(f"{seed} {self.kind} {self.clients}")
        return [self._body(KINDS[self.kind](rng)) for _ in range(self.count)]

    def _body(self, content: str) -> Body:
        asked = {"messages": [{"role": "user", "content": content}], "max_tokens": self.tokens}
        return STREAMED | asked | {"temperature": 0, "ignore_eos": self.kind != "edit"}


def _edit(rng: Random) -> str:
    return f"Rename the class Inventory to {rng.choice(NAMES)}. Write the whole code again.\n\n{CODE}"


def _long(rng: Random) -> str:
    lines = [rng.choice(SENTENCES).format(n=rng.randrange(2, 999)) for _ in range(200)]
    return "\n".join(lines) + "\n\nWhich of these numbers is the largest?"


KINDS = {
    "free": lambda rng: f"Explain {rng.choice(TOPICS)} to a child, in some detail.",
    "code": lambda rng: f"Write a Python function that {rng.choice(TASKS)}, with a docstring.",
    "edit": _edit,
    "long": _long,
}


def cases(clients: list[int]) -> list[Case]:
    """All kinds for each number of clients."""
    found: list[Case] = []
    for count in clients:
        found += [
            Real("free text", count, 0, 96, kind="free"),
            Real("extraction, schema", count, 0, 120, schema="its own", kind="extraction"),
            Real("code", count, 0, 96, kind="code"),
            Real("edits of code", count, 0, 300, kind="edit"),
            Real("long prompts", count, 0, 8, kind="long"),
        ]
    return found


def models() -> list[tuple[str, str | None]]:
    """SmolLM2, and the pair where `LLGTRT_MODELS` has it: targets, each with its draft model."""
    found: list[tuple[str, str | None]] = []
    small = demo.smollm2()
    if small is not None:
        found.append((str(small), None))
    folder = Path(os.environ.get("LLGTRT_MODELS", "/nonexistent"))
    if (folder / PAIR[0]).exists():
        found.append((str(folder / PAIR[0]), str(folder / PAIR[1])))
    if not found:
        print("no real model: ./launch/launch-llgtrt.sh --demo fetches one", file=sys.stderr)
    return found
