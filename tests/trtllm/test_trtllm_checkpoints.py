"""The server on a Hugging Face folder, which the LLM API of TensorRT-LLM's fake serves."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import Server, serving

from llgtrt.engines import tensorrt_llm as engine

from .conftest import FAKE
from .live import Folder
from .test_trtllm_calls import OWN, arguments, functions
from .test_trtllm_faults import refusal
from .test_trtllm_serving import BASE, CASES, complete, essence, streamed

SAME = ("plain", "long", "to the end", "stop", "stop token", "several", "one")
constrained = pytest.mark.skipif(
    importlib.util.find_spec("llguidance") is None, reason="skipped: llguidance is not installed"
)


def checkpoint(folder: Path, **model: Any) -> Path:
    """A Hugging Face folder with the weightless model in it."""
    Folder(checkpoint=True, **model).write(folder)
    (folder / "model.safetensors").write_text("weightless")
    return folder


@pytest.fixture(scope="module", params=["alone", "draft"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("checkpoints")
    config: dict[str, Any] = {"max_batch_size": 16}
    if request.param == "draft":
        draft = checkpoint(folder / "draft", blur=8)
        config["speculative"] = {"draft_model": str(draft), "max_draft_len": 4}
    where = str(checkpoint(folder / "target"))
    with serving(where, "--served-model-name", "m", config=config, path=[FAKE]) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def toy() -> Iterator[Server]:
    with serving("toy", "--served-model-name", "m", config={"max_batch_size": 16}) as server:
        yield server.wait_ready()


def test_greedy_answers_are_those_of_the_embedded_engine(toy: Server, api: Server) -> None:
    for name in SAME:
        assert essence(complete(api, **CASES[name])) == essence(complete(toy, **CASES[name])), name
    texts, _ = streamed(api, **CASES["plain"])
    assert texts == {0: complete(toy, **CASES["plain"])["choices"][0]["text"]}


@constrained
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logit_bias", {"65": 1}),
        ("logprobs", 0),
        ("prompt_logprobs", 1),
        ("min_p", 0.1),
        ("ignore_eos", True),
        ("min_tokens", 5),
        ("allowed_token_ids", [65]),
        ("speculative", {"acceptance": "exact"}),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(api: Server, field: str, value: Any) -> None:
    answer = api.http.post("/v1/completions", json=BASE | {field: value})
    assert answer.status_code == 400, answer.text
    assert "TensorRT-LLM's LLM API" in answer.json()["error"]["message"]


def test_who_leaves_is_forgotten(api: Server) -> None:
    fields = BASE | {"stream": True, "max_tokens": 3000}
    for _ in range(3):
        with api.http.stream("POST", "/v1/completions", json=fields) as stream:
            next(stream.iter_lines())
    api.wait_idle()
    assert complete(api, max_tokens=3)["usage"]["completion_tokens"] == 3


@constrained
def test_a_constraint_of_several_parts_is_refused(api: Server) -> None:
    parts = {"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "lark_grammar": 'start: "x"'}]}
    answer = api.http.post("/v1/completions", json=BASE | {"guided_grammar": json.dumps(parts)})
    assert answer.status_code == 400, answer.text


def test_without_tensorrt_llm_the_ways_out_are_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, checkpoint(tmp_path / "model"), {}, [])
    for word in ("llgtrt[trtllm]", "nvcr.io/nvidia/tensorrt-llm/release", "llgtrt build"):
        assert word in said


def test_a_draft_of_another_kind_is_refused(tmp_path: Path) -> None:
    engine = Folder().write(tmp_path / "engine")
    config = {"speculative": {"draft_model": str(engine)}}
    said = refusal(tmp_path, checkpoint(tmp_path / "model"), config, [FAKE])
    assert "which the target is not" in said


def test_calls_are_as_listed() -> None:
    listed = {
        node.name: node
        for node in ast.walk(ast.parse((OWN / "llmapi.pyi").read_text()))
        if isinstance(node, ast.ClassDef)
    }
    fields = {ast.unparse(n.target) for n in listed["BaseLlmArgs"].body if isinstance(n, ast.AnnAssign)}
    known = {
        "LLM": fields | {"model", "tokenizer"},
        # The old name, which stands in the list's comments.
        "DraftTargetDecodingConfig": {"speculative_model_dir", "max_draft_len"},
        "generate_async": set(arguments(functions(listed["LLM"])["generate_async"])),
    }
    for name in ("SamplingParams", "GuidedDecodingParams"):
        known[name] = set(arguments(functions(listed[name])["__init__"]))
    seen = set()
    for call in ast.walk(ast.parse(inspect.getsource(engine))):
        name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
        if isinstance(call, ast.Call) and name in known:
            assert {k.arg for k in call.keywords} <= known[name], name
            seen.add(name)
    assert seen == set(known)
