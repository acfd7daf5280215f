"""Two builds on the same work: checkouts A and B, each with its own `python/llgtrt/_core.abi3.so`."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import contest
from peers import cases
from servers import ours


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("a", type=Path, help="a checkout that is built")
    parser.add_argument("b", type=Path, help="another; A again tells how far a ratio is noise")
    parser.add_argument("--model", default="demo/target", help="engine folder, .gguf file or toy")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--config", default="{}", help="configuration of both, JSON")


def run(args: argparse.Namespace) -> int:
    """Rounds in which both take turns."""
    roots = [root.resolve() for root in (args.a, args.b)]
    for root in roots:
        if not (root / "python" / "llgtrt" / "_core.abi3.so").exists():
            raise SystemExit(f"{root} has no extension: build it there first")
    config = {"max_batch_size": max(args.clients)} | json.loads(args.config)
    wanted = [case for case in cases(args.clients) if args.only in case.name]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            ours(args.model, config, folder, "A", roots[0]) as a,
            ours(args.model, config, folder, "B", roots[1]) as b,
        ):
            meetings = contest.meet((a, b), wanted, args.rounds, "")
    contest.record("compare", ("A", "B"), meetings).save()
    return 0
