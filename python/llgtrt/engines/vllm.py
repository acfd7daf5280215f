"""vLLM as the engine: its `AsyncLLM`, with llgtrt's grammar inside (`llgtrt.vllm_plugin`)."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

from llgtrt import vllm_plugin
from llgtrt.engines import Answer, Base, Broken, Facts, Logprob, Options, Request, Unusable, answer

_NAMES = (
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logprobs",
    "prompt_logprobs",
    "allowed_token_ids",
    "stop_token_ids",
)
"""Fields of a request that `SamplingParams` has, too."""

_AVOIDED = -100.0
"""The least bias that vLLM takes: a token with it is drawn only where no other one can be."""

_FEWEST_DRAFTS = 4
"""Tokens that a draft model drafts where no length is set."""


class Engine(Base):
    """A model in vLLM's processes."""

    def __init__(self, folder: str, options: str) -> None:
        """Loads the model of a Hugging Face folder; `options`: `Options` in JSON.

        Raises:
            Unusable: vLLM is not installed, or is of a version that cannot be used.
            Exception: vLLM refuses the model or an option.
        """
        given: Options = json.loads(options)
        # A fork of a process with threads may hang.
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        self._vllm = _import("vllm")
        self._params = _import("vllm.sampling_params")
        self._error: type[Exception] = _import("vllm.v1.engine.exceptions").EngineDeadError
        _check_plugin()
        wanted = _arguments(str(folder), given)
        self._speculates = wanted["speculative_config"] is not None
        arguments = self._vllm.AsyncEngineArgs(**wanted)
        self._llm = _import("vllm.v1.engine.async_llm").AsyncLLM.from_engine_args(arguments)
        super().__init__()

    def facts(self) -> Facts:
        """The version of vLLM, and what it lacks on processors and with speculation."""
        name, lacks = "vLLM", list[str]()
        if _import("vllm.platforms").current_platform.is_cpu():
            # Of 0.32, a seeded request whose prompt is read in chunks ends the engine there.
            name, lacks = "vLLM on processors", ["Seed"]
        if self._speculates:
            # It leaves these out then, and says so in its log only.
            name, lacks = f"{name} with speculation", [*lacks, "MinP", "LogitBias", "IgnoreEos"]
        summary = f"vLLM {self._vllm.__version__}"
        return Facts(name=name, summary=summary, speculates=self._speculates, lacks=lacks)

    async def generate(self, request: Request) -> AsyncIterator[Answer]:
        """The answers to a request."""
        number = request["id"]
        prompt: dict[str, Any] = {"prompt_token_ids": request["prompt"]}
        if request["cache_salt"] is not None:
            prompt["cache_salt"] = request["cache_salt"]
        outputs = self._llm.generate(
            prompt, self._sampling(request), str(number), priority=request["priority"]
        )
        begun = False
        try:
            async for output in outputs:
                one = output.outputs[0]
                more: dict[str, Any] = {"finish": one.finish_reason, "cached": output.num_cached_tokens}
                if one.logprobs:
                    more["logprobs"] = [
                        _entries(entry, token, request["logprobs"])
                        for entry, token in zip(one.logprobs, one.token_ids, strict=True)
                    ]
                if not begun and output.prompt_logprobs:
                    pairs = zip(output.prompt_logprobs, request["prompt"], strict=True)
                    more["prompt_logprobs"] = [
                        _entries(entry, token, request["prompt_logprobs"]) for entry, token in pairs if entry
                    ]
                if one.finish_reason is not None:
                    more["drafted"] = _drafted(one)
                begun = True
                yield answer(number, list(one.token_ids), **more)
        except self._error as e:
            raise Broken(f"its engine has ended ({e})") from e

    def close(self) -> None:
        """Ends vLLM's processes."""
        self._llm.shutdown()

    def _sampling(self, request: Request) -> Any:
        bias = request["logit_bias"] | dict.fromkeys(request["avoided_token_ids"], _AVOIDED)
        constraint = None
        if request["grammar"] is not None:
            constraint = self._params.StructuredOutputsParams(grammar=vllm_plugin.SPEC + request["grammar"])
        return self._params.SamplingParams(
            **{name: request[name] for name in _NAMES},  # type: ignore[literal-required]
            # Its own end tokens are among the stop tokens.
            ignore_eos=True,
            logit_bias=bias or None,
            structured_outputs=constraint,
            detokenize=False,
            output_kind=self._params.RequestOutputKind.DELTA,
        )


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Unusable(
            f"vLLM cannot be imported ({e}); install it beside llgtrt (docs/vllm.md), or serve a model that "
            "llgtrt build has made for llama.cpp"
        ) from e


