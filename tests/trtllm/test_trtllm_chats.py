"""Chats of every kind over the fake: at temperature 0 the weightless engine's, with drafts and without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from server.test_speculation import MODES, SCHEMA, essence

from .served import END_BIAS, Folder, Server, ask_all, over_fake, serving

DRAFT_LEN = 6
TARGET = Folder(draft_len=DRAFT_LEN, end_bias=END_BIAS, gathers=True)
DRAFT = Folder(blur=8.0, end_bias=END_BIAS, gathers=True)
PAIRS: dict[str, Any] = {
    "target": (Folder(end_bias=END_BIAS), None, {}),
    "target, prompts in chunks": (
        Folder(end_bias=END_BIAS),
        None,
        {"max_num_tokens": 64, "enable_chunked_context": True},
    ),
    # What is drafted shall not depend on how long anything takes.
    "pair": (TARGET, DRAFT, {"speculative": {"max_draft_len": DRAFT_LEN, "adaptive": False}}),
    "pair, few blocks": (
        TARGET,
        DRAFT,
        {
            "max_batch_size": 4,
            "kv_cache_max_tokens": 4096,
            "speculative": {"max_draft_len": 3, "adaptive": False},
        },
    ),
    "drafts without a model": (
        TARGET,
        None,
        {"speculative": {"sources": ["forced", "prompt_lookup", "prediction"], "adaptive": False}},
    ),
}
# An executor that draws by itself completes no outputs.
UNDRAFTED = {"speculative": {"sources": []}, "grammar": {"complete": False}}
KINDS: dict[str, Any] = {
    **{name: fields for name, fields in MODES.items() if name != "penalties"},
    # Together the executor would count the prompt for both; and it has no biases.
    "repetition": {"repetition_penalty": 1.1},
    "frequency": {"frequency_penalty": 0.5, "presence_penalty": 0.2},
}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    """The same model in the core."""
    with serving(f"toy:end_bias={END_BIAS:.0f}", config=UNDRAFTED) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module", params=PAIRS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    target, draft, config = PAIRS[request.param]
    with over_fake(tmp_path_factory.mktemp("engines"), target, draft, config) as found:
        yield found


def bodies(temperature: float) -> list[dict[str, Any]]:
    """Chats of every mode, whole and streamed, one choice and three."""
    found = []
    for number, (n, stream) in enumerate((n, s) for n in (1, 3) for s in (False, True)):
        for mode, fields in KINDS.items():
            content = f"The gates, the cups and the hats are red. ({number})" * (1 + 3 * number)
            body = {
                "messages": [{"role": "user", "content": content}],
                "max_tokens": 40,
                "n": n,
                "stream": stream,
            }
            usage: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
            found.append(
                {**body, **usage, **fields, "temperature": temperature, "seed": number, "user": mode}
            )
    return found


def essences(server: Server, asked: list[dict[str, Any]]) -> list[Any]:
    answers = ask_all(server, asked)
    for body, answer in zip(asked, answers, strict=True):
        assert answer.status_code == 200, (body, answer.text)
    return [essence(body, answer.text) for body, answer in zip(asked, answers, strict=True)]


def test_greedy_answers_are_the_embedded_engine_s(server: Server, embedded: Server) -> None:
    asked = bodies(0.0)
    for body, mine, theirs in zip(asked, essences(server, asked), essences(embedded, asked), strict=True):
        assert mine == theirs, body
    server.wait_idle()
    drafted = server.fates("draft_model") + server.fates("prompt_lookup") + server.fates("forced")
    if "speculation: off" not in server.log():
        assert drafted["accepted"] > 40, drafted


def test_sampled_answers_are_valid(server: Server) -> None:
    asked = [{**body, "logprobs": True} for body in bodies(0.9)]
    for body, answer in zip(asked, ask_all(server, asked), strict=True):
        assert answer.status_code == 200, answer.text
        *choices, count = essence(body, answer.text)
        assert len(choices) == body["n"]
        assert 0 < count <= 40 * body["n"]
        for text, scored, reason in (c if len(c) == 3 else (c[0][0], c[1], c[0][1]) for c in choices):
            check(body, text, scored, reason)


def check(body: dict[str, Any], text: str, scored: list[Any], reason: str) -> None:
    assert reason in ("stop", "length")
    assert all(entry["logprob"] <= 0 for entry in scored)
    assert len(scored) <= 40
    if reason == "length":
        assert len(scored) == 40
    if body["user"] == "schema" and reason == "stop":
        jsonschema.validate(json.loads(text), SCHEMA)
    for stop in body.get("stop", []):
        assert stop not in text


def test_a_client_that_leaves_frees_its_place(server: Server) -> None:
    body: Any = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2000}
    extra = {"ignore_eos": True}
    with server.client() as client:
        streams = [client.chat.completions.create(**body, stream=True, extra_body=extra) for _ in range(6)]
        for stream in streams:
            next(iter(stream))
            stream.close()
    server.wait_idle()
