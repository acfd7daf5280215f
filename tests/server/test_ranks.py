"""Models split over ranks, on the demo pair: the same text as unsplit."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx

from .serving import PATIENCE, ROOT, Server, serving

TARGET, DRAFT = ROOT / "demo" / "target", ROOT / "demo" / "draft"
CONFIG: dict[str, Any] = {
    "max_batch_size": 16,
    "kv_cache_max_tokens": 16 * 512,
    "engine": {"context": 512},
    # Texts are compared by tokens of their own, which those with white space of a model's are not.
    "grammar": {"whitespace": "compact"},
}
END = "<|im_end|>"
SPLIT = "split over 2 ranks on the CPU"
NEAR = 0.1
"""Nats between two tokens of which either may be drawn."""
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
BEGINNINGS = ("Tom is 31 years old", "One, two,", "The red house", "In the garden", "Name: Ada. Age:")
ENDINGS = (" and", " was", "", " of", ", but", " with a dog", " at night", " now", " when", ".", " she said")


@contextlib.contextmanager
def demo(*flags: str) -> Iterator[Server]:
    """The demo pair with these flags, ready."""
    settings = CONFIG | {"speculative": {"draft_model": str(DRAFT), "adaptive": False, "max_draft_len": 4}}
    with serving(str(TARGET), "--served-model-name", "demo", *flags, config=settings) as server:
        yield server.wait_ready()


def prompts() -> list[dict[str, Any]]:
    """Greedy completions with scores, streamed or not; every other one under a schema."""
    texts = [begin + end for begin, end in itertools.product(BEGINNINGS, ENDINGS)]
    fields = {"model": "demo", "temperature": 0, "max_tokens": 16, "logprobs": 2}
    shape = {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}}
    free = [{**fields, "prompt": text, "stream": bool(n % 2)} for n, text in enumerate(texts)]
    return free + [{**body, **shape} for body in free]


def answer(server: Server, body: dict[str, Any]) -> list[tuple[str, float, dict[str, float]]]:
    """Of each token its text, its log-probability, and those of the likeliest."""
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        text = response.read().decode()
    assert response.status_code == 200, text
    lines = re.findall(r"^data: (\{.*\})$", text, re.M) if body["stream"] else [text]
    tokens: list[tuple[str, float, dict[str, float]]] = []
    for line in lines:
        for choice in json.loads(line)["choices"]:
            scores = choice["logprobs"] or {"tokens": [], "token_logprobs": [], "top_logprobs": []}
            tokens += zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"], strict=True)
    return tokens


def answers(server: Server) -> list[list[tuple[str, float, dict[str, float]]]]:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda body: answer(server, body), prompts()))


def score(server: Server, text: str, token: str) -> float:
    """The log-probability of a token after a text."""
    body = {"model": "demo", "prompt": text + token, "max_tokens": 1, "echo": True, "logprobs": 0}
    scores = server.http.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
    found = dict(
        zip(scores["text_offset"], zip(scores["tokens"], scores["token_logprobs"], strict=True), strict=True)
    )
    assert found[len(text)][0] == token, (text, token, scores["tokens"])
    return float(found[len(text)][1])


def parted(server: Server, prompt: str, one: list[Any], other: list[Any]) -> float | None:
    """How far apart the server's scores are of the tokens at which texts part; None = they are the same."""
    text = prompt
    # The token that ends a text is not told.
    for (token, *_), (there, *_) in itertools.zip_longest(one, other, fillvalue=(END,)):
        if token != there:
            return abs(score(server, text, token) - score(server, text, there))
        text += token
    return None


def test_texts_are_the_same_on_any_number_of_ranks() -> None:
    with demo() as single:
        wanted = answers(single)
        assert len(wanted) >= 100
        assert SPLIT not in single.log()
        for flags, split in (
            (["--tp", "2"], 2),
            (["-tp", "2", "--speculative-draft-tensor-parallel-size", "1"], 1),
        ):
            with demo(*flags) as server:
                found = answers(server)
                assert server.fates("draft_model")["accepted"] > 100
                promise = server.http.get("/ready").json()["promise"]
                models = [line for line in server.log().splitlines() if SPLIT in line]
            assert len(models) == split, models
            pairs = zip((body["prompt"] for body in prompts()), wanted, found, strict=True)
            gaps = [gap for pair in pairs if (gap := parted(single, *pair)) is not None]
            print(f"{' '.join(flags)}: {len(gaps)} of {len(wanted)} texts part, at {gaps} nats; {promise}")
            assert len(gaps) <= 0.03 * len(wanted), gaps
            assert all(gap < NEAR for gap in gaps), gaps
