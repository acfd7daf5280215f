"""vLLM with the plug-in beside vLLM alone: what becomes of schemas from the field, and tokens per second.

`launch/check-vllm.sh --measure` runs it. Both servers are up, and are asked in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from .serving import ROOT, Server, schema_format, serving

DATA = Path(os.environ.get("LLGTRT_DATA", ROOT.parent / "shared" / "data")) / "maskbench-dev.jsonl.gz"
SIDES = {"vLLM": "off", "with the plug-in": "always"}
"""The value of LLGTRT_VLLM by the name of the server."""
PROMPTS: dict[str, Callable[[str], str]] = {
    "shown": lambda schema: f"Write one example in JSON that satisfies this schema:\n{schema[:2000]}",
    "not shown": lambda schema: "Make up an entry of a data set, and write it as JSON.",
}
TICKET = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 30},
        "summary": {"type": "string", "maxLength": 120},
        "priority": {"enum": ["low", "normal", "high"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 3, "maxItems": 5},
        "quantity": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "required": ["customer", "summary", "priority", "tags", "quantity"],
    "additionalProperties": False,
}
TICKETS: dict[str, Any] = {
    "strings with bounds": TICKET,
    "strings without": json.loads(re.sub(r', "maxLength": \d+', "", json.dumps(TICKET))),
}
"""Of the shapes that XGrammar enforces."""


def schemas(count: int) -> list[Any]:
    """`count` schemas, at equal distances in the file."""
    with gzip.open(DATA, "rt") as file:
        lines = list(file)
    return [json.loads(line)["schema"] for line in lines[:: len(lines) // count][:count]]


def become(answer: httpx.Response, schema: Any) -> str:
    """What became of a request."""
    if answer.status_code != 200:
        return "refused" if answer.status_code == 400 else str(answer.status_code)
    choice = answer.json()["choices"][0]
    try:
        value = json.loads(choice["message"]["content"])
    except ValueError:
        return "cut" if choice["finish_reason"] == "length" else "invalid"
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return "valid" if validator(schema).is_valid(value) else "invalid"


def outcomes(server: Server, cases: list[Any], tokens: int, clients: int) -> Counter[str]:
    def one(schema: Any, prompt: Callable[[str], str]) -> str:
        fields = schema_format(schema)
        try:
            kind = become(server.chat(prompt(json.dumps(schema)), max_tokens=tokens, **fields), schema)
        except Exception as error:
            kind = type(error).__name__
        if kind not in ("valid", "cut"):
            print(f"  {kind}: {json.dumps(schema)[:200]}", flush=True)
        return kind

    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(one, schema, prompt) for schema in cases for prompt in PROMPTS.values()]
        return Counter(each.result() for each in asked)


def speed(server: Server, schema: Any, clients: int, answers: int, turn: int) -> float:
    """Tokens per second of `clients` that ask for this many answers each, to prompts not seen before."""

    def one(at: int) -> int:
        prompt = (
            f"Ticket {turn}-{at}: customer {at * 37} has a problem with order {at * 91}. Write it as JSON."
        )
        answer = server.chat(prompt, max_tokens=160, **schema_format(schema))
        tokens: int = answer.json()["usage"]["completion_tokens"]
        return tokens

    start = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        tokens = sum(pool.map(one, range(clients * answers)))
    return tokens / (time.monotonic() - start)


def compare(name: str, servers: dict[str, Server], schema: Any, args: argparse.Namespace) -> None:
    """Prints the tokens per second of the servers in turns, and their ratio."""
    ratios = []
    for turn in range(args.rounds + 1):
        found = {
            side: speed(each, schema, args.clients, args.answers, turn) for side, each in servers.items()
        }
        print(name, {side: round(value, 1) for side, value in found.items()}, flush=True)
        if turn:  # the first one warms up
            alone, ours = found.values()
            ratios.append(ours / alone)
    least, middle, most = min(ratios), statistics.median(ratios), max(ratios)
    print(f"{name}, with the plug-in / vLLM: {middle:.3f} (of {least:.3f} to {most:.3f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--answers", type=int, default=4, help="of a client in a round")
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison of speed; 0: none")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--model", default=os.environ.get("LLGTRT_VLLM_MODEL"))
    parser.add_argument("flags", nargs="*", help="of vllm serve, behind --")
    args = parser.parse_args()
    cases = schemas(args.schemas)
    with contextlib.ExitStack() as stack:
        servers = {}
        for side, mode in ((side, SIDES[side]) for side in args.sides):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            flags = ("--max-model-len", "2048", *args.flags)
            servers[side] = stack.enter_context(serving(args.model, folder, *flags, mode=mode))
        for side, server in servers.items():
            print(f"{side}:", dict(outcomes(server, cases, args.tokens, args.clients)), flush=True)
        for name, schema in TICKETS.items():
            if args.rounds:
                compare(name, servers, schema, args)


if __name__ == "__main__":
    main()
