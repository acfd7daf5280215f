"""The engines that schedule by themselves, against a vLLM that says what a test has prepared."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import sys
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from llgtrt import engines, vllm_plugin
from llgtrt.engines import Answer, Base, Broken, Facts, Options, Request, answer
from llgtrt.engines import vllm as module

from .test_cli import config

REQUEST = Request(
    id=7,
    prompt=[1, 2, 3],
    max_tokens=5,
    min_tokens=0,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    repetition_penalty=1.0,
    seed=None,
    logit_bias={},
    allowed_token_ids=None,
    stop_token_ids=[2],
    avoided_token_ids=[],
    logprobs=None,
    prompt_logprobs=None,
    cache_salt=None,
    priority=0,
    grammar=None,
)
OPTIONS = Options(
    draft=None,
    max_draft_len=None,
    tensor_parallel_size=1,
    draft_tensor_parallel_size=1,
    max_batch_size=8,
    max_num_tokens=64,
    max_seq_len=128,
    enable_chunked_prefill=True,
    enable_prefix_caching=True,
    memory_fraction=None,
    kv_cache_bytes=None,
    grammar={"key_order": "any"},
    vllm={
        "pipeline_parallel_size": 1,
        "distributed_executor_backend": "auto",
        "speculative_config": None,
        "engine_args": {},
    },
    trtllm={},
)


class Echo(Base):
    """Says the prompt, token by token."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled: list[int] = []

    def facts(self) -> Facts:
        return Facts(name="echo", summary="echo 1", speculates=False, lacks=[])

    async def generate(self, request: Request) -> AsyncIterator[Answer]:
        try:
            for token in request["prompt"]:
                if token == 13:
                    raise ValueError("unlucky")
                if token == 0:
                    raise Broken("gone")
                while token == 99:
                    await asyncio.sleep(0.01)
                yield answer(request["id"], [token])
        except asyncio.CancelledError:
            self.cancelled.append(request["id"])
            raise

    def close(self) -> None:
        self.closed = True


@pytest.fixture(name="echo")
def fixture_echo() -> Iterator[Echo]:
    engine = Echo()
    yield engine
    engine.shutdown()
    assert engine.closed


def answers(engine: Base, count: int) -> list[Answer]:
    found: list[Answer] = []
    while len(found) < count:
        found += engine.wait(10)
    return found


def test_answers_come_in_order(echo: Echo) -> None:
    echo.submit(REQUEST)
    assert [one["tokens"] for one in answers(echo, 3)] == [[1], [2], [3]]
    assert echo.wait(0.01) == []


def test_a_failure_is_one_requests(echo: Echo) -> None:
    echo.submit(REQUEST | {"id": 1, "prompt": [13]})
    echo.submit(REQUEST | {"id": 2, "prompt": [4]})
    found = {one["id"]: one for one in answers(echo, 2)}
    assert (found[1]["error"], found[2]["tokens"]) == ("unlucky", [4])


def test_what_is_cancelled_ends(echo: Echo) -> None:
    echo.submit(REQUEST | {"prompt": [5, 99]})
    assert answers(echo, 1)[0]["tokens"] == [5]
    echo.cancel(7)
    echo.cancel(8)
    echo.submit(REQUEST | {"id": 9, "prompt": [6]})
    assert answers(echo, 1)[0]["id"] == 9
    assert echo.cancelled == [7]


def test_a_broken_engine_says_so(echo: Echo) -> None:
    echo.submit(REQUEST | {"prompt": [0]})
    with pytest.raises(Broken, match="gone"):
        echo.wait(10)


class FakeLLM:
    """vLLM's `AsyncLLM`: what it was given, and what it says."""

    given: dict[str, Any]
    asked: list[tuple[Any, ...]]
    says: list[Any]

    def __init__(self, arguments: Any) -> None:
        type(self).given, type(self).asked, type(self).says = arguments, [], []
        self.ended = False

    @classmethod
    def from_engine_args(cls, arguments: Any) -> FakeLLM:
        return cls(arguments)

    async def generate(self, prompt: Any, params: Any, number: str, priority: int) -> AsyncIterator[Any]:
        self.asked.append((prompt, params, number, priority))
        for part in self.says:
            if isinstance(part, Exception):
                raise part
            yield part

    def shutdown(self) -> None:
        self.ended = True


class Dead(Exception):
    pass


@pytest.fixture(name="vllm")
def fixture_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept(dict[str, Any]):
        """Keywords, as they were given."""

    kept: dict[str, dict[str, Any]] = {
        "vllm": {"AsyncEngineArgs": Kept, "__version__": "0.32.0"},
        "vllm.sampling_params": {
            "SamplingParams": Kept,
            "StructuredOutputsParams": Kept,
            "RequestOutputKind": types.SimpleNamespace(DELTA="delta"),
        },
        "vllm.v1.engine.exceptions": {"EngineDeadError": Dead},
        "vllm.v1.engine.async_llm": {"AsyncLLM": FakeLLM},
        "vllm.platforms": {"current_platform": types.SimpleNamespace(is_cpu=lambda: True)},
    }
    for name, members in kept.items():
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
    point = importlib.metadata.EntryPoint("llgtrt", "llgtrt.vllm_plugin:register", "vllm.general_plugins")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(vllm_plugin, "register", lambda: None)
    monkeypatch.setattr(vllm_plugin, "missing", list)
    for name in (vllm_plugin.VARIABLE, "VLLM_WORKER_MULTIPROC_METHOD"):
        monkeypatch.setenv(name, "")


