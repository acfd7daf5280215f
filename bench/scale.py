"""How a token's cost grows with sequences, context, schema and queue, on the toy engine."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from client import Body
from overhead import BATCH, LONG, cost, toy
from plot import lines
from record import Record, Table, number
from servers import ours
from work import bound, chat, prompt, strict

CONTEXT = 8192
STREAMS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("--sequences", type=int, nargs="*", default=[1, 4, 16, 64, 256])
    parser.add_argument("--words", type=int, nargs="*", default=[10, 100, 300, 600], help="of the prompt")
    parser.add_argument("--properties", type=int, nargs="*", default=[1, 10, 100, 400], help="of the schema")
    parser.add_argument("--queue", type=int, nargs="*", default=[0, 16, 64, 240], help="requests that wait")


def schema(properties: int) -> Body:
    """An object that takes longer than an answer lasts, from a schema of so many properties."""
    fields = {f"field_{i}": {"type": "string", "minLength": 2 * LONG} for i in range(properties)}
    return bound(chat("Tell me a story.", LONG), strict(fields), "wide")


def sweeps(args: argparse.Namespace) -> Iterator[tuple[str, int, int, int, Body]]:
    """What grows, to what, the streams, the slots, and the body."""
    short = chat("Tell me a story.", 1)
    for count in args.sequences:
        yield "sequences", count, count, BATCH, short
    for words in args.words:
        yield "words of the prompt", words, STREAMS, BATCH, chat(prompt(Random(1), words), 1)
    for properties in args.properties:
        yield "properties", properties, STREAMS, BATCH, schema(properties)
    for waiting in args.queue:
        yield "waiting", waiting, STREAMS + waiting, STREAMS, short


def run(args: argparse.Namespace) -> int:
    """One table, one plot with a line for each thing that grows."""
    header = [
        "what grows",
        "to",
        "streams",
        "server, µs/token",
        "engine, µs/token",
        "gap p50, ms",
        "first p50, ms",
    ]
    table = Table("cost of a token, toy engine", header)
    curves: dict[str, list[tuple[float, float]]] = {}
    data: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for slots in (BATCH, STREAMS):
            config = {"max_batch_size": slots, "speculative": {"sources": []}}
            with ours(toy(slots, CONTEXT), config, Path(name)) as server:
                cost(server, chat("Warm up.", 1), 1)
                for what, to, streams, wanted, body in sweeps(args):
                    if wanted != slots:
                        continue
                    found = cost(server, body, streams)
                    gap, first = found.report["gap_ms"], found.report["first_ms"]
                    parts = [found.token["server"], found.token["engine"]]
                    parts += [spread["p50"] if spread else 0.0 for spread in (gap, first)]
                    table.rows.append([what, str(to), str(streams), *map(number, parts)])
                    curves.setdefault(what, []).append((to, found.token["engine"]))
                    data.append({"what": what, "to": to} | vars(found))
    plots = {"engine": lines(table.title, "size", "µs of the engine's CPU per token", curves)}
    Record("scale", [table], plots, data).save()
    return 0
