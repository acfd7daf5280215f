"""Complete outputs of the weightless engine under the schemas that others publish."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import select
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from llgtrt import _core

from .serving import DATA, PATIENCE

DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
"""Drafts of the JSON-Schema-Test-Suite, and their metaschemas."""
TEMPERATURES = (0.3, 1.0, 2.0)
CLOSING = b'"]}'
"""Bytes, which are the ids of the weightless engine's tokens, that end something."""
ROUNDS = ((1.0, 2000), (2.0, 4000), (4.0, 15000))
"""How much likelier these are made, in nats at any temperature, and how many tokens an output may have: so
that walks go astray first, then so that the others come home, too."""
AT_ONCE = 512


@dataclass
class Case:
    """A schema, and complete outputs under it."""

    name: str
    schema: Any
    documents: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    cut: int = 0
    refused: str | None = None
    broken: list[str] = field(default_factory=list)
    """What went wrong on the way, after some tokens."""


def _read(name: str) -> str:
    file = DATA / name
    if not file.exists():
        pytest.skip("skipped: no data")
    return gzip.decompress(file.read_bytes()).decode()


def maskbench() -> list[Case]:
    """The schemas from the field."""
    lines = map(json.loads, _read("maskbench-dev.jsonl.gz").splitlines())
    return [Case(line["id"], line["schema"]) for line in lines]


def suite() -> list[Case]:
    """The groups of the test suite's required part; each names its draft."""
    everything = json.loads(_read("json-schema-test-suite.json.gz"))
    cases = []
    for draft, metaschema in DRAFTS.items():
        documents = _documents(everything["remotes"], draft)
        for file, groups in everything[draft].items():
            for number, group in enumerate(groups):
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": metaschema, **schema}
                if not file.startswith("optional/"):
                    cases.append(Case(f"{draft} {file} {number}", schema, documents))
    return cases


def _documents(remotes: dict[str, Any], draft: str) -> dict[str, Any]:
    """What the suite wants to be found on a web server, by URI, without what is of other drafts."""
    own = {
        name: document for name, document in remotes.items() if re.match(rf"(?!draft|v\d/)|{draft}/", name)
    }
    return {f"http://localhost:1234/{name}": document for name, document in own.items()}


def start(cases: Sequence[Case], folder: Path) -> _core.Engine:
    """An engine that knows the cases' documents, which are written to the folder."""
    files: dict[str, str] = {}
    for uri, document in {uri: text for case in cases for uri, text in case.documents.items()}.items():
        file = folder / f"{len(files)}.json"
        file.write_text(json.dumps(document))
        files[uri] = str(file)
    grammar = {"documents": files, "compile_seconds": PATIENCE}
    config = json.dumps({"grammar": grammar, "max_queue_size": 2 * AT_ONCE})
    engine = _core.Engine("toy:end_bias=4,context=16384,kv=4194304", _core.load_config(None, config))
    while engine.state()[0] == "loading":
        time.sleep(0.01)
    return engine


def _request(schema: str, number: int, temperature: float, strength: float, most: int) -> str:
    """The number is the prompt, too: at low temperatures the scores decide, which are hashes of it."""
    bias = dict.fromkeys(map(str, CLOSING), strength * temperature)
    return json.dumps(
        {
            "prompt": [number // 256, number % 256],
            "max_tokens": most,
            "sampling": {"seed": number, "temperature": temperature, "logit_bias": bias},
            "grammar": {"json_schema": schema},
        }
    )


def _outcomes(
    engine: _core.Engine, requests: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str, _core.Event]]:
    """Keys of requests, their whole texts, and their last events, as they come."""
    running: dict[int, tuple[int, list[str]]] = {}
    while True:
        for key, request in itertools.islice(requests, AT_ONCE - len(running)):
            running[engine.submit(request)] = (key, [])
        if not running:
            return
        assert select.select([engine.fileno()], [], [], PATIENCE)[0], "nothing comes any more"
        for event in engine.drain():
            key, parts = running[event.request]
            parts.append(event.text)
            if event.finish_reason or event.error:
                del running[event.request]
                yield key, "".join(parts), event


def walk(engine: _core.Engine, cases: Sequence[Case], each: int) -> None:
    """Gives every case that compiles so many complete texts, where they can be had in a few rounds."""
    schemas = [json.dumps(case.schema, ensure_ascii=False) for case in cases]
    tried: dict[int, int] = defaultdict(int)

    def wanted(strength: float, most: int) -> Iterator[tuple[int, str]]:
        for index, case in enumerate(cases):
            for _ in range(0 if case.refused else each - len(case.texts)):
                number = tried[index]
                tried[index] += 1
                temperature = TEMPERATURES[number % len(TEMPERATURES)]
                yield index, _request(schemas[index], number, temperature, strength, most)

    for strength, most in ROUNDS:
        for index, text, last in _outcomes(engine, wanted(strength, most)):
            case = cases[index]
            if last.finish_reason == "stop":
                case.texts.append(text)
            elif last.finish_reason == "length":
                case.cut += 1
            elif last.completion_tokens:
                case.broken.append(f"{last.error!r} after {text}")
            else:
                case.refused = repr(last.error)
