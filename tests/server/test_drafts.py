"""Requests drawn at random on the weightless engine: all sources of drafts, any length, and cancellations."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import httpx
import pytest

from .serving import PATIENCE, ROOT, Server, serving
from .test_speculation import CHAT, MODES, essence

REQUESTS = 200
SOURCES = ("forced", "prompt_lookup", "prediction", "mlp_speculator", "draft_model", "grammar")
DRAFTING = {
    "draft_model": "toy:blur=20,kv=2000",
    "mlp_speculator": str(ROOT / "tests" / "core" / "speculator" / "untied-plain"),
    "sources": SOURCES,
    "adaptive": False,
}


def drawn(random: Random) -> dict[str, Any]:
    """A request of any kind."""
    truncations: list[dict[str, Any]] = [{}, {"top_k": 20}, {"top_p": 0.9}, {"min_p": 0.05, "top_k": 50}]
    streamed = random.random() < 0.5
    return {
        "messages": [{"role": "user", "content": "abab" * random.randint(1, 9)}],
        "max_tokens": random.randint(20, 60),
        "temperature": random.choice([0, 0.7, 1.5]),
        "seed": random.randint(0, 99),
        "n": random.choice([1, 1, 3]),
        "logprobs": random.random() < 0.5,
        "stream": streamed,
        **({"stream_options": {"include_usage": True}} if streamed else {}),
        **MODES[random.choice(list(MODES))],
        **random.choice(truncations),
    }


def wanting(random: Random, body: dict[str, Any], answer: Any) -> dict[str, Any]:
    """The same with drafts of any kind; what is predicted is the answer with some of its letters changed."""
    sources = random.sample(SOURCES, random.randint(1, len(SOURCES)))
    wanted = {"sources": sources, "max_draft_len": random.randint(1, 8)}
    text = answer[0][0] if body["stream"] else answer[0][0][0]
    wrong = random.choice([0, 0.1, 0.5])
    content = "".join(random.choice("xyz") if random.random() < wrong else letter for letter in text)
    prediction = {"prediction": {"type": "content", "content": content}} if content else {}
    return {**body, "speculative": wanted, **prediction}


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    response = await client.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    return essence(body, response.text)


async def leave(client: httpx.AsyncClient, body: dict[str, Any], lines: int) -> None:
    """Reads some of an answer and goes away."""
    endless = {**body, "stream": True, "max_tokens": 500, "ignore_eos": True}
    async with client.stream("POST", CHAT, json=endless) as response:
        assert response.status_code == 200
        async for _ in response.aiter_lines():
            lines -= 1
            if lines <= 0:
                return


async def answers(server: Server, bodies: list[dict[str, Any]], random: Random | None = None) -> list[Any]:
    """Of all of them, 16 at a time; with `random`, among others that are cancelled."""
    limits = httpx.Limits(max_connections=16)
    async with httpx.AsyncClient(base_url=server.url, limits=limits, timeout=PATIENCE) as client:
        left = [leave(client, body, random.randint(1, 9)) for body in bodies[::4]] if random else []
        return list(await asyncio.gather(*(ask(client, body) for body in bodies), *left))[: len(bodies)]


@pytest.mark.parametrize("chunks", [8192, 40])
def test_answers_do_not_depend_on_drafts(toy: Server, chunks: int) -> None:
    random = Random(chunks)
    bodies = [drawn(random) for _ in range(REQUESTS)]
    want = asyncio.run(answers(toy, [{**body, "speculative": {"enabled": False}} for body in bodies]))
    drafting = [wanting(random, *pair) for pair in zip(bodies, want, strict=True)]
    # KV for a few sequences, so that some are preempted.
    config = {"max_num_tokens": chunks, "max_batch_size": 12, "speculative": DRAFTING}
    with serving("toy:slots=14,kv=900,context=900", config=config) as server:
        server.wait_ready()
        got = asyncio.run(answers(server, drafting, random))
        server.wait_idle()
        for body, one, other in zip(drafting, want, got, strict=True):
            assert one == other, body
        assert server.metric("llgtrt_preemptions_total") > 0
        assert server.metric("llgtrt_drafters_failed") == 0
        fates = {source: server.fates(source) for source in SOURCES}
    assert all(sum(counts.values()) > 20 for counts in fates.values()), fates
    assert set(fates["forced"]) <= {"accepted", "stop", "unverified"}, fates
    for source in ("prediction", "draft_model"):
        judged = fates[source]["accepted"] + fates[source]["target"] + fates[source]["grammar"]
        assert 0.2 < fates[source]["accepted"] / judged < 0.95, fates


def test_reports_count_every_choice(toy: Server) -> None:
    body = {"messages": [{"role": "user", "content": "abab"}], "max_tokens": 40, "seed": 1, "n": 3}
    with serving("toy", config={"speculative": DRAFTING}) as server:
        server.wait_ready()
        answer = server.http.post(CHAT, json={**body, "speculative": {"report": True}}).json()
    assert answer["choices"] == toy.http.post(CHAT, json=body).json()["choices"]
    report = answer["usage"]["speculative"]
    assert {"mlp_speculator", "draft_model"} <= set(report["sources"]), json.dumps(report)
    assert 0 < report["acceptance"] < 1


def test_synthetic_acceptance_shows() -> None:
    body = {
        "messages": [{"role": "user", "content": "abab"}],
        "max_tokens": 40,
        "seed": 1,
        "ignore_eos": True,
    }
    speculative = {"draft_model": "toy:seed=2", "adaptive": False, "synthetic_acceptance": [1, 0]}
    with serving("toy", config={"speculative": speculative}) as server:
        server.wait_ready()
        answer = server.http.post(CHAT, json=body).json()
        assert answer["system_fingerprint"].startswith("synthetic_")
        assert server.metric("llgtrt_accepted_tokens_total") in (19, 20)
