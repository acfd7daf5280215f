"""One request beside busy processes: its time, beside what a fair share of the cores makes of it."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from record import Record, Table, number
from servers import Server, llama_server, ours
from work import WORDS

CONTEXT = 4096
SETTLED = 0.3
"""Seconds after which busy processes have spread over the cores."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--peer", help="the llama-server program")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2, 3, 8], help="busy processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=400, help="words of the prompt")
    parser.add_argument("--tokens", type=int, default=48, help="tokens of the answer")


@contextmanager
def beside(count: int) -> Iterator[None]:
    """So many processes that do nothing but take time."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    time.sleep(SETTLED)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def seconds(server: Server, seed: int, args: argparse.Namespace) -> float:
    """The time of one completion, of a prompt that no other has."""
    words = Random(seed).choices(WORDS, k=args.prompt)
    asked: dict[str, Any] = {"model": "m", "prompt": " ".join(words), "max_tokens": args.tokens}
    body = json.dumps(asked | {"ignore_eos": True, "temperature": 0}).encode()
    begin = time.monotonic()
    request = urllib.request.Request(
        f"{server.url}/v1/completions", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request).read()
    return time.monotonic() - begin


def run(args: argparse.Namespace) -> int:
    """All servers in turns beside each number of busy processes."""
    cores = len(os.sched_getaffinity(0))
    table = Table("Seconds of a request", ["busy processes", "fair share of the cores"])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(ours(args.model, {}, folder))]
        if args.peer:
            servers.append(stack.enter_context(llama_server(args.peer, args.model, 1, CONTEXT, [])))
        for server in servers:
            table.header += [f"{server.name}, s", "times its fair share"]
            seconds(server, -1, args)
        alone: dict[str, float] = {}
        for busy in args.busy:
            fair = min(1.0, cores / (cores + busy))
            row = [str(busy), f"{fair:.2f}"]
            with beside(busy):
                times: dict[str, list[float]] = {server.name: [] for server in servers}
                for turn in range(args.rounds):
                    for server in servers if turn % 2 else servers[::-1]:
                        times[server.name].append(seconds(server, 1000 * busy + turn, args))
            for server in servers:
                median = statistics.median(times[server.name])
                least = alone.setdefault(server.name, median)
                row += [number(median), f"{median / least * fair:.2f}"]
            table.rows.append(row)
            print(*row, flush=True)
    Record("busy", [table]).save()
    return 0
