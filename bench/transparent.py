"""Whether a schema changes answers that are right without it: greedy ones, beside llama-server's."""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
from record import Record, Table
from servers import Server, llama_server, ours

CONTEXT = 4096
TOKENS = 200
CLIENTS = 8
Schema = dict[str, Any]

NAMES = [
    "Zoë Müller",
    "Ana Nuñez",
    "Li Wei",
    "Björn",
    "Mary O'Neil",
    "Søren",
    "Tom Weber",
    "Ivan Petrov",
    "愛子",
]
CITIES = ["Köln", "São Paulo", "Paris", "New York", "Zürich", "Oslo", "Kraków", "東京", "Lima"]
TEXTS = [
    *(
        "plain words",
        'she said "yes"',
        "a/b/c",
        "C:\\temp\\x",
        "two\nlines",
        "tab\there",
        "café crème",
        "50 % off",
    ),
    *("naïve – dash", "😀 smile", "https://example.com/a", "x < y && y > z", "", "it's", "#1", "a, b; c: d"),
]
KEYS = [
    *(
        "name",
        "age",
        "age_2",
        "city",
        "note",
        "tags",
        "price",
        "active",
        "email",
        "id",
        "items",
        "kind",
        "count",
    ),
    *("address", "score", "date", "title", "size", "unit", "total", "url"),
]
KINDS_OF_CASES = ["copy", "extract", "fill", "call"]
KINDS = ["red", "green", "blue", "none of these"]
JOBS = ["nurse", "pilot", "baker", "engineer", "teacher"]


@dataclass(frozen=True)
class Case:
    """A prompt, and the schema that its answer is to have."""

    kind: str
    prompt: str
    schema: Schema


@dataclass(frozen=True)
class Answer:
    """A greedy answer and how it ended."""

    text: str
    finish: str


def cases(seed: int, count: int) -> list[Case]:
    """So many cases of all kinds in turns."""
    rng = Random(f"transparent-{seed}")
    makers: list[Callable[[Random], Case]] = [copy, extract, fill, call]
    return [makers[i % len(makers)](rng) for i in range(count)]


def number(rng: Random) -> int | float:
    """Numbers as people write them."""
    whole = rng.choice([0, 7, 42, 1999, -3, 123456, rng.randrange(10**6)])
    return whole if rng.random() < 0.6 else round(rng.uniform(-50, 500), rng.randrange(1, 4))


def value(rng: Random, depth: int) -> tuple[Any, Schema]:
    """A value, and a schema that people write for such values."""
    kind = rng.choice(
        ["text", "text", "word", "number", "flag", "kind", "list", "object"][: 6 if depth > 1 else 8]
    )
    if kind == "text":
        return rng.choice(TEXTS), {"type": "string"}
    if kind == "word":
        return rng.choice(NAMES + CITIES), {"type": "string", "maxLength": 40}
    if kind == "number":
        found = number(rng)
        return found, {"type": "integer" if isinstance(found, int) else "number"}
    if kind == "flag":
        return rng.choice([True, False, None]), {"type": ["boolean", "null"]}
    if kind == "kind":
        return rng.choice(KINDS), {"enum": KINDS}
    if kind == "list":
        pool: list[Any] = rng.choice([NAMES, CITIES, [101, 102, 103, 104, 20, 7], KINDS])
        several = rng.sample(pool, rng.randrange(1, 5))
        items = {"type": "integer" if isinstance(pool[0], int) else "string"}
        return several, {"type": "array", "items": items, "uniqueItems": rng.random() < 0.5}
    return record(rng, depth + 1)


def record(rng: Random, depth: int = 0) -> tuple[dict[str, Any], Schema]:
    """An object; keys that are not required may be missing, and stand anywhere."""
    names = rng.sample(KEYS, rng.randrange(2, 6))
    made = {name: value(rng, depth) for name in names}
    present = [name for name in names if rng.random() < 0.8] or names[:1]
    required = [name for name in present if rng.random() < 0.6]
    optional = [name for name in names if name not in required]
    order = required + optional
    properties = {name: made[name][1] for name in order}
    told = {"type": "object", "properties": properties, "required": required}
    return {name: made[name][0] for name in present}, told


