"""The server on TensorRT-LLM's fake: the answers of the embedded weightless engine, token for token."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import Server, serving

from .conftest import FAKE
from .live import Folder

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "ages": {"type": "array", "maxItems": 4}},
    "required": ["name", "ages"],
    "additionalProperties": False,
}
BASE: dict[str, Any] = {"model": "m", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 40}
LONG = "A long prompt, of which the beginning is reused. " * 12
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"prompt": LONG},
    "to the end": {"prompt": "zz", "max_tokens": 600},
    "schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
        "max_tokens": 200,
    },
    "regex": {"response_format": {"type": "regex", "regex": "(ab|cd|[0-9]{3}){9,30}"}, "max_tokens": 120},
    "choice": {"response_format": {"type": "regex", "regex": "yes|no"}},
    "stop": {"stop": ["a", "Q"], "max_tokens": 120},
    "stop token": {"stop_token_ids": list(b"abc"), "max_tokens": 120},
    "least": {"min_tokens": 30, "stop_token_ids": list(b"abcdefgh")},
    "endless": {"ignore_eos": True, "max_tokens": 300},
    "allowed": {"allowed_token_ids": list(b"xyz {}")},
    "penalties": {"repetition_penalty": 1.3},
    "presence": {"presence_penalty": 1.5, "frequency_penalty": 0.5},
    "several": {"n": 3},
    "one": {"max_tokens": 1},
}
SPECULATION: dict[str, dict[str, Any]] = {
    "alone": {},
    "draft": {"adaptive": False, "max_draft_len": 5},
    "logits": {"adaptive": False, "max_draft_len": 5, "use_logits": True},
    "adaptive": {},
    "lookup": {"sources": ["forced", "prompt_lookup"], "adaptive": False},
}
DRAFTS = ("draft", "logits", "adaptive")


def start(folder: Path, mode: str = "alone", **more: Any) -> Any:
    """A server on new engine folders."""
    wanted = {"faults": {"iteration_ms": 3}, **more.pop("target", {})}
    target = Folder(draft_len=0 if mode == "alone" else 8, gathers=True, **wanted)
    speculative = dict(SPECULATION[mode])
    draft = Folder(blur=8, gathers=True, **more.pop("draft", {}))
    if mode in DRAFTS:
        speculative["draft_model"] = str(draft.write(folder / "draft"))
    config = {"speculative": speculative, "max_batch_size": 16, **more.pop("config", {})}
    where = str(target.write(folder / "target"))
    return serving(where, "--served-model-name", "m", config=config, path=[FAKE], **more)


@pytest.fixture(scope="module")
def toy() -> Iterator[Server]:
    with serving("toy", "--served-model-name", "m", config={"max_batch_size": 16}) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module", params=SPECULATION)
def mode(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def fake(mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start(tmp_path_factory.mktemp(mode), mode) as server:
        yield server.wait_ready()


def complete(server: Server, **fields: Any) -> dict[str, Any]:
    answer = server.http.post("/v1/completions", json=BASE | fields)
    assert answer.status_code == 200, answer.text + server.log()
    found: dict[str, Any] = answer.json()
    return found


def essence(answer: dict[str, Any]) -> Any:
    choices = [(c["index"], c["text"], c["finish_reason"]) for c in answer["choices"]]
    return choices, answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]


def streamed(server: Server, **fields: Any) -> tuple[dict[int, str], int]:
    """Texts by choice, and the number of pieces with text."""
    texts: dict[int, str] = {}
    pieces = 0
    with server.http.stream("POST", "/v1/completions", json=BASE | fields | {"stream": True}) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:]).get("choices", []):
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
                pieces += bool(choice["text"])
    return texts, pieces


def test_greedy_answers_are_those_of_the_embedded_engine(toy: Server, fake: Server) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda fields: complete(fake, **fields), CASES.values())
        wanted = [complete(toy, **fields) for fields in CASES.values()]
        for name, ours, theirs in zip(CASES, wanted, found, strict=True):
            assert essence(theirs) == essence(ours), name


def test_reused_blocks_of_the_prompt_are_told(fake: Server) -> None:
    def cached() -> int:
        usage = complete(fake, prompt="Told twice, found once. " * 9, max_tokens=12)["usage"]
        found: int = usage["prompt_tokens_details"]["cached_tokens"]
        return found

    assert cached() == 0
    # The prompt's whole blocks, not what earlier rounds of the same answer left.
    again, prompt = cached(), len("Told twice, found once. " * 9)
    block = Folder().block
    assert prompt - block <= again < prompt
    assert again % block == 0
    assert cached() == again


def test_answers_are_streamed_round_by_round(toy: Server, fake: Server) -> None:
    for name in ("plain", "schema", "several"):
        texts, pieces = streamed(fake, **CASES[name])
        wanted = {c["index"]: c["text"] for c in complete(toy, **CASES[name])["choices"]}
        assert texts == wanted, name
        assert pieces > 4 * len(texts), name


def test_drafts_are_verified_and_mostly_accepted(mode: str, fake: Server) -> None:
    source = {"lookup": "prompt_lookup"}.get(mode, "draft_model")
    if mode == "lookup":
        complete(fake, **CASES["regex"] | {"response_format": {"type": "regex", "regex": "(ab|cd){40,50}"}})
    else:
        complete(fake, max_tokens=200)
        complete(fake, **CASES["schema"])
    fates = fake.fates(source)
    if mode == "lookup":  # what is forced within a draft is not looked up
        fates += fake.fates("forced")
    if mode == "alone":
        assert not fates
    elif mode == "adaptive":
        # Whether drafts pay is a matter of the moment: target and draft are equally fast here.
        assert fates["accepted"] >= fates["grammar"], fates
    else:
        # Whoever drafts blindly hits one token in some hundred.
        assert fates["accepted"] > max(20, fates["target"] / 2), fates
        assert fates["grammar"] < fates["accepted"] / 4, fates


def test_drawn_answers_are_valid_and_repeat_with_their_seed(mode: str, fake: Server) -> None:
    for seed in range(6):
        fields = CASES["schema"] | {"temperature": 1.0, "seed": seed}
        one, two = complete(fake, **fields), complete(fake, **fields)
        if one["choices"][0]["finish_reason"] == "stop":
            value = json.loads(one["choices"][0]["text"])
            assert set(value) == {"name", "ages"}
        assert one["usage"]["completion_tokens"] <= fields["max_tokens"]
        # Where lengths follow the load, so does what is drawn: the engine begins anew after each round.
        if mode != "adaptive":
            assert essence(one) == essence(two)


def test_log_probabilities_are_those_of_the_drawn_tokens(toy: Server, fake: Server) -> None:
    ours, theirs = (complete(server, logprobs=0) for server in (toy, fake))
    left, right = (answer["choices"][0]["logprobs"] for answer in (ours, theirs))
    assert left["tokens"] == right["tokens"]
    assert right["token_logprobs"] == pytest.approx(left["token_logprobs"], abs=1e-3)


@pytest.mark.parametrize(
    ("field", "value"),
    [("logit_bias", {"65": 1}), ("logprobs", 2), ("prompt_logprobs", 1)],
)
def test_what_the_engine_cannot_do_is_refused_by_name(fake: Server, field: str, value: Any) -> None:
    answer = fake.http.post("/v1/completions", json=BASE | {field: value})
    assert answer.status_code == 400, answer.text
    assert "TensorRT-LLM" in answer.json()["error"]["message"]


def test_prompts_may_be_as_long_as_the_engine_takes(toy: Server, fake: Server) -> None:
    fields = {"prompt": "word " * 800, "max_tokens": 5}
    assert essence(complete(fake, **fields)) == essence(complete(toy, **fields))
    answer = fake.http.post("/v1/completions", json=BASE | {"prompt": "x" * 5000})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
