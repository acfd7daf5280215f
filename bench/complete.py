"""How many answers with a schema are whole within few tokens: greedy ones, beside llama-server's."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
from record import Record, Table
from servers import Server, each
from transparent import closed, model

CONTEXT = 8192
CLIENTS = 4
BUDGETS = (24, 64, 256, 300)
"""Most tokens of an answer."""
Schema = dict[str, Any]

TEXTS = [
    "Anna Miller, 34, lives in Hamburg and bought 3 lamps and 2 chairs on 2024-05-06.",
    "The harbour festival on 12 June 2025 in Kiel was loud, but the food was great.",
    "Tom, Eve and Ruth repaired the old engine: first the valves, then the belt, then the paint.",
    "A recipe: mix flour, water, salt and yeast; wait two hours; bake at 220 degrees.",
    "Our server crashed twice: disk full on Monday, a bad cable on Thursday.",
    "List ten animals that live in the sea.",
]


def whole(**properties: Schema) -> Schema:
    """An object with these keys."""
    return {"type": "object", "properties": properties, "required": list(properties)}


STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
STRINGS: Schema = {"type": "array", "items": STRING}
NODE: Schema = whole(name=STRING, children={"type": "array", "items": {"$ref": "#/$defs/node"}})
SCHEMAS: dict[str, Schema] = {
    "person": whole(name=STRING, age=NUMBER, city=STRING),
    "tags": whole(title=STRING, tags=STRINGS),
    "steps": whole(goal=STRING, steps=STRINGS),
    "order": whole(customer=STRING, items={"type": "array", "items": whole(product=STRING, quantity=NUMBER)}),
    "event": whole(name=STRING, date={"type": "string", "format": "date"}, people=STRINGS),
    "tree": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "review": whole(summary=STRING, score={"type": "number"}, pros=STRINGS, cons=STRINGS),
    "words": whole(words={**STRINGS, "uniqueItems": True, "minItems": 3}),
    "settings": whole(settings={"type": "object", "additionalProperties": STRING}),
    "anything": {"type": "object"},
}


def ask(server: Server, kind: str, text: str, budget: int) -> str:
    """What became of an answer: `whole`, `cut` or `refused`."""
    schema = {"name": kind, "schema": SCHEMAS[kind], "strict": True}
    body = {
        "model": model(server),
        "messages": [{"role": "user", "content": f"Extract the data as JSON ({kind}): {text}"}],
        "max_tokens": budget,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            content = json.load(response)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError:
        return "refused"
    try:
        found = json.loads(content)
    except ValueError:
        return "cut"
    is_valid = jsonschema.Draft202012Validator(closed(SCHEMAS[kind])).is_valid(found)
    return "whole" if is_valid else "invalid"


def count(server: Server) -> list[Counter[str]]:
    """What became of all answers, for each budget."""
    found = []
    with ThreadPoolExecutor(CLIENTS) as pool:
        for budget in BUDGETS:
            asked = [pool.submit(ask, server, kind, text, budget) for kind in SCHEMAS for text in TEXTS]
            found.append(Counter(answer.result() for answer in asked))
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--peer", help="the llama-server program")


def run(args: argparse.Namespace) -> int:
    """Asks for every answer; 1 where one of ours is not whole."""
    results = each(args.model, args.peer, CLIENTS, CONTEXT, count)
    every = len(SCHEMAS) * len(TEXTS)
    table = Table(
        f"Whole answers of {Path(args.model).stem}, of {every}, by max_tokens",
        ["server", *map(str, BUDGETS), "others"],
    )
    for name, found in results.items():
        others: Counter[str] = sum(found, Counter())
        del others["whole"]
        told = ", ".join(f"{n} {kind}" for kind, n in sorted(others.items()))
        table.rows.append([name, *(str(counts["whole"]) for counts in found), told])
    Record("complete", [table]).save()
    return int(any(counts["whole"] < every for counts in results["llgtrt"]))