def written(rng: Random, made: Any) -> str:
    """JSON in one of the styles that are common."""
    styles: list[dict[str, Any]] = [
        {},
        {},
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"separators": (",", ":")},
    ]
    style = rng.choice(styles)
    text = json.dumps(made, ensure_ascii=rng.random() < 0.4, **style)
    return text.replace("/", "\\/") if rng.random() < 0.2 else text


def copy(rng: Random) -> Case:
    """JSON is copied."""
    first, (made, schema) = record(rng)[0], record(rng)
    state = rng.getstate()
    shown = written(rng, first)
    rng.setstate(state)
    text = written(rng, made)
    prompt = f"Input:\n{shown}\nOutput:\n{shown}\n\nInput:\n{text}\nOutput:\n"
    return Case("copy", prompt, schema)


def person(rng: Random) -> tuple[str, dict[str, Any]]:
    """A sentence about somebody, and what it says."""
    name, age, city, job = rng.choice(NAMES), rng.randrange(18, 90), rng.choice(CITIES), rng.choice(JOBS)
    told: dict[str, Any] = {"name": name, "age": age, "city": city, "job": job}
    return f"{name} is {age} years old, lives in {city} and works as a {job}.", told


PERSON: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "city": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "job": {"type": "string"},
    },
    "required": ["name"],
}


def extract(rng: Random) -> Case:
    """Facts out of a sentence, after two examples."""
    shots = [person(rng) for _ in range(2)]
    ascii_only, indent = rng.random() < 0.5, rng.choice([None, 2])
    shown = "\n\n".join(
        f"Text: {text}\nJSON: {json.dumps(told, ensure_ascii=ascii_only, indent=indent)}"
        for text, told in shots
    )
    return Case("extract", f"{shown}\n\nText: {person(rng)[0]}\nJSON:", PERSON)


def fill(rng: Random) -> Case:
    """A list goes on."""
    prices = [round(rng.uniform(0.5, 90), 2) for _ in range(4)]
    rows = [
        {"item": t, "price": p, "ids": rng.sample(range(90, 130), 3)}
        for t, p in zip(TEXTS, prices, strict=False)
    ]
    rng.shuffle(rows)
    shown = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    ids = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    properties = {"item": {"type": "string"}, "price": {"type": "number", "minimum": 0}, "ids": ids}
    return Case(
        "fill", shown + "\n", {"type": "object", "properties": properties, "required": ["item", "price"]}
    )


def call(rng: Random) -> Case:
    """Arguments of a function."""
    place, unit, days = rng.choice(CITIES), rng.choice(["celsius", "fahrenheit"]), rng.randrange(1, 8)
    properties = {
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "location": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    }
    shown = json.dumps({"location": "Rome", "unit": "celsius", "days": 3})
    prompt = (
        "Call get_weather with JSON arguments.\n"
        "User: What will the weather in Rome be in the next 3 days, in celsius?\n"
        f"get_weather {shown}\n"
        f"User: What will the weather in {place} be in the next {days} days, in {unit}?\nget_weather"
    )
    return Case("call", prompt, {"type": "object", "properties": properties, "required": ["location"]})


@functools.cache
def model(server: Server) -> str:
    """What a server calls its model."""
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=60) as response:
        return str(json.load(response)["data"][0]["id"])


