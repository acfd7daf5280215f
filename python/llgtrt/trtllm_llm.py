"""The calls into TensorRT-LLM's LLM API, for the core: Hugging Face folders, without engines.

Used instead of `llgtrt.trtllm.Executor`. The API schedules, samples, speculates and enforces constraints on
its own, in separate processes. Answers arrive through asyncio, on a thread here, in a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import queue
import threading
from typing import Any

from llgtrt.trtllm import CONTAINER, Answer, Order, Unusable

_ENDS = {"stop": "END_ID", "length": "LENGTH", "timeout": "TIMED_OUT", "cancelled": "CANCELLED"}
"""Finish reasons, and the names that the core knows."""


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


class Executor:
    """A model that serves requests, under the names of `llgtrt.trtllm.Executor`."""

    def __init__(self, folder: str, options: str, masks: None) -> None:
        """Loads the model; `options`: the core's, in JSON. Constraints are its own: it asks for no masks.

        Raises:
            Unusable: TensorRT-LLM is not installed.
            Exception: TensorRT-LLM refuses the model or an option.
        """
        given = json.loads(options)
        self._params = _module("tensorrt_llm.sampling_params")
        speculative = None
        if given["draft"] is not None:
            # `speculative_model` in later releases, which take the old name, too.
            speculative = _module("tensorrt_llm.llmapi").DraftTargetDecodingConfig(
                max_draft_len=given["max_draft_len"], speculative_model_dir=given["draft"]
            )
        self._llm = _module("tensorrt_llm").LLM(
            model=folder,
            tensor_parallel_size=given["tensor_parallel_size"],
            guided_decoding_backend="llguidance",
            speculative_config=speculative,
            max_batch_size=given["max_batch_size"],
            max_num_tokens=given["max_num_tokens"],
            max_seq_len=given["max_seq_len"],
            enable_chunked_prefill=given["enable_chunked_prefill"],
        )
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._live: dict[int, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm answers", daemon=True)
        self._thread.start()

    def leads(self) -> bool:
        """Always: the API starts processes of its own."""
        return True

    def enqueue(self, order: Order, logits: None) -> int:
        """Hands a request in, without draft tokens; its id is the core's."""
        asyncio.run_coroutine_threadsafe(self._serve(order), self._loop)
        return order["client_id"]

    def cancel(self, request: int) -> None:
        """Ends a request, which may have ended already."""
        self._loop.call_soon_threadsafe(self._abort, request)

    def wait(self, seconds: float) -> list[Answer]:
        """What has been answered; waits so long for it, without the GIL."""
        found: list[Answer] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._answers.get(timeout=seconds))
            while True:
                found.append(self._answers.get_nowait())
        return found

    def shutdown(self) -> None:
        """Ends everything."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        end = getattr(self._llm, "shutdown", None)
        if end is not None:
            end()

    def _abort(self, request: int) -> None:
        output = self._live.pop(request, None)
        if output is not None:
            output.abort()

    async def _serve(self, order: Order) -> None:
        client = order["client_id"]
        try:
            output = self._llm.generate_async(
                inputs=order["input_token_ids"],
                sampling_params=self._sampling(order),
                streaming=True,
                cache_salt=None if order["cache_salt_id"] is None else str(order["cache_salt_id"]),
            )
            self._live[client] = output
            async for part in output:
                one = part.outputs[0]
                end = _ENDS.get(one.finish_reason or "", "")
                self._answers.put((client, None, list(one.token_ids_diff), bool(end), end, [], None, None))
        except Exception as e:
            self._answers.put((client, f"{type(e).__name__}: {e}", [], True, "", [], None, None))
        finally:
            self._live.pop(client, None)

    def _sampling(self, order: Order) -> Any:
        lark = order["guide"]
        guide = None if lark is None else self._params.GuidedDecodingParams(grammar=lark)
        return self._params.SamplingParams(
            end_id=order["end_id"],
            max_tokens=order["max_tokens"],
            stop_token_ids=[word[0] for word in order["stop_words"]] or None,
            top_k=order["top_k"],
            top_p=order["top_p"],
            min_p=order["min_p"],
            seed=order["seed"],
            temperature=order["temperature"],
            repetition_penalty=order["repetition_penalty"],
            presence_penalty=order["presence_penalty"],
            frequency_penalty=order["frequency_penalty"],
            guided_decoding=guide,
            n=1,
            detokenize=False,
            add_special_tokens=False,
        )