def opened(**options: Any) -> module.Engine:
    return module.Engine("folder", json.dumps({**OPTIONS, **options}))


def output(tokens: list[int], **fields: Any) -> Any:
    one = {"token_ids": tokens, "finish_reason": None, "logprobs": None} | fields
    prompt = one.pop("prompt_logprobs", None)
    made = types.SimpleNamespace(**one)
    return types.SimpleNamespace(outputs=[made], num_cached_tokens=1, prompt_logprobs=prompt)


@pytest.mark.usefixtures("vllm")
def test_what_vllm_is_given() -> None:
    group = {**OPTIONS["vllm"], "engine_args": {"max_num_seqs": 3}}
    opened(draft="small", draft_tensor_parallel_size=2, memory_fraction=0.7, vllm=group).shutdown()
    given = FakeLLM.given
    assert (given["model"], given["max_num_seqs"], given["gpu_memory_utilization"]) == ("folder", 3, 0.7)
    assert given["additional_config"] == {vllm_plugin.SETTINGS: {"key_order": "any"}}
    assert given["distributed_executor_backend"] is None
    assert given["speculative_config"] == {
        "method": "draft_model",
        "model": "small",
        "num_speculative_tokens": 4,
        "draft_tensor_parallel_size": 2,
    }
    group |= {"speculative_config": {"method": "ngram"}, "distributed_executor_backend": "ray"}
    engine = opened(draft="small", vllm=group)
    assert engine.facts()["lacks"] == ["Seed", "MinP", "LogitBias", "IgnoreEos"]
    engine.shutdown()
    assert FakeLLM.given["speculative_config"] == {"method": "ngram"}
    assert FakeLLM.given["distributed_executor_backend"] == "ray"
    assert "gpu_memory_utilization" not in FakeLLM.given


@pytest.mark.usefixtures("vllm")
def test_a_request_of_vllm() -> None:
    engine = opened()
    try:
        facts = Facts(name="vLLM on processors", summary="vLLM 0.32.0", speculates=False, lacks=["Seed"])
        assert engine.facts() == facts
        entry = {5: types.SimpleNamespace(logprob=-2.0), 9: types.SimpleNamespace(logprob=-0.5)}
        drafts = types.SimpleNamespace(histogram=[1, 2, 3], num_draft_tokens=12)
        FakeLLM.says = [
            output([5], logprobs=[entry], prompt_logprobs=[None, {2: entry[5]}, {3: entry[9]}]),
            output([2], logprobs=[{2: entry[9]}], finish_reason="stop", spec_decode_metrics=drafts),
        ]
        more: Any = {
            "logprobs": 1,
            "prompt_logprobs": 0,
            "cache_salt": "a",
            "priority": 4,
            "grammar": '"json_object"',
        }
        engine.submit(REQUEST | more | {"logit_bias": {8: 1.0}, "avoided_token_ids": [2]})
        first, last = answers(engine, 2)
        assert (first["tokens"], first["logprobs"], first["cached"]) == ([5], [[(5, -2.0), (9, -0.5)]], 1)
        assert first["prompt_logprobs"] == [[(2, -2.0)], [(3, -0.5)]]
        assert (last["finish"], last["drafted"]) == ("stop", (12, 8))
        prompt, params, number, priority = FakeLLM.asked[0]
        assert prompt == {"prompt_token_ids": [1, 2, 3], "cache_salt": "a"}
        assert (number, priority, params["ignore_eos"], params["stop_token_ids"]) == ("7", 4, True, [2])
        assert params["logit_bias"] == {8: 1.0, 2: -100.0}
        assert params["structured_outputs"] == {"grammar": vllm_plugin.SPEC + '"json_object"'}
    finally:
        engine.shutdown()


@pytest.mark.usefixtures("vllm")
def test_errors_of_vllm() -> None:
    engine = opened()
    try:
        FakeLLM.says = [ValueError("too long")]
        engine.submit(REQUEST)
        assert answers(engine, 1)[0]["error"] == "too long"
        FakeLLM.says = [Dead("died")]
        engine.submit(REQUEST)
        with pytest.raises(Broken, match="died"):
            engine.wait(10)
    finally:
        engine.shutdown()


@pytest.mark.usefixtures("vllm")
def test_a_vllm_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_plugin, "missing", lambda: ["there is no x"])
    with pytest.raises(engines.Unusable, match="there is no x"):
        opened()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    with pytest.raises(engines.Unusable, match="pip install it"):
        opened()
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(engines.Unusable, match="vLLM cannot be imported"):
        opened()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(engines.Unusable, match=r"llgtrt\[vllm\]"):
        engines.installed()


def test_flags_of_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--engine", "vllm", "--pp", "2", "--tp", "4", "--dtype", "bfloat16", "--max-num-seqs", "7"]
    own = ["--speculative-config", '{"method": "eagle3", "model": "x"}', "--engine-args", '{"swap_space": 1}']
    found = config(capsys, "toy", *flags, *own)
    assert (found["engine"]["backend"], found["parallel"]["tp_size"], found["max_batch_size"]) == (
        "vllm",
        4,
        7,
    )
    group = found["vllm"]
    assert (group["pipeline_parallel_size"], group["speculative_config"]["method"]) == (2, "eagle3")
    assert group["engine_args"] == {"dtype": "bfloat16", "swap_space": 1}
