"""What a product makes of a schema and its instances, judged as in tests/core/grammar/conformance.rs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coverage_products import Product

TRIES = 1_000
"""Texts that are tried to find an order of an instance's keys."""


@dataclass
class Case:
    """A schema with its instances, and whether outputs are drawn of it."""

    id: str
    schema: Any
    tests: list[tuple[Any, bool]]
    walked: bool = False


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def places(schema: Any) -> dict[str, int]:
    """Names of properties in the order in which the schema first has them, as in conformance.rs."""
    order: dict[str, int] = {}

    def collect(schema: Any, keyword: str) -> None:
        children = schema if isinstance(schema, list) else []
        if isinstance(schema, dict):
            children = list(schema.values())
            for name in schema.get(keyword) or [] if isinstance(schema.get(keyword), dict | list) else []:
                if isinstance(name, str):
                    order.setdefault(name, len(order))
        for child in children:
            collect(child, keyword)

    for keyword in ("properties", "required", "dependentRequired", "dependencies", "const", "enum"):
        collect(schema, keyword)
    return order


@dataclass
class Ordering:
    """Looks for an order of all keys in which a product accepts a value, as in conformance.rs."""

    product: Product
    places: dict[str, int]
    left: int = TRIES
    every: bool = False
    """Whether all orders are tried, or only those in which a key that had no place comes sooner."""
    stuck: tuple[int, str] | None = None
    """The object and the key that had none."""

    def finds(self, value: Any) -> bool:
        """Whether there is one."""
        for self.every in (False, True):
            self.stuck = None
            if any(self.product.accepts(text) for text in self.texts(value)):
                return True
        return False

    def begins(self, text: str) -> bool:
        """Whether it does, and may still be tried."""
        self.left -= 1
        return self.left >= 0 and self.product.begins(text)

    def texts(self, value: Any, before: str = "") -> Iterator[str]:
        """The value behind a text, in the orders with which an output can begin."""
        if isinstance(value, dict):
            names = sorted(value, key=lambda name: self.places.get(name, len(self.places)))
            yield from self.members(value, names, before + "{")
        elif isinstance(value, list):
            yield from self.items(value, before + "[")
        elif self.begins(text := before + compact(value)):
            yield text

    def items(self, items: list[Any], before: str) -> Iterator[str]:
        """The rest of an array."""
        if not items:
            yield before + "]"
            return
        for behind in self.texts(items[0], before):
            yield from self.items(items[1:], behind + "," * (len(items) > 1))

    def members(self, value: dict[str, Any], names: list[str], before: str) -> Iterator[str]:
        """The rest of an object."""
        if not names:
            yield before + "}"
            return
        last, tried, line = names[0], set(), list(names)
        while line:
            tried.add(name := line.pop(0))
            if not self.begins(begun := f"{before}{compact(name)}:"):
                continue
            others = [other for other in names if other != name]
            for behind in self.texts(value[name], begun):
                yield from self.members(value, others, behind + "," * bool(others))
            if self.every:
                continue
            # Only what had no place behind this key is tried before it.
            if self.stuck is None or self.stuck[0] != id(value):
                return
            last, self.stuck = self.stuck[1], None
            line = [last] if last not in tried else []
        self.stuck = id(value), last


def judge(product: Product, case: Case) -> str:
    """Compiles the schema and tries the instances, valid ones in other orders of their keys too.

    Raises what the product raises where it breaks.
    """
    try:
        product.compile(compact(case.schema))
    except (EOFError, MemoryError):
        raise
    except Exception:  # each product has errors of its own
        return "refused"
    verdict, order = "enforced", places(case.schema)
    for instance, valid in case.tests:
        accepted = product.accepts(compact(instance))
        if accepted and not valid:
            return "lenient"
        if valid and not accepted and not Ordering(product, order).finds(instance):
            verdict = "stricter"
    return verdict
