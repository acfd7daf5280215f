"""How far passes are from what the machine allows: reading the weights once, and its products per second."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from dataclasses import dataclass

from client import ROOT
from plot import bars
from record import Record, Table, number

LONG = 128
"""Rows from which a pass's speed is that of its products."""
BATCH = 512
"""Most rows of a pass, as in passes.rs."""


@dataclass(frozen=True)
class Pass:
    """Passes over `rows` of each of `sequences` that have `past` tokens, and what they took."""

    rows: int
    sequences: int
    past: int
    ms: float
    # How often the weights could have been read in that time, over the number of passes.
    reads: float

    @property
    def count(self) -> int:
        """Passes."""
        return -(-self.rows * self.sequences // BATCH)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help=".gguf file")
    parser.add_argument("--kv", choices=["f16", "bf16", "q8_0"], default="q8_0")
    parser.add_argument("--threads", type=int, default=0, help="0: the server's choice")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--cases", nargs="*", default=[], help="rows,sequences,tokens; else passes.rs has them"
    )


def parse(text: str) -> list[Pass]:
    """The table that passes.rs prints."""
    rows = re.findall(r"^ *(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+)$", text, re.M)
    return [Pass(int(a), int(b), int(c), float(ms), float(reads)) for a, b, c, ms, reads in rows]


def limits(passes: list[Pass]) -> list[tuple[Pass, float, float]]:
    """Each with the ms of reading the weights, and of its products at the speed of the fastest row.

    Products per second are the best that any long pass reached, so they have that pass's own losses in them.
    """
    long = [p for p in passes if p.rows * p.sequences >= LONG]
    fastest = min((p.ms / (p.rows * p.sequences) for p in long), default=0.0)
    return [(p, p.ms / p.reads, fastest * p.rows * p.sequences) for p in passes]


def run(args: argparse.Namespace) -> int:
    """Builds and runs passes.rs, and holds each pass to the larger of the two limits."""
    features = os.environ.get("LLGTRT_FEATURES", "python,llama")
    command = [
        "cargo",
        "run",
        "--release",
        "--locked",
        "--quiet",
        "--features",
        features,
        "--example",
        "passes",
    ]
    command += ["--", args.model, args.kv, str(args.threads), str(args.rounds), *args.cases]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found = limits(parse(done.stdout))
    header = ["rows × sequences, tokens there", "ms", "reading, ms", "products, ms", "of the limit"]
    table = Table(f"passes of {args.model}; {done.stdout.splitlines()[-1]}", header)
    rows = []
    for p, reading, products in found:
        bound = max(reading * p.count, products)
        label = f"{p.rows} × {p.sequences}, {p.past:,}"
        table.rows.append([label, *map(number, (p.ms, reading * p.count, products)), f"{bound / p.ms:.0%}"])
        rows.append((label, bound / p.ms, bound / p.ms, bound / p.ms))
    Record("limit", [table], {"limit": bars(table.title, rows)}, [vars(p) for p, _, _ in found]).save()
    return 0