def ask(server: Server, case: Case, schema: bool) -> Answer:
    """A greedy answer; one without a schema ends with its first JSON value."""
    body: dict[str, Any] = {"prompt": case.prompt, "max_tokens": TOKENS, "temperature": 0, "stream": True}
    body["model"] = model(server)
    if schema:
        # llama-server's name, which ours knows, too.
        body["json_schema"] = case.schema
    data = json.dumps(body).encode()
    request = urllib.request.Request(
        f"{server.url}/v1/completions", data, {"Content-Type": "application/json"}
    )
    answer = Answer("", "")
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            for line in response:
                # Between events come empty lines, and comments while a server works.
                if not line.startswith(b"data: {"):
                    continue
                choice = json.loads(line.removeprefix(b"data: "))["choices"][0]
                answer = Answer(answer.text + choice["text"], choice["finish_reason"] or "")
                if not schema and answer.text.rstrip().endswith(("}", "]")) and first(answer.text):
                    break
    except urllib.error.HTTPError as error:
        return Answer(error.read().decode(), "refused")
    return answer


def first(text: str) -> tuple[Any, int] | None:
    """The JSON value that the text begins with, and where it ends; None where it begins otherwise."""
    begin = len(text) - len(text.lstrip())
    try:
        return json.JSONDecoder(object_pairs_hook=once).raw_decode(text, begin)
    except ValueError:
        return None


def right(case: Case, free: Answer) -> str | None:
    """The free answer up to the end of its first JSON value, if that stands first and is valid."""
    found = first(free.text)
    if found is None or not jsonschema.Draft202012Validator(closed(case.schema)).is_valid(found[0]):
        return None
    return free.text[: found[1]]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """No object repeats a key."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def closed(schema: Any) -> Any:
    """The same without undeclared keys, which are closed by default on every server compared."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: each if name == "enum" else closed(each) for name, each in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in schema else inner


def compare(server: Server, every: list[Case]) -> tuple[Counter[str], list[tuple[Case, str, Answer]]]:
    """How many free answers were right, how many stayed the same by kind, and what became of the others."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        free = list(pool.map(lambda case: ask(server, case, schema=False), every))
        known = [(case, right(case, answer)) for case, answer in zip(every, free, strict=True)]
        wanted = [(case, text) for case, text in known if text is not None]
        bound = list(pool.map(lambda pair: ask(server, pair[0], schema=True), wanted))
    counts: Counter[str] = Counter()
    parted = []
    for (case, text), answer in zip(wanted, bound, strict=True):
        same = answer.text.strip() == text.strip()
        for kind in ("all", case.kind):
            counts.update({f"{kind} right": 1, f"{kind} same": same})
        if not same:
            parted.append((case, text, answer))
    return counts, parted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--peer", help="the llama-server program")
    parser.add_argument("--count", type=int, default=300, help="prompts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="answers that differ to print, of ours")


def run(args: argparse.Namespace) -> int:
    """Answers every prompt twice on each server; 1 where an answer of ours that was right differs."""
    every = cases(args.seed, args.count)
    with tempfile.TemporaryDirectory() as folder:
        config = {"max_batch_size": CLIENTS, "engine": {"context": CONTEXT}}
        with ours(args.model, config, Path(folder)) as server:
            counts, parted = compare(server, every)
    print(f"llgtrt: {counts['all same']} of {counts['all right']}", flush=True)
    results = {"llgtrt": counts}
    if args.peer:
        with ExitStack() as stack:
            server = stack.enter_context(llama_server(args.peer, args.model, CLIENTS, CONTEXT, []))
            results["llama-server"] = compare(server, every)[0]
    table = Table(
        f"Of {len(every)} answers of {Path(args.model).stem}: right without the schema, and the same with it",
        ["server", "all", *KINDS_OF_CASES],
    )
    for name, found in results.items():
        told = [f"{found[f'{kind} same']} of {found[f'{kind} right']}" for kind in ["all", *KINDS_OF_CASES]]
        table.rows.append([name, *told])
    Record("transparent", [table]).save()
    for case, text, answer in parted[: args.show]:
        print(f"\n{case.kind}: {json.dumps(case.schema)}\n  free:  {text!r}")
        print(f"  bound: {answer.text!r} ({answer.finish})")
    return int(bool(parted))
