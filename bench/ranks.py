"""One process beside ranks, and llama-server over its own: the same cores, shared out."""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from client import CHAT, Arrivals, Report, all_faults, load
from contest import settle, span
from peers import DRAFT_LEN, cases
from record import Record, Table, number
from servers import START_SECONDS, Server, free_port, llama_server, ours
from work import Case

RPC_SERVERS = ("ggml-rpc-server", "rpc-server")
"""The peer's rank, by its names in newer and older releases."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help=".gguf file or engine folder")
    parser.add_argument("--draft", help="draft model: every server once more with it")
    parser.add_argument(
        "--peer", help="llama-server, built with GGML_RPC=ON; its rank server stands beside it"
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=512, help="tokens of each slot")
    parser.add_argument("--demo", action="store_true", help="the demo's extractions: for its models")
    parser.add_argument(
        "--only", help="cases whose name holds this (the demo's all; else long answers, free)"
    )


def run(args: argparse.Namespace) -> int:
    """A table: each kind of work with and without drafts, on all servers in turns."""
    only = args.only or ("" if args.demo else "long answers, free")
    wanted = [case for case in cases(args.clients, args.demo) if only in case.name]
    if not wanted:
        raise SystemExit(f"no case holds {only!r}")
    table, data = Table("ranks: medians of rounds", []), []
    for draft in [None, *([args.draft] if args.draft else [])]:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            servers = start(args, draft, Path(folder), stack)
            header = ["case", "clients", "drafts", *(server.name for server in servers)]
            table.header = [
                *header,
                *(f"{server.name}: beside the first" for server in servers[1:]),
                "faults",
            ]
            for case in wanted:
                rounds = measure(servers, case, args.rounds)
                table.rows.append(row(case, "none" if draft is None else "model", rounds))
                data.append({"case": vars(case), "draft": draft, "rounds": rounds})
    Record("ranks", [table], {}, data).save()
    return 0


def start(args: argparse.Namespace, draft: str | None, folder: Path, stack: ExitStack) -> list[Server]:
    """All servers, ready."""
    slots, cores = max(args.clients), len(os.sched_getaffinity(0))
    config: dict[str, Any] = {
        "max_batch_size": slots,
        "kv_cache_max_tokens": slots * args.context,
        "engine": {"context": args.context, "threads": cores},
        "speculative": {"sources": []} if draft is None else {"draft_model": gguf(draft)},
    }
    servers = []
    for ranks in (1, args.ranks):
        mine = config | {"parallel": {"tp_size": ranks}}
        each = max(1, cores // ranks)
        name = f"TP {ranks}, {each} {'thread' if each == 1 else 'threads'} each"
        servers.append(stack.enter_context(ours(args.model, mine, folder, name)))
    if args.peer:
        endpoints = [
            stack.enter_context(rpc_server(args.peer, cores // args.ranks)) for _ in range(args.ranks)
        ]
        flags = ["--rpc", ",".join(endpoints), "-ngl", "99", "-sm", "tensor"]
        if draft is not None:
            drafting = ("--spec-type", "draft-simple", "--spec-draft-n-max", str(DRAFT_LEN))
            flags += ["-md", gguf(draft), "-ngld", "99", *drafting]
        servers.append(
            stack.enter_context(llama_server(args.peer, gguf(args.model), slots, args.context, flags))
        )
    return servers


def gguf(name: str) -> str:
    """The model's file."""
    path = Path(name)
    return str(path / "model.gguf" if path.is_dir() else path)


@contextmanager
def rpc_server(peer: str, threads: int) -> Iterator[str]:
    """A rank of the peer's on loopback: where it listens."""
    programs = [Path(peer).parent / name for name in RPC_SERVERS]
    program = next((path for path in programs if path.exists()), None)
    if program is None:
        raise SystemExit(f"{programs[0]} is not there; build the peer with GGML_RPC=ON")
    port, null = free_port(), subprocess.DEVNULL
    command = [str(program), "-H", "127.0.0.1", "-p", str(port), "-t", str(max(1, threads))]
    process = subprocess.Popen(command, stdout=null, stderr=null)
    try:
        end = time.monotonic() + START_SECONDS
        while not listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"did not start: {' '.join(command)}")
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    """Whether somebody does; it takes a connection that ends at once for an engine that has left."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(servers: list[Server], case: Case, rounds: int) -> list[list[Report]]:
    """The case with every server in turns; who goes first changes; the first round is not counted."""
    found: list[list[Report]] = []
    for turn in range(rounds + 1):
        bodies = case.bodies(turn)
        reports: dict[str, Report] = {}
        for server in servers[turn % len(servers) :] + servers[: turn % len(servers)]:
            settle(tuple(servers))
            report = load(server.url + CHAT, bodies, Arrivals(case.clients), errors_cut=True)
            reports[server.url] = report
            # Ranks on one machine are slow enough to make one wonder.
            rate = number(report["tokens_per_second"])
            print(f"{case.name}, {case.clients} clients, {server.name}: {rate} tokens/s", file=sys.stderr)
        if turn > 0:
            found.append([reports[server.url] for server in servers])
    return found


def row(case: Case, drafts: str, rounds: list[list[Report]]) -> list[str]:
    """Tokens per second, and how they compare with the first server's, round by round."""
    rates = [[report["tokens_per_second"] for report in reports] for reports in rounds]
    columns = list(zip(*rates, strict=True))
    ratios = [sorted(b / a for a, b in zip(columns[0], other, strict=True) if a) for other in columns[1:]]
    faults = "; ".join(
        filter(None, (all_faults([reports[i] for reports in rounds]) for i in range(len(columns))))
    )
    speeds = [f"{number(statistics.median(column))} tokens/s" for column in columns]
    return [case.name, str(case.clients), drafts, *speeds, *map(span, ratios), faults]
