"""Decisions per second among 20 options, beside an enum that is generated under a schema.

Every text is asked about twice, one time after the other: its prompt is new the first time and known the
second. What all prompts have in common, the question and its options, is known from the second text on.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from record import Record, Table
from servers import ROOT, Server, each
from transparent import model

from llgtrt.openai.decisions.fields import Question
from llgtrt.openai.decisions.prompts import written

CONTEXT = 2048
CLIENTS = (1, 16)
TICKETS = ROOT / "bench" / "data" / "tickets.jsonl"


def tickets() -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The question, and texts with their topics."""
    lines = [json.loads(line) for line in TICKETS.read_text().splitlines()]
    return lines[0]["questions"]["topic"], [(line["state"], line["answers"]["topic"]) for line in lines]


def post(server: Server, path: str, body: dict[str, Any]) -> Any:
    """The server's answer."""
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(server.url + path, data, headers), timeout=600
    ) as told:
        return json.load(told)


def decided(server: Server, question: dict[str, Any], text: str, **more: Any) -> str:
    """The option of `/v1/systemone`."""
    answer = post(server, "/v1/systemone", {"state": text, "questions": {"topic": question}, **more})
    choice: str = answer["answers"]["topic"]["choice"]
    return choice


def decided_exactly(server: Server, question: dict[str, Any], text: str) -> str:
    """The same with all ways to write the options."""
    return decided(server, question, text, tolerance=0)


def generated(server: Server, question: dict[str, Any], text: str) -> str:
    """The option that is generated under a schema, for the same prompt."""
    schema = {
        "type": "object",
        "properties": {"topic": {"type": "string", "enum": list(question["criteria"])}},
        "required": ["topic"],
        "additionalProperties": False,
    }
    body = {
        "model": model(server),
        "messages": [{"role": "user", "content": written(msgspec.convert(question, Question), text, {})}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "topic", "schema": schema}},
        "max_tokens": 40,
        "temperature": 0,
    }
    content = post(server, "/v1/chat/completions", body)["choices"][0]["message"]["content"]
    topic: str = json.loads(content)["topic"]
    return topic


Ask = Callable[[Server, dict[str, Any], str], str]
WAYS: dict[str, Ask] = {"enum": generated, "decision": decided, "decision, tolerance 0": decided_exactly}


def measure(server: Server) -> list[list[str]]:
    """A row for each way and number of clients."""
    rows = []
    for way, ask in WAYS.items():
        if server.name != "llgtrt" and ask is not generated:
            continue
        for clients in CLIENTS:
            new, known, right = speed(server, ask, f"{way} {clients}", clients)
            rows.append([server.name, way, str(clients), f"{new:.2f}", f"{known:.2f}", f"{right:.0%}"])
    return rows


def speed(server: Server, ask: Ask, name: str, clients: int) -> tuple[float, float, float]:
    """Decisions per second of all clients with new and with known texts, and the share of right ones."""
    question, known = tickets()
    # Each measurement has texts of its own, so that no prompt is in the cache from the one before.
    asked = [(f"[{name}] {text}", topic) for text, topic in known]
    ask(server, question, name)

    def twice(text: str, topic: str) -> tuple[float, float, bool]:
        times = [time.monotonic()]
        for _ in range(2):
            found = ask(server, question, text)
            times.append(time.monotonic())
        return times[1] - times[0], times[2] - times[1], found == topic

    with ThreadPoolExecutor(clients) as pool:
        results = list(pool.map(lambda one: twice(*one), asked))
    new, again, right = (sum(column) / len(results) for column in zip(*results, strict=True))
    return clients / new, clients / again, right


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--peer", help="the llama-server program")


def run(args: argparse.Namespace) -> int:
    """Measures both ways."""
    results = each(args.model, args.peer, max(CLIENTS), CONTEXT, measure)
    heads = ["server", "way", "clients", "new texts/s", "known texts/s", "right"]
    table = Table(f"One of 20 options, {Path(args.model).stem}, {len(tickets()[1])} texts", heads)
    table.rows = [row for rows in results.values() for row in rows]
    Record("decisions", [table]).save()
    return 0
