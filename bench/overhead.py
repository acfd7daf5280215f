"""CPU of requests and chunks without a model, in the server process and in the engine process, toy engine.

The difference between answers of one token and of many is the chunks', the rest the request's; prompts are
known. The engine's part has the toy's made-up logits in it.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import CHAT, Arrivals, Body, Report, faults, load
from plot import lines
from record import Record, Table, number
from servers import Server, ours
from work import chat

LONG = 385
"""Tokens of a long answer: so many that the noise of requests does not hide what they take."""
LEAST = 64
"""Requests of a measurement at least, and of the warm-up: a process's first ones are dearer."""
BATCH = 256
"""Most sequences that the server takes at once; further streams wait."""


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU by process, and the long answers' report."""

    request: dict[str, float]
    token: dict[str, float]
    report: Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64, 256, 512])


def toy(slots: int, context: int = 1024) -> str:
    """A toy engine with KV for so many full sequences."""
    return f"toy:slots={slots},context={context},kv={slots * context}"


def cost(server: Server, body: Body, streams: int) -> Cost:
    """Of requests like `body` in so many streams, each with another seed."""
    load(server.url + CHAT, [body | {"max_tokens": 1}], Arrivals(streams), LEAST)
    spent, reports = [], []
    count = max(LEAST, 2 * streams)
    for tokens in (1, LONG):
        bodies = [body | {"seed": i, "max_tokens": tokens} for i in range(count)]
        before = server.cpu()
        report = load(server.url + CHAT, bodies, Arrivals(streams))
        after = server.cpu()
        if faults(report):
            raise RuntimeError(faults(report))
        spent.append({name: (after[name] - before[name]) * 1e6 for name in before})
        reports.append(report)
    more = reports[1]["completion_tokens"] - reports[0]["completion_tokens"]
    token = {name: (spent[1][name] - spent[0][name]) / more for name in spent[0]}
    first = reports[0]["completion_tokens"] / count
    request = {name: spent[0][name] / count - first * token[name] for name in spent[0]}
    return Cost(request, token, reports[1])


def measure(server: Server, streams: list[int]) -> tuple[Table, dict[str, Any]]:
    """A row for each number of streams."""
    header = ["streams", "server, µs/request", "engine, µs/request", "server, µs/chunk", "engine, µs/chunk"]
    table = Table("CPU of requests and chunks, toy engine", [*header, "tokens/s", "client, cores"])
    body = chat("Tell me a story.", 1)
    data: dict[str, Any] = {}
    for count in streams:
        found = cost(server, body, count)
        parts = [
            found.request["server"],
            found.request["engine"],
            found.token["server"],
            found.token["engine"],
        ]
        share = f"{found.report['client_cpu_share']:.2f}"
        speed = number(found.report["tokens_per_second"])
        table.rows.append([str(count), *map(number, parts), speed, share])
        data[str(count)] = vars(found)
    return table, data


def connections(server: Server) -> Table:
    """First texts of one client on a connection that it keeps and on fresh ones: kept is no slower."""
    table = Table("connections, toy engine", ["connections", "first text p50, ms", "whole p50, ms"])
    bodies = [chat("Tell me a story.", 8) | {"seed": i} for i in range(4 * LEAST)]
    for kind in ("kept", "fresh", "kept", "fresh"):
        report = load(server.url + CHAT, bodies, Arrivals(1), connections=kind)
        if faults(report) or report["first_ms"] is None or report["whole_ms"] is None:
            raise RuntimeError(faults(report))
        table.rows.append([kind, number(report["first_ms"]["p50"]), number(report["whole_ms"]["p50"])])
    return table


def run(args: argparse.Namespace) -> int:
    """The tables and their plot."""
    slots = min(max(args.streams), BATCH)
    config = {"max_batch_size": slots, "speculative": {"sources": []}}
    with tempfile.TemporaryDirectory() as folder, ours(toy(slots), config, Path(folder)) as server:
        table, data = measure(server, args.streams)
        kept = connections(server)
    curves = {
        name: [(float(n), found["token"][name]) for n, found in data.items()] for name in ("server", "engine")
    }
    plots = {"chunks": lines(table.title, "streams", "µs of CPU per chunk", curves)}
    Record("overhead", [table, kept], plots, data).save()
    return 0
