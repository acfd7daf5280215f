"""The server on the LLM API of a release without the Executor: a Hugging Face folder, served by its fake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import Server, serving

from .live import Folder
from .test_trtllm_faults import refusal
from .test_trtllm_serving import BASE, CASES, complete, essence, streamed

LATER = Path(__file__).parent / "later"
SAME = ("plain", "long", "to the end", "stop", "stop token", "least", "several", "one")


def checkpoint(folder: Path, **model: Any) -> Path:
    """A Hugging Face folder with the weightless model in it."""
    Folder(**model).write(folder)
    (folder / "rank0.engine").rename(folder / "model.safetensors")
    built = json.loads((folder / "config.json").read_text())
    width = built["pretrained_config"]["vocab_size"]
    config = {"model_type": "llama", "vocab_size": width, "max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake was asked, a line of JSON each."""
    return tmp_path_factory.mktemp("seen") / "seen.jsonl"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, seen: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("checkpoints")
    draft = checkpoint(folder / "draft", blur=8)
    config = {"max_batch_size": 16, "speculative": {"draft_model": str(draft), "max_draft_len": 4}}
    where = str(checkpoint(folder / "target"))
    more: dict[str, Any] = {"path": [LATER], "environment": {"FAKE_LLM_SEEN": str(seen)}}
    with serving(where, "--served-model-name", "m", config=config, **more) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def toy() -> Iterator[Server]:
    with serving("toy", "--served-model-name", "m", config={"max_batch_size": 16}) as server:
        yield server.wait_ready()


def last(seen: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(seen.read_text().splitlines()[-1])
    return found


def test_greedy_answers_are_those_of_the_embedded_engine(toy: Server, api: Server) -> None:
    for name in SAME:
        assert essence(complete(api, **CASES[name])) == essence(complete(toy, **CASES[name])), name
    texts, _ = streamed(api, **CASES["plain"])
    assert texts == {0: complete(toy, **CASES["plain"])["choices"][0]["text"]}


def test_constraints_are_enforced_by_llguidance_on_the_other_side(api: Server) -> None:
    schema = {"enum": ["red", "green", "blue"]}
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    for seed in range(6):
        answer = complete(api, response_format=form, temperature=1.0, seed=seed)
        assert json.loads(answer["choices"][0]["text"]) in schema["enum"]
        assert answer["choices"][0]["finish_reason"] == "stop"
        answer = complete(
            api, structured_outputs={"choice": ["yes", "no", "none"]}, temperature=1.0, seed=seed
        )
        assert answer["choices"][0]["text"] in ("yes", "no", "none")


def test_the_model_is_loaded_with_its_draft_and_llguidance(api: Server, seen: Path) -> None:
    options = json.loads(seen.read_text().splitlines()[0])["options"]
    assert options["guided_decoding_backend"] == "llguidance"
    assert options["speculative_config"]["max_draft_len"] == 4
    assert options["speculative_config"]["speculative_model_dir"].endswith("draft")
    assert (options["max_batch_size"], options["max_seq_len"]) == (16, 4096)
    complete(api, temperature=0.7, top_k=5, top_p=0.9, seed=3, frequency_penalty=0.5, max_tokens=4)
    asked = last(seen)["sampling"]
    assert (asked["top_k"], asked["max_tokens"]) == (5, 4)
    assert (asked["temperature"], asked["frequency_penalty"]) == pytest.approx((0.7, 0.5))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logit_bias", {"65": 1}),
        ("logprobs", 0),
        ("prompt_logprobs", 1),
        ("min_p", 0.1),
        ("ignore_eos", True),
        ("allowed_token_ids", [65]),
        ("speculative", {"acceptance": "exact"}),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(api: Server, field: str, value: Any) -> None:
    answer = api.http.post("/v1/completions", json=BASE | {field: value})
    assert answer.status_code == 400, answer.text
    assert "TensorRT-LLM's LLM API" in answer.json()["error"]["message"]


def test_a_refused_prompt_fails_alone_and_who_leaves_is_forgotten(api: Server) -> None:
    answer = api.http.post("/v1/completions", json=BASE | {"prompt": "FAIL"})
    assert answer.status_code == 500
    assert "the prompt was refused" in answer.json()["error"]["message"]
    with api.http.stream(
        "POST", "/v1/completions", json=BASE | {"stream": True, "max_tokens": 3000}
    ) as stream:
        next(stream.iter_lines())
    api.wait_idle()
    assert complete(api, max_tokens=3)["usage"]["completion_tokens"] == 3


def test_without_tensorrt_llm_the_ways_out_are_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, checkpoint(tmp_path / "model"), {}, [])
    for word in ("llgtrt[trtllm]", "nvcr.io/nvidia/tensorrt-llm/release", "llgtrt build"):
        assert word in said


def test_a_draft_of_another_kind_is_refused(tmp_path: Path) -> None:
    engine = Folder().write(tmp_path / "engine")
    config = {"speculative": {"draft_model": str(engine)}}
    said = refusal(tmp_path, checkpoint(tmp_path / "model"), config, [LATER])
    assert "which the target is not" in said
