"""Answers with a schema beside free ones of the same length, of our server and of llama-server."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from client import CHAT, Arrivals, Body, Report, all_faults, load
from contest import settle, span
from record import Record, Table, number
from servers import Server, llama_server, ours
from work import TEXT, bound, chat, prompt, strict

TOKENS = 96
ROW = {"sku": TEXT, "quantity": {"type": "integer", "minimum": 0, "maximum": 9999}}
ENDLESS: dict[str, dict[str, Any]] = {
    # Nearly every token may come, and nothing is forced.
    "one text": strict({"text": {"type": "string", "minLength": 1000}}),
    # Keys and punctuation are forced.
    "objects": strict({"rows": {"type": "array", "items": strict(ROW), "minItems": 60, "maxItems": 60}}),
}
"""Schemas whose answers are longer than what is asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "models", nargs="+", help=".gguf files, say one with 32,000 tokens and one with 128,000"
    )
    parser.add_argument("--peer", help="the llama-server program")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=1024, help="tokens of each slot")


def body(seed: int, schema: dict[str, Any] | None) -> Body:
    """A chat whose answer has `TOKENS` tokens."""
    wanted = chat(prompt(Random(seed), 4), TOKENS, seed=seed)
    return wanted if schema is None else bound(wanted, schema, "endless")


def servers(args: argparse.Namespace, model: str, stack: ExitStack) -> Iterator[Server]:
    """Ours without drafts and with forced tokens, and the peer."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    slots = max(args.clients)
    config: dict[str, Any] = {"max_batch_size": slots, "kv_cache_max_tokens": slots * args.context}
    config["engine"] = {"context": args.context}
    for name, sources in (("llgtrt, no drafts", []), ("llgtrt, forced tokens", ["forced"])):
        speculative = {"speculative": {"sources": sources}}
        yield stack.enter_context(ours(model, config | speculative, folder, name))
    if args.peer:
        yield stack.enter_context(llama_server(args.peer, model, slots, args.context, []))


def compare(running: list[Server], args: argparse.Namespace) -> Iterator[list[str]]:
    """A row for each server, number of clients and schema; rounds in turns, the first not counted."""
    for clients in args.clients:
        rounds: dict[tuple[str, str], list[Report]] = {}
        for turn in range(args.rounds + 1):
            for server in running if turn % 2 else running[::-1]:
                for kind, schema in {"free": None, **ENDLESS}.items():
                    settle(tuple(running))
                    seeds = range(turn * 1000, turn * 1000 + max(3, 2 * clients))
                    bodies = [body(seed, schema) for seed in seeds]
                    report = load(server.url + CHAT, bodies, Arrivals(clients), errors_cut=True)
                    if turn > 0:
                        rounds.setdefault((server.name, kind), []).append(report)
        for server in running:
            free = rounds[server.name, "free"]
            for kind in ENDLESS:
                yield [server.name, str(clients), kind, *row(free, rounds[server.name, kind])]


def row(free: list[Report], limited: list[Report]) -> list[str]:
    """Medians of both, their ratio round by round, and what went wrong."""
    rates = [[report["tokens_per_second"] for report in reports] for reports in (free, limited)]
    ratios = sorted(b / f for f, b in zip(*rates, strict=True) if f > 0)
    speeds = (number(statistics.median(rate)) for rate in rates)
    return [*speeds, span(ratios), all_faults([*free, *limited])]


def run(args: argparse.Namespace) -> int:
    """A table for each model."""
    header = ["server", "clients", "schema", "free, tokens/s", "schema, tokens/s", "ratio", "faults"]
    tables = []
    for model in args.models:
        with ExitStack() as stack:
            running = list(servers(args, model, stack))
            rows = list(compare(running, args))
            tables.append(Table(f"with a schema beside free, {Path(model).stem}", header, rows))
    Record("constrained", tables).save()
    return 0
