"""Bodies against any URL: closed loops of so many clients, or Poisson arrivals."""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from client import CHAT, Arrivals, Body, Report, Spread, faults, load
from plot import lines
from record import Record, Table, number
from work import SCHEMAS, Case, chat, prompt

HEADER = ["load", "answers", "requests/s", "tokens/s", "good/s", "first text p50, p99 ms", "gap p50, p99 ms"]
HEADER += ["whole p50, p99 ms", "cut", "validated", "client, cores", "faults"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="server, or the whole path to post to")
    parser.add_argument("--bodies", type=Path, help="JSONL, one body a line; else made up")
    parser.add_argument("--schema", choices=SCHEMAS, help="of made-up bodies; else free")
    parser.add_argument("--words", type=int, default=40, help="of made-up prompts")
    parser.add_argument("--tokens", type=int, default=128, help="of made-up answers")
    parser.add_argument("--requests", type=int, default=0, help="of each load; else twice the clients, or 64")
    parser.add_argument("--clients", type=int, nargs="*", default=[])
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="requests per second")
    parser.add_argument("--whole", action="store_true", help="answers at once, not streamed")
    parser.add_argument("--fresh", action="store_true", help="a connection for each request")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a request")
    parser.add_argument("--long", type=int, default=0, help="also one stream beside prompts of so many words")
    parser.add_argument(
        "--good",
        default="{}",
        help='limits of a good answer: {"first_ms":500,"per_token_ms":50,"whole_ms":9000}',
    )


def path(url: str) -> str:
    """Where to post: a URL without a path gets that of chat."""
    return url if url.count("/") > 2 and not url.endswith("/") else url.rstrip("/") + CHAT


def pair(spread: Spread | None) -> str:
    """Median and 99th percentile."""
    return f"{number(spread['p50'])}, {number(spread['p99'])}" if spread else ""


def row(name: str, report: Report) -> list[str]:
    """A row under `HEADER`."""
    speeds = [report["requests_per_second"], report["tokens_per_second"], report["goodput"]]
    times = [pair(report["first_ms"]), pair(report["gap_ms"]), pair(report["whole_ms"])]
    checked = f"{report['validated'] - report['invalid']} of {report['validated']}"
    counts = [str(report["cut"]), checked, f"{report['client_cpu_share']:.2f}", faults(report)]
    return [name, str(report["answered"]), *map(number, speeds), *times, *counts]


def bodies(args: argparse.Namespace, arrivals: Arrivals) -> list[Body]:
    """Those of the file, or new ones for each load."""
    if args.bodies is not None:
        return [json.loads(line) for line in args.bodies.read_text().splitlines() if line.strip()]
    made = Case(f"load {arrivals}", arrivals.clients, args.words, args.tokens, args.schema)
    return (
        made.bodies(1)
        if arrivals.rate == 0
        else Case(made.name, 32, args.words, args.tokens, args.schema).bodies(1)
    )


def plan(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say about every load."""
    return {
        "stream": not args.whole,
        "connections": "fresh" if args.fresh else "kept",
        "timeout_s": args.timeout,
        "goodput": json.loads(args.good) or None,
    }


def beside(url: str, words: int, tokens: int) -> Table:
    """The gaps of one stream while long prompts, all new, come one after the other."""
    table = Table(f"a stream beside prompts of {words} words", ["long prompts", *HEADER])
    rng = Random(words)
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(load, url, [chat("Tell me a story.", 4 * tokens)], Arrivals(1))
        count = 0
        while not stream.done():
            load(url, [chat(prompt(rng, words), 1)], Arrivals(1))
            count += 1
        table.rows.append([str(count), *row("1", stream.result())])
    return table


def run(args: argparse.Namespace) -> int:
    """A row for each number of clients and each rate; 1 where something failed or was invalid."""
    loads = [Arrivals(clients=n) for n in args.clients] + [Arrivals(rate=r) for r in args.rates]
    tables = [table := Table(f"{args.url}: load", HEADER)]
    data: dict[str, Report] = {}
    curves: dict[str, list[tuple[float, float]]] = {"tokens/s": []}
    for arrivals in loads or [Arrivals(1), Arrivals(4), Arrivals(16)]:
        report = load(path(args.url), bodies(args, arrivals), arrivals, args.requests, **plan(args))
        table.rows.append(row(str(arrivals), report))
        data[str(arrivals)] = report
        curves["tokens/s"].append((arrivals.rate or arrivals.clients, report["tokens_per_second"]))
    plots = {"tokens": lines(args.url, "clients, or requests per second", "tokens/s", curves)}
    if args.long:
        tables.append(beside(path(args.url), args.long, args.tokens))
    Record("load", tables, plots, data).save()
    return int(any(faults(report) for report in data.values()))
