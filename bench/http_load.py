"""Streams and answers over HTTP, from one process: `python bench/http_load.py --url http://127.0.0.1:3000`.

Prints one line of JSON per case: tokens per second of all streams together, p50 and p99 of the time to the
first token and of the time between events in milliseconds, and the client's share of one core. Sends to
loopback only. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SCHEMA = {
    "type": "array",
    "minItems": 100,
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0, "maximum": 99999},
            "name": {"type": "string", "maxLength": 24},
            "kind": {"enum": ["person", "place", "thing"]},
            "known": {"type": "boolean"},
        },
        "required": ["id", "name", "kind", "known"],
        "additionalProperties": False,
    },
}


@dataclass
class Stream:
    """What one answer took, in seconds since it was asked for."""

    tokens: int = 0
    first: float = 0.0
    gaps: list[float] = field(default_factory=list)


def request(args: argparse.Namespace, content: str, tokens: int) -> dict[str, Any]:
    """A streamed greedy chat of exactly so many tokens."""
    return {
        "model": args.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def ask(address: tuple[str, int], body: dict[str, Any], cut: bool = False) -> Stream:
    """One streamed answer; raises `RuntimeError` where it is not one.

    With `cut`, an error after the first text ends it: llama-server gives one where `max_tokens` ends JSON.
    """
    host, port = address
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, port)
    begun = last = time.perf_counter()
    writer.write(head.encode() + content)
    stream = Stream()
    async for line in reader:
        if b'"error"' in line and cut and stream.first > 0:
            stream.tokens = 1 + len(stream.gaps)
            break
        if b'"error"' in line:
            raise RuntimeError(line.decode())
        if b'"content":"' in line and b'"content":""' not in line:
            now = time.perf_counter()
            if stream.first == 0.0:
                stream.first = now - begun
            else:
                stream.gaps.append(now - last)
            last = now
        if b'"completion_tokens":' in line:
            stream.tokens = json.loads(line.removeprefix(b"data: "))["usage"]["completion_tokens"]
    writer.close()
    return stream


def quantile(values: list[float], share: float) -> float:
    """In milliseconds; 0 where there is nothing."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 2) if ordered else 0.0


async def case(args: argparse.Namespace, streams: int, schema: bool) -> dict[str, Any]:
    """`streams` answers at the same time."""
    body = request(args, "Give me records. " * 8, args.tokens)
    if schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}
    begun, used = time.perf_counter(), time.process_time()
    done = await asyncio.gather(*(ask(args.address, body) for _ in range(streams)))
    wall, used = time.perf_counter() - begun, time.process_time() - used
    gaps = [gap for stream in done for gap in stream.gaps]
    return {
        "streams": streams,
        "schema": schema,
        "tokens": sum(stream.tokens for stream in done),
        "tokens_per_second": round(sum(stream.tokens for stream in done) / wall, 1),
        "first_ms": [quantile([stream.first for stream in done], share) for share in (0.5, 0.99)],
        "gap_ms": [quantile(gaps, share) for share in (0.5, 0.99)],
        "client_cpu_share": round(used / wall, 3),
    }


async def disturbed(args: argparse.Namespace) -> dict[str, Any]:
    """The gaps of one stream while prompts of `args.long` digits come one after the other."""
    victim = asyncio.create_task(ask(args.address, request(args, "Tell me a story.", args.tokens * 4)))
    prompts = 0
    while not victim.done():
        # Another first digit each time, else the prompt would be known already.
        await ask(args.address, request(args, f"{prompts}" + "7" * args.long, 1))
        prompts += 1
    gaps = (await victim).gaps
    return {
        "long_prompts": prompts,
        "digits": args.long,
        "gap_ms": [quantile(gaps, s) for s in (0.5, 0.99, 1)],
    }


async def run(args: argparse.Namespace) -> None:
    """All cases, one after the other; a first answer of each kind is not counted."""
    for schema in (False, True):
        await case(args, 1, schema)
        for streams in args.streams:
            print(json.dumps(await case(args, streams, schema)), flush=True)
    if args.long:
        print(json.dumps(await disturbed(args)), flush=True)


def main() -> None:
    """Reads the flags."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:3000")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--long", type=int, default=0, help="digits of long prompts beside a stream; 0: none")
    args = parser.parse_args()
    url = urlsplit(args.url)
    args.address = (url.hostname, url.port)
    if url.hostname not in LOOPBACK or url.port is None or max(args.streams) > 256:
        parser.error("--url must be a loopback address with a port, --streams at most 256")
    asyncio.run(asyncio.wait_for(run(args), 600))


if __name__ == "__main__":
    main()
