"""Schemathesis over the server's own document: no request that it makes up, valid or not, makes it fail.

Every answer is held to the document: its status, its type and its schema.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .programs import command, run
from .recorder import Recorder

EXAMPLES = 20
"""Most that are drawn for an operation, beside those that bounds give: in all some thousand."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
TOKENS = 16
"""Most tokens of an answer, so that many are made."""
LIMITS = {
    "ChatRequest": ("max_tokens", "max_completion_tokens"),
    "CompletionRequest": ("max_tokens",),
    "ResponsesRequest": ("max_output_tokens",),
    "MessagesRequest": ("max_tokens",),
}
TEXT = {"type": "string", "minLength": 1, "maxLength": 100}
PLAIN: dict[str, dict[str, Any]] = {
    "ChatRequest": {
        "messages": {},
        "temperature": {},
        "top_p": {},
        "n": {"enum": [1, 3]},
        "stream": {},
        "stop": TEXT,
    },
    "CompletionRequest": {
        "prompt": TEXT,
        "temperature": {},
        "top_p": {},
        "stream": {},
        "logprobs": {"enum": [0, 5]},
    },
    "ResponsesRequest": {"input": TEXT, "instructions": {}, "temperature": {}, "top_p": {}, "stream": {}},
    "MessagesRequest": {
        "messages": {},
        "temperature": {},
        "top_p": {},
        "top_k": {"enum": [0, 40]},
        "stream": {},
    },
    "TokenizeRequest": {"prompt": TEXT},
}
"""Fields that go with each other, and what the document says too little of; `5.0` is no whole number here."""
MESSAGE = {
    "type": "object",
    "properties": {"role": {"enum": ["user", "system"]}, "content": TEXT},
    "required": ["role", "content"],
    "additionalProperties": False,
}


@pytest.fixture
def schemathesis() -> str:
    return command("schemathesis")


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The document for the one model that is there, and short answers."""
    for schema in document["components"]["schemas"].values():
        fields = schema.get("properties", {})
        if "model" in fields:
            fields["model"] = {"const": "demo"}
    for name, limits in LIMITS.items():
        schema = document["components"]["schemas"][name]
        schema["properties"] |= {limit: {"enum": [1, TOKENS]} for limit in limits}
        schema["required"] = sorted({*schema.get("required", []), *limits})
    return document


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """The document with fields that go with each other alone: whatever it allows must be answered."""
    schemas = document["components"]["schemas"]
    for name, own in PLAIN.items():
        fields = schemas[name]["properties"]
        kept = {field: more or fields[field] for field, more in own.items()}
        limits = LIMITS.get(name, ())
        kept |= {field: fields[field] for field in ("model", *limits) if field in fields}
        if "messages" in kept:
            kept["messages"] = {"type": "array", "items": MESSAGE, "minItems": 1, "maxItems": 3}
        required = [field for field in kept if field in ("messages", "prompt", "input", *limits)]
        schemas[name] |= {"properties": kept, "required": required, "additionalProperties": False}
    document["paths"] = {
        path: each
        for path, each in document["paths"].items()
        if any(name in json.dumps(each) for name in PLAIN)
    }
    return document


def tried(schemathesis: str, demo: Recorder, folder: Path, document: dict[str, Any], *flags: str) -> set[str]:
    """Lets it loose; the pages that have answered something."""
    (folder / "openapi.json").write_text(json.dumps(document))
    told = run(
        folder, schemathesis, "run", "openapi.json", "--url", demo.url, "--seed", "1", "--no-color",
        "--max-examples", str(EXAMPLES), "--continue-on-failure", "--generation-database", "none",
        "--request-timeout", "120", *flags,
    )  # fmt: skip
    counts = re.search(r"(\d+) generated, (\d+) passed", told)
    assert counts is not None, told
    assert counts[1] == counts[2]
    assert max(each.status for each in demo.exchanges) < 500
    return {each.path.partition("?")[0] for each in demo.exchanges if each.status == 200}


def test_nothing_fails_and_answers_are_as_documented(
    schemathesis: str, demo: Recorder, tmp_path: Path
) -> None:
    document = narrowed(demo.http.get("/openapi.json").json())
    tried(schemathesis, demo, tmp_path, document, "--phases", "coverage,fuzzing", "--checks", CHECKS)


def test_what_is_documented_is_answered(schemathesis: str, demo: Recorder, tmp_path: Path) -> None:
    document = plain(narrowed(demo.http.get("/openapi.json").json()))
    checks = f"{CHECKS},positive_data_acceptance"
    flags = ["--phases", "coverage,fuzzing", "--mode", "positive", "--checks", checks]
    assert tried(schemathesis, demo, tmp_path, document, *flags) == set(document["paths"])
