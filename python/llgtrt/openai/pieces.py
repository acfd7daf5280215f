"""The parts of an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import TypeVar


@dataclasses.dataclass(frozen=True)
class Reasoning:
    """More of the reasoning."""

    text: str


@dataclasses.dataclass(frozen=True)
class Content:
    """More of the content."""

    text: str


@dataclasses.dataclass(frozen=True)
class Call:
    """A call begins."""

    index: int
    name: str


@dataclasses.dataclass(frozen=True)
class Arguments:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


@dataclasses.dataclass(frozen=True)
class Done:
    """A call is complete."""

    index: int


Piece = Reasoning | Content | Call | Arguments | Done

Found = TypeVar("Found")
Steps = Generator[Piece | None, None, Found]
"""A parser that yields pieces, or None if it needs more text, and returns what it has found."""
