"""Masks and compilations on MaskBench schemas: the core, llguidance called directly, outlines-core."""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from alphabet import byte_alphabet
from client import ROOT
from masks_outlines import MISSING
from record import Record, Table, number

SAMPLE = "maskbench-dev.jsonl.gz"
CUTS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Llama 3 cuts texts into words."""
SPECIAL = 256
"""Special tokens of Llama 3, behind all others; their names make no difference to a mask."""
KINDS = {
    "mask": "mask_us",
    "mask, the same text again": "again_us",
    "compile to first mask": "compile_us",
    "the same, where both engines compile": "compile_both_us",
}
"""What an engine's line has, by its name in the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "tokenizer",
        type=Path,
        help="tokenizer.json, or Llama 3's tokenizer.model (the wheel llama-models has it)",
    )
    parser.add_argument("--python", default=sys.executable, help="one that has the wheel outlines-core")
    parser.add_argument("--count", type=int, default=400, help="schemas, evenly from the whole sample")
    parser.add_argument(
        "--maskbench",
        type=Path,
        help="all schemas of this folder in place of a sample: maskbench/data of guidance-ai/jsonschemabench",
    )


def converted(model: Path) -> dict[str, Any]:
    """A tokenizer.json for Llama 3's tokenizer.model: a line for each token, in merging order."""
    lines = model.read_bytes().splitlines()
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines}
    letters = byte_alphabet()

    def written(token: bytes) -> str:
        return "".join(letters[b] for b in token)

    merges = []
    for token in ranks:
        parts = [(token[:i], token[i:]) for i in range(1, len(token))]
        known = [pair for pair in parts if pair[0] in ranks and pair[1] in ranks]
        known.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [[written(left), written(right)] for left, right in known]
    split = {"type": "Split", "pattern": {"Regex": CUTS}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    vocab = {written(token): rank for token, rank in ranks.items()}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": len(ranks) + i, "content": f"<|special_{i}|>"} | flags for i in range(SPECIAL)
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "decoder": level,
        "model": {"type": "BPE", "ignore_merges": True, "vocab": vocab, "merges": merges},
    }


def sample(count: int) -> list[str]:
    """So many lines of the sample; raises `SystemExit` where it is not there."""
    file = Path(os.environ.get("LLGTRT_DATA", ROOT.parent / "shared" / "data")) / SAMPLE
    if not file.exists():
        raise SystemExit(f"LLGTRT_DATA must name a folder with {SAMPLE}")
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    return lines[:: max(1, len(lines) // count)][:count]


def whole(folder: Path) -> list[str]:
    """A line for each of MaskBench's files; raises `SystemExit` where there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise SystemExit(f"{folder} has no *.json: --maskbench names maskbench/data")
    return [json.dumps(json.loads(file.read_text())) for file in files]


def printed(command: list[str], missing: int = 0) -> list[str]:
    """The lines of a program; none where it exits with `missing`."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, missing):
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()


def run(args: argparse.Namespace) -> int:
    """Builds and runs masks.rs, and makes a table of what it prints."""
    features = os.environ.get("LLGTRT_FEATURES", "python,llama")
    lines = whole(args.maskbench) if args.maskbench else sample(args.count)
    source = "MaskBench" if args.maskbench else SAMPLE
    title = f"masks, {len(lines)} schemas of {source}, {args.tokenizer.name}"
    with tempfile.TemporaryDirectory() as name:
        cases, tokenizer = Path(name) / "cases.jsonl", args.tokenizer
        cases.write_text("\n".join(lines))
        if tokenizer.suffix == ".model":
            tokenizer = Path(name) / "tokenizer.json"
            tokenizer.write_text(json.dumps(converted(args.tokenizer)))
        command = ["cargo", "run", "--release", "--locked", "--quiet", "--features", features]
        files = [str(tokenizer.resolve()), str(Path(name) / "walks.jsonl")]
        command += ["--example", "masks", "--", files[0], str(cases), files[1]]
        core = printed(command)
        wheel = printed([args.python, str(ROOT / "bench" / "masks_outlines.py"), *files], MISSING)
    if not wheel:
        print(f"outlines-core is not there for {args.python}: left out")
    engines = [json.loads(line) for line in core + wheel]
    header = [
        "engine",
        "what",
        "count",
        "mean, µs",
        "p50",
        "p99",
        "p99.9",
        "max",
        "refused",
        "not walked to the end",
    ]
    table = Table(title, header)
    for engine in engines:
        for what, key in KINDS.items():
            times = engine.get(key)
            if times is None:
                continue
            values = [number(times[key]) for key in ("mean", "p50", "p99", "p999", "max")]
            missing = [str(engine[key]) for key in ("refused", "left")]
            table.rows.append([engine["engine"], what, str(times["count"]), *values, *missing])
    Record("masks", [table], data=engines).save()
    return 0
