"""TensorRT-LLM's LLM API as the engine (1.0 and later)."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from typing import Any

from llgtrt.engines import CONTAINER, Answer, Base, Facts, Options, Request, Unusable, answer

_NAME = "TensorRT-LLM's LLM API"

_MOST_DRAFTS = 10
"""Tokens that a draft model drafts where no length is set, as in TensorRT-LLM's examples."""


class Engine(Base):
    """A model in TensorRT-LLM's processes."""

    def __init__(self, folder: str, options: str) -> None:
        """Loads the model of a Hugging Face folder; `options`: `Options` in JSON.

        Raises:
            Unusable: TensorRT-LLM is not installed.
            Exception: TensorRT-LLM refuses the model or an option.
        """
        given: Options = json.loads(options)
        self._params = _module("tensorrt_llm.sampling_params")
        speculative = None
        if given["draft"] is not None:
            # `speculative_model` in later releases, which take the old name, too.
            speculative = _module("tensorrt_llm.llmapi").DraftTargetDecodingConfig(
                max_draft_len=given["max_draft_len"] or _MOST_DRAFTS, speculative_model_dir=given["draft"]
            )
        self._llm = _module("tensorrt_llm").LLM(
            model=str(folder),
            tensor_parallel_size=len(given["trtllm"]["device_ids"] or [0]),
            guided_decoding_backend="llguidance",
            speculative_config=speculative,
            max_batch_size=given["max_batch_size"],
            max_num_tokens=given["max_num_tokens"],
            max_seq_len=given["max_seq_len"],
            enable_chunked_prefill=given["enable_chunked_prefill"],
        )
        super().__init__()

    def facts(self) -> Facts:
        """The API's name."""
        return Facts(name=_NAME, summary=_NAME, speculates=False, lacks=[])

    async def generate(self, request: Request) -> AsyncIterator[Answer]:
        """The answers to a request."""
        output = self._llm.generate_async(
            inputs=request["prompt"],
            sampling_params=self._sampling(request),
            streaming=True,
            cache_salt=request["cache_salt"],
        )
        ended = False
        try:
            async for part in output:
                one = part.outputs[0]
                ended = bool(one.finish_reason)
                finish = one.finish_reason or None
                yield answer(request["id"], list(one.token_ids_diff), finish=finish)
        finally:
            if not ended:
                output.abort()

    def close(self) -> None:
        """Ends TensorRT-LLM's processes."""
        end = getattr(self._llm, "shutdown", None)
        if end is not None:
            end()

    def _sampling(self, request: Request) -> Any:
        lark, greedy = request["grammar"], request["temperature"] == 0
        guide = None if lark is None else self._params.GuidedDecodingParams(grammar=lark)
        end, *stops = request["stop_token_ids"]
        return self._params.SamplingParams(
            end_id=end,
            max_tokens=request["max_tokens"],
            stop_token_ids=stops or None,
            # The likeliest token is the one of one.
            top_k=1 if greedy else request["top_k"],
            top_p=request["top_p"],
            seed=request["seed"],
            temperature=1.0 if greedy else request["temperature"],
            repetition_penalty=request["repetition_penalty"],
            presence_penalty=request["presence_penalty"],
            frequency_penalty=request["frequency_penalty"],
            guided_decoding=guide,
            n=1,
            detokenize=False,
            add_special_tokens=False,
        )


def _module(name: str) -> Any:
    """A module of TensorRT-LLM's.

    Raises:
        Unusable: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Unusable(
            f"a Hugging Face folder is served by TensorRT-LLM, which cannot be imported ({e}); pip install "
            f"'llgtrt[trtllm]' or run in NVIDIA's container {CONTAINER}, or build a folder for llama.cpp "
            "with llgtrt build"
        ) from e
