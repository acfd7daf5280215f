"""The fake's LLM API: the same model by another door."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib.util
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorrt_llm import LLM, SamplingParams, llmapi
from tensorrt_llm._fake.llm import ARGUMENTS
from tensorrt_llm._fake.model import END
from tensorrt_llm.llmapi import DraftTargetDecodingConfig, GuidedDecodingParams, RequestError

from .live import PROMPT, Folder, Live, running
from .test_trtllm_signatures import FOLDER, check

NODES = ast.parse((FOLDER / "llmapi.pyi").read_text()).body
CLASSES = {
    node.name: node
    for module in NODES
    if isinstance(module, ast.ClassDef)
    for node in module.body
    if isinstance(node, ast.ClassDef)
}
CHECKPOINT = Folder(checkpoint=True)
constrained = pytest.mark.skipif(
    importlib.util.find_spec("llguidance") is None, reason="skipped: llguidance is not installed"
)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = CHECKPOINT.write(tmp_path_factory.mktemp("hf"))
    with LLM(model=str(folder), guided_decoding_backend="llguidance", max_batch_size=8) as llm:
        yield llm


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("engine")) as live:
        yield live


def test_arguments_are_as_listed() -> None:
    for name, made in (("SamplingParams", SamplingParams), ("GuidedDecodingParams", GuidedDecodingParams)):
        (init,) = [n for n in CLASSES[name].body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        check(init, made)
    (called,) = [
        n for n in CLASSES["LLM"].body if isinstance(n, ast.FunctionDef) and n.name == "generate_async"
    ]
    check(called, LLM.generate_async)
    listed = [n for n in CLASSES["BaseLlmArgs"].body if isinstance(n, ast.AnnAssign)]
    assert ARGUMENTS.keys() <= {ast.unparse(node.target) for node in listed}
    base = next(n for n in CLASSES["DecodingBaseConfig"].body if isinstance(n, ast.FunctionDef))
    own = set(inspect.signature(DraftTargetDecodingConfig).parameters) - {"speculative_model_dir"}
    assert own == {argument.arg for argument in base.args.kwonlyargs}
    output = {f.name for f in dataclasses.fields(llmapi.CompletionOutput) if f.name[0] != "_"}
    declared = {
        ast.unparse(n.target) for n in CLASSES["CompletionOutput"].body if isinstance(n, ast.AnnAssign)
    }
    assert output | {"length", "token_ids_diff", "logprobs_diff", "text_diff"} == declared


def test_answers(llm: LLM, live: Live) -> None:
    params = SamplingParams(max_tokens=12, logprobs=2, ignore_eos=True)
    assert llm.generate("z the", params).outputs[0].token_ids == live.greedy(12, [ord("z"), 263])
    whole = llm.generate(PROMPT, params).outputs[0]
    assert (whole.token_ids, whole.finish_reason) == (live.greedy(12), "length")
    assert whole.text == bytes(live.greedy(12)).decode()
    assert all(
        next(iter(entry)) == token for entry, token in zip(whole.logprobs, whole.token_ids, strict=True)
    )
    end = whole.token_ids[4]
    ended = llm.generate(PROMPT, SamplingParams(end_id=end)).outputs[0]
    assert (ended.token_ids, ended.finish_reason) == (whole.token_ids[:5], "stop")
    stopped = llm.generate(PROMPT, SamplingParams(stop_token_ids=[end])).outputs[0]
    assert (stopped.token_ids, stopped.stop_reason) == (whole.token_ids[:4], end)


def test_parts(llm: LLM, live: Live) -> None:
    async def read() -> list[tuple[list[int], list[int]]]:
        params, found = SamplingParams(max_tokens=6, ignore_eos=True), []
        async for output in llm.generate_async(PROMPT, params, streaming=True):
            found.append((output.outputs[0].token_ids_diff, list(output.outputs[0].token_ids or [])))
        assert (await llm.generate_async(PROMPT, params)).outputs[0].token_ids == found[-1][1]
        return found

    greedy = live.greedy(6)
    assert asyncio.run(read()) == [([token], greedy[: i + 1]) for i, token in enumerate(greedy)]


def test_drafts_bring_several_tokens_at_once(tmp_path: Path, live: Live) -> None:
    target = CHECKPOINT.write(tmp_path / "target")
    draft = Folder(blur=5.0, checkpoint=True).write(tmp_path / "draft")
    config = DraftTargetDecodingConfig(max_draft_len=4, speculative_model_dir=str(draft))

    async def read(llm: LLM) -> list[list[int]]:
        params = SamplingParams(max_tokens=40, ignore_eos=True)
        answer = llm.generate_async(PROMPT, params, streaming=True)
        return [output.outputs[0].token_ids_diff async for output in answer]

    with LLM(str(target), speculative_config=config) as llm:
        parts = asyncio.run(read(llm))
    assert [token for part in parts for token in part] == live.greedy(40)
    assert max(map(len, parts)) > 2
    assert all(1 <= len(part) <= 5 for part in parts)
    with pytest.raises(ValueError, match="max_draft_len"):
        DraftTargetDecodingConfig(speculative_model_dir=str(draft))


@constrained
@pytest.mark.parametrize(
    ("guide", "wanted"),
    [
        ({"regex": "(ab|cd){3}"}, lambda text: len(text) == 6),
        ({"grammar": 'start: "yes" | "no"'}, lambda text: text in ("yes", "no")),
        ({"json": {"const": [7]}}, lambda text: json.loads(text) == [7]),
    ],
)
def test_constraints(llm: LLM, guide: Any, wanted: Any) -> None:
    params = SamplingParams(max_tokens=60, guided_decoding=GuidedDecodingParams(**guide))
    output = llm.generate("x", params).outputs[0]
    assert wanted(output.text), output.text
    assert (output.finish_reason, output.token_ids[-1]) == ("stop", END[0])


@constrained
def test_constraints_that_cannot_be(llm: LLM, tmp_path: Path) -> None:
    for params in (
        GuidedDecodingParams(),
        GuidedDecodingParams(regex="a", json={}),
        GuidedDecodingParams(regex="("),
    ):
        with pytest.raises(ValueError, match=r"guide|grammar"):
            llm.generate_async("x", SamplingParams(guided_decoding=params))
    with (
        LLM(str(CHECKPOINT.write(tmp_path))) as plain,
        pytest.raises(ValueError, match="guided_decoding_backend"),
    ):
        plain.generate_async("x", SamplingParams(guided_decoding=GuidedDecodingParams(regex="a")))


def test_what_goes_wrong(llm: LLM, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompt length"):
        llm.generate_async([1] * 5000)
    with pytest.raises(ValueError, match="not permitted"):
        LLM("x", engine_dir="y")
    slow = Folder(checkpoint=True, faults={"iteration_ms": 3.0, "error_every": 2}).write(tmp_path)
    with LLM(str(slow)) as other:
        long = other.generate_async(PROMPT, SamplingParams(max_tokens=3000, ignore_eos=True))
        with pytest.raises(RequestError, match="a fault"):
            other.generate_async(PROMPT).result(timeout=30)
        with pytest.raises(TimeoutError):
            long.result(timeout=0.05)
        long.abort()
        assert long.result(timeout=30).outputs[0].finish_reason == "cancelled"


def test_a_release_without_the_executor_has_it_still() -> None:
    import os
    import subprocess
    import sys

    from .conftest import FAKE

    code = "from tensorrt_llm import LLM, bindings; print(hasattr(bindings.executor, 'Executor'))"
    environment = os.environ | {"PYTHONPATH": str(FAKE), "FAKE_TRTLLM_RELEASE": "1.3"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
