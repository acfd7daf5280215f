"""Masks of a batch through Python packages: `llgtrt.grammar`, XGrammar and llguidance, in turns.

The rows of texts of MaskBench's sample are filled token by token, each text by its own schema. Only schemas
that all packages compile, and texts that all take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from client import ROOT
from masks import sample
from record import Record, Table, number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("tokenizer", type=Path, help="tokenizer.json")
    parser.add_argument("end", type=int, help="its end token")
    parser.add_argument(
        "--python", required=True, help="one with xgrammar, llguidance, transformers, msgspec"
    )
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)


def run(args: argparse.Namespace) -> int:
    """Runs library_masks.py, and makes a table of what it prints."""
    with tempfile.TemporaryDirectory() as name:
        cases = Path(name) / "cases.jsonl"
        cases.write_text("\n".join(sample(1_000_000)))
        program = [args.python, str(ROOT / "bench" / "library_masks.py"), str(args.tokenizer.resolve())]
        command = [*program, str(args.end), str(cases), str(args.rows), str(args.rounds)]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    engines = [json.loads(line) for line in done.stdout.splitlines()]
    header = ["package", "round", "rows", "tokens", "mean, µs for a row", "p50", "max", "compiling, ms"]
    table = Table(f"masks of a batch, {args.tokenizer.parent.name}", header)
    for told in engines:
        times = [number(told[key]) for key in ("mean_us", "p50_us", "max_us", "compile_ms")]
        table.rows.append([told["engine"], *(str(told[key]) for key in ("round", "rows", "tokens")), *times])
    Record("library", [table], data=engines).save()
    return 0
