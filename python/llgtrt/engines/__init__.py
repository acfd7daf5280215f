"""Engines that schedule by themselves: vLLM and TensorRT-LLM's LLM API, for Hugging Face folders.

The core (`rust/src/exec/external`) makes one `Engine` of a module here, hands requests in and waits for
answers. An engine batches, keeps KV, samples and speculates by itself, in processes of its own. Answers
arrive through asyncio, on a thread here, in a queue.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import importlib.util
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any, TypedDict

CONTAINER = "nvcr.io/nvidia/tensorrt-llm/release"
"""Where TensorRT-LLM is installed with all that it needs."""


class Unusable(Exception):
    """The engine is not installed, or cannot do what the settings ask for; the message says what to do."""


class Options(TypedDict):
    """What the core says of a model's engine."""

    draft: str | None
    max_draft_len: int | None
    tensor_parallel_size: int
    draft_tensor_parallel_size: int
    max_batch_size: int
    max_num_tokens: int
    max_seq_len: int
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    memory_fraction: float | None
    kv_cache_bytes: int | None
    grammar: dict[str, Any]
    """The group `grammar` of runtime.json."""
    vllm: dict[str, Any]
    trtllm: dict[str, Any]


class Request(TypedDict):
    """One output, from its prompt to its end."""

    id: int
    prompt: list[int]
    max_tokens: int
    min_tokens: int
    temperature: float
    """0: the likeliest token."""
    top_k: int
    """0: all."""
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int | None
    logit_bias: dict[int, float]
    allowed_token_ids: list[int] | None
    stop_token_ids: list[int]
    """All tokens that end the output, the model's own first."""
    avoided_token_ids: list[int]
    """Tokens that are drawn only where no other one can be."""
    logprobs: int | None
    prompt_logprobs: int | None
    cache_salt: str | None
    priority: int
    """Lower first."""
    grammar: str | None
    """The constraint: a `GrammarSpec` of the core in JSON; for TensorRT-LLM, Lark."""


Logprob = tuple[int, float]
"""A token and its log-probability."""


class Answer(TypedDict):
    """New tokens of a request."""

    id: int
    tokens: list[int]
    logprobs: list[list[Logprob]]
    """For each of the tokens, if asked for: the token itself, then the likeliest ones."""
    prompt_logprobs: list[list[Logprob]]
    """For each token of the prompt after the first, with the first answer, if asked for."""
    finish: str | None
    """`stop` or `length`, with the last answer."""
    error: str | None
    """Why the request failed; nothing follows."""
    cached: int | None
    """Prompt tokens whose KV was reused."""
    drafted: tuple[int, int]
    """Drafted and accepted tokens, with the last answer."""


class Facts(TypedDict):
    """What an opened engine is."""

    name: str
    """As refusals of requests name it."""
    summary: str
    """Name and version."""
    speculates: bool
    """It drafts, and counts that with a request's last answer."""
    lacks: list[str]
    """Features of the core's list that it lacks on this machine, beside those that it lacks everywhere."""


def answer(request: int, tokens: list[int], **more: Any) -> Answer:
    """An answer; what `more` does not name is empty."""
    empty = Answer(
        id=request,
        tokens=tokens,
        logprobs=[],
        prompt_logprobs=[],
        finish=None,
        error=None,
        cached=None,
        drafted=(0, 0),
    )
    return {**empty, **more}  # type: ignore[typeddict-item]


class Broken(Exception):
    """The engine has ended, with all of its requests."""


class Base(abc.ABC):
    """What all engines share: the thread of answers, and the queue that the core reads."""

    def __init__(self) -> None:
        """Starts the thread."""
        self._answers: queue.SimpleQueue[Answer | Broken] = queue.SimpleQueue()
        self._live: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine answers", daemon=True)
        self._thread.start()

    @abc.abstractmethod
    def facts(self) -> Facts:
        """What was opened."""

    @abc.abstractmethod
    def generate(self, request: Request) -> AsyncIterator[Answer]:
        """The answers to a request; closing the iterator ends the request.

        Raises:
            Broken: the engine has ended.
            Exception: the request failed.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the engine's processes."""

    def submit(self, request: Request) -> None:
        """Hands a request in."""
        self._loop.call_soon_threadsafe(self._begin, request)

    def cancel(self, request: int) -> None:
        """Ends a request, which may have ended already."""
        self._loop.call_soon_threadsafe(self._cancel, request)

    def wait(self, seconds: float) -> list[Answer]:
        """What has been answered; waits so long for it, without the GIL.

        Raises:
            Broken: the engine has ended.
        """
        found: list[Answer] = []
        with contextlib.suppress(queue.Empty):
            found.append(_checked(self._answers.get(timeout=seconds)))
            while True:
                found.append(_checked(self._answers.get_nowait()))
        return found

    def shutdown(self) -> None:
        """Ends all requests and the engine."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self.close()
        self._loop.close()

    def _begin(self, request: Request) -> None:
        task = self._loop.create_task(self._serve(request))
        self._live[request["id"]] = task
        task.add_done_callback(lambda _: self._live.pop(request["id"], None))

    def _cancel(self, request: int) -> None:
        task = self._live.pop(request, None)
        if task is not None:
            task.cancel()

    async def _serve(self, request: Request) -> None:
        number = request["id"]
        try:
            async with contextlib.aclosing(self.generate(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    self._answers.put(part)
        except Broken as e:
            self._answers.put(e)
        except Exception as e:
            why = str(e) or type(e).__name__
            self._answers.put(answer(number, [], error=why))


def _checked(found: Answer | Broken) -> Answer:
    if isinstance(found, Broken):
        raise found
    return found


def installed() -> str:
    """The first engine of this environment, of `tensorrt_llm` and `vllm`.

    Raises:
        Unusable: there is none.
    """
    for name in ("tensorrt_llm", "vllm"):
        if importlib.util.find_spec(name):
            return name
    raise Unusable(
        "a Hugging Face folder is served by vLLM or TensorRT-LLM, and neither is installed here; pip "
        f"install 'llgtrt[vllm]' or 'llgtrt[trtllm]', or run in NVIDIA's container {CONTAINER}, or build "
        "a folder for llama.cpp with llgtrt build"
    )
