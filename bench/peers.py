"""The server beside llama-server, on the same file and work: `python bench/peers.py MODEL.gguf PEER`.

PEER is a `llama-server`; both are started with as many slots, cells and threads, and asked in turns in every
round, each case with new texts. One row of Markdown per case: what each does (medians of the rounds) and the
median of the rounds' ratios, above 1 where ours is faster, with the smallest and the largest. `--ours` and
`--theirs` add to the configuration and to the command, say a draft model. Loopback only; ends by itself.
Run it with the server's environment (`. launch/env.sh`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from http_load import Stream, ask

START_SECONDS = 120.0
SLOTS = 16
CONTEXT = 2048
WORDS = [
    *("harbour", "lantern", "seven", "Petra", "Oldwick", "green", "miles", "pilot", "engine", "Marrow"),
    *("Tomas", "nurse", "bread", "winter", "table", "river", "stone", "cloud", "paper", "window"),
]
TEXT = {"type": "string", "maxLength": 40}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["red", "green", "blue-ish", "none of these"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 4, "maxItems": 8},
        "items": {
            "type": "array",
            "minItems": 3,
            "maxItems": 6,
            "items": {
                "type": "object",
                "properties": {"sku": TEXT, "quantity": {"type": "integer", "minimum": 0, "maximum": 9999}},
                "required": ["sku", "quantity"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "age", "kind", "tags", "items"],
    "additionalProperties": False,
}
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}


@dataclass
class Case:
    """Requests that so many clients send one after the other."""

    name: str
    clients: int
    # Words of a prompt; a word of the made-up vocabulary is some tokens.
    words: int
    tokens: int
    schema: bool = False
    # The same prompts as the case before.
    again: bool = False

    @property
    def count(self) -> int:
        """Requests of a round."""
        return 3 if self.clients == 1 else 2 * self.clients

    def bodies(self, seed: int) -> list[dict[str, Any]]:
        """The requests of a round."""
        rng = Random(f"{seed} {self.words} {self.clients} {'' if self.again else self.name}")
        bodies: list[dict[str, Any]] = []
        for i in range(self.count):
            body: dict[str, Any] = {
                "model": "m",
                "messages": [{"role": "user", "content": " ".join(rng.choices(WORDS, k=self.words))}],
                "temperature": 0.8,
                "seed": i,
                "max_tokens": self.tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            bodies.append(body | (FORM if self.schema else {"ignore_eos": True}))
        return bodies


CASES = [
    Case("decode, free", 1, 2, 96),
    Case("decode, schema", 1, 2, 128, schema=True),
    Case("decode, free", 4, 2, 96),
    Case("decode, free", 16, 2, 96),
    Case("decode, schema", 16, 2, 128, schema=True),
    Case("short prompt", 1, 120, 1),
    Case("long prompt", 1, 440, 1),
    Case("prompts", 16, 50, 1, again=True),
    Case("the same prompts again", 16, 50, 1, again=True),
    Case("prompts and answers, free", 16, 50, 48),
    Case("prompts and answers, schema", 16, 50, 96, schema=True),
]


@contextmanager
def serving(command: list[str], port: int, ready: str) -> Iterator[None]:
    """A server that answers `ready`; raises `RuntimeError` where it does not start."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5) as response:
                    if response.status == 200:
                        break
            except (urllib.error.URLError, OSError):
                pass
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def load(port: int, case: Case, bodies: list[dict[str, Any]]) -> tuple[float, float]:
    """Tokens (requests, where an answer is one token) per second, and the last first token in ms."""
    waiting = list(bodies)
    done: list[Stream] = []

    async def client() -> None:
        while waiting:
            done.append(await ask(("127.0.0.1", port), waiting.pop(0), cut=True))

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(case.clients)))
    took = time.perf_counter() - begun
    total = len(done) if case.tokens == 1 else sum(stream.tokens for stream in done)
    return total / took, max(stream.first for stream in done) * 1e3


def commands(args: argparse.Namespace, folder: Path, ports: list[int]) -> list[list[str]]:
    """How both servers are started."""
    config = {
        "max_batch_size": SLOTS,
        "kv_cache_max_tokens": SLOTS * CONTEXT,
        "engine": {"context": CONTEXT},
        "speculative": {"sources": []},
    } | json.loads(args.ours)
    path = folder / "runtime.json"
    path.write_text(json.dumps(config))
    ours = [sys.executable, "-m", "llgtrt", "serve", args.model, "--port", str(ports[0])]
    ours += ["--runtime-config", str(path), "--served-model-name", "m"]
    theirs = [
        args.peer,
        "-m",
        args.model,
        "--port",
        str(ports[1]),
        "-np",
        str(SLOTS),
        "-c",
        str(SLOTS * CONTEXT),
    ]
    theirs += ["-fa", "on", "-t", str(args.threads), "-tb", str(args.threads), "--no-webui", "--jinja"]
    return [ours, theirs + args.theirs.split()]


def measure(ports: list[int], rounds: int, cases: list[Case]) -> Iterator[tuple[Case, list[list[float]]]]:
    """Each case with all rounds' rates of ours and theirs, and their last first tokens."""
    results: list[list[list[float]]] = [[] for _ in cases]
    for number in range(rounds + 1):
        for case, result in zip(cases, results, strict=True):
            bodies = case.bodies(number)
            got = {
                port: asyncio.run(load(port, case, bodies)) for port in (ports if number % 2 else ports[::-1])
            }
            if number > 0:
                result.append([got[port][i] for i in (0, 1) for port in ports])
    yield from zip(cases, results, strict=True)


def row(case: Case, rounds: list[list[float]]) -> str:
    """A row of the table."""
    ours, theirs, our_first, their_first = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratios = sorted(r[0] / r[1] for r in rounds)
    unit = "requests/s" if case.tokens == 1 else "tokens/s"
    shares = f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    firsts = f"{our_first:,.0f} | {their_first:,.0f}"
    return f"| {case.name} | {case.clients} | {ours:.1f} {unit} | {theirs:.1f} | {shares} | {firsts} |"


def main() -> None:
    """Runs all cases, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("peer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of the peer")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--ours", default="{}", help="more of our configuration, JSON")
    parser.add_argument("--theirs", default="", help="more of the peer's flags")
    args = parser.parse_args()
    ports = [free_port(), free_port()]
    cases = [case for case in CASES if args.only in case.name]
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = commands(args, Path(folder), ports)
        with serving(ours, ports[0], "/ready"), serving(theirs, ports[1], "/health"):
            print("| case | clients | ours | llama-server | ratio | last first token, ms | llama-server |")
            print("|---|---|---|---|---|---|---|")
            for case, rounds in measure(ports, args.rounds, cases):
                print(row(case, rounds), flush=True)


if __name__ == "__main__":
    main()