def _check_plugin() -> None:
    """Puts llgtrt's grammar into this process, and sees to it that vLLM's others have it, too.

    Raises:
        Unusable: this vLLM has not what the grammar is put into, or its processes would not find the plug-in.
    """
    points = importlib.metadata.entry_points(group="vllm.general_plugins")
    if not any(point.name == "llgtrt" for point in points):
        raise Unusable(
            "vLLM would not find llgtrt's grammar: the package llgtrt is not installed in this environment, "
            "only its modules are there; pip install it"
        )
    os.environ[vllm_plugin.VARIABLE] = "always"
    vllm_plugin.register()
    missing = vllm_plugin.missing()
    if missing:
        raise Unusable(f"this vLLM does not take llgtrt's grammar ({'; '.join(missing)}); see docs/vllm.md")


def _arguments(folder: str, given: Options) -> dict[str, Any]:
    """The arguments of `AsyncEngineArgs`."""
    group = given["vllm"]
    speculation, spread = group["speculative_config"], group["distributed_executor_backend"]
    if speculation is None and given["draft"] is not None:
        speculation = {
            "method": "draft_model",
            "model": given["draft"],
            "num_speculative_tokens": given["max_draft_len"] or _FEWEST_DRAFTS,
            "draft_tensor_parallel_size": given["draft_tensor_parallel_size"],
        }
    arguments: dict[str, Any] = {
        "model": folder,
        "tensor_parallel_size": given["tensor_parallel_size"],
        "pipeline_parallel_size": group["pipeline_parallel_size"],
        "distributed_executor_backend": None if spread == "auto" else spread,
        "max_model_len": given["max_seq_len"],
        "max_num_seqs": given["max_batch_size"],
        "max_num_batched_tokens": given["max_num_tokens"],
        "enable_chunked_prefill": given["enable_chunked_prefill"],
        "enable_prefix_caching": given["enable_prefix_caching"],
        "kv_cache_memory_bytes": given["kv_cache_bytes"],
        "speculative_config": speculation,
        "per_request_spec_decode_metrics": "summary" if speculation else "none",
        "scheduling_policy": "priority",
        # The core has read what generation_config.json says.
        "generation_config": "vllm",
        "max_logprobs": 20,
        "additional_config": {vllm_plugin.SETTINGS: given["grammar"]},
        "disable_log_stats": True,
    }
    if given["memory_fraction"] is not None:
        arguments["gpu_memory_utilization"] = given["memory_fraction"]
    return {**arguments, **group["engine_args"]}


def _entries(entry: Any, token: int, most: int | None) -> list[Logprob]:
    """The token's own log-probability, then the likeliest ones'."""
    ranked = sorted(entry.items(), key=lambda item: (-item[1].logprob, item[0]))
    top = [(other, found.logprob) for other, found in ranked]
    return [(token, entry[token].logprob), *top[: most or 0]]


def _drafted(output: Any) -> tuple[int, int]:
    """Drafted and accepted tokens of an output that has ended."""
    found = getattr(output, "spec_decode_metrics", None)
    if found is None:
        return (0, 0)
    accepted: Iterable[int] = (length * count for length, count in enumerate(found.histogram))
    return (found.num_draft_tokens, sum(accepted))
