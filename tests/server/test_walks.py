"""Random logits under schemas from the field: whatever ends is valid, says a validator of its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import httpx

from .judges import PythonJudge, parse
from .serving import PATIENCE, Server
from .walks import maskbench

WALKS = 200
# Bytes are the ids of the weightless engine's tokens: strings and lists should come to an end now and then.
BIAS = {str(ord('"')): 5, str(ord("]")): 4, str(ord("}")): 4}


def schemas() -> list[tuple[str, Any]]:
    """The same ones each time."""
    return [(case.name, case.schema) for case in random.Random(1).sample(maskbench(), WALKS)]


async def walk_all(server: Server, cases: list[tuple[str, Any]]) -> list[httpx.Response]:
    """Answers in the order of the cases."""
    gate = asyncio.Semaphore(16)

    async def walk(client: httpx.AsyncClient, number: int, schema: Any) -> httpx.Response:
        body = {
            "messages": [{"role": "user", "content": "walk"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "walk", "schema": schema}},
            "temperature": 1.5,
            "seed": number,
            "max_tokens": 3000,
            "logit_bias": BIAS,
        }
        async with gate:
            return await client.post("/v1/chat/completions", json=body)

    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        return list(await asyncio.gather(*(walk(client, i, schema) for i, (_, schema) in enumerate(cases))))


def complaint(schema: Any, text: str) -> str | None:
    """What the validator has to say."""
    judge, value = PythonJudge(schema, {}), parse(text)
    said = judge.complaint(value)
    return said if said and not judge.excuse(value) else None


def test_whatever_finishes_is_valid(toy: Server) -> None:
    cases = schemas()
    outcomes: Counter[str] = Counter()
    wrong: list[tuple[str, str, str]] = []
    for (name, schema), response in zip(cases, asyncio.run(walk_all(toy, cases)), strict=True):
        if response.status_code == 400:
            assert response.json()["error"]["type"] == "invalid_request_error"
            outcomes["refused"] += 1
            continue
        choice = response.json()["choices"][0]
        if choice["finish_reason"] == "length":
            outcomes["cut"] += 1
            continue
        outcomes["finished"] += 1
        said = complaint(schema, choice["message"]["content"])
        if said is not None:
            wrong.append((name, said, choice["message"]["content"]))
    print(dict(outcomes))
    assert not wrong
    assert outcomes["finished"] >= 150, outcomes
