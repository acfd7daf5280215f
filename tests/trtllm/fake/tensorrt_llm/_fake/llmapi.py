"""Configurations and results of the LLM API."""

from __future__ import annotations

import asyncio
import dataclasses
import queue
import time
from collections.abc import Callable, Generator
from typing import Any, ClassVar

_POLL = 0.001
"""Seconds between looks for the next part of an answer."""


class RequestError(RuntimeError):
    """A request failed."""


@dataclasses.dataclass(kw_only=True)
class DecodingBaseConfig:
    max_draft_len: int | None = None
    max_total_draft_tokens: int | None = None
    speculative_model: Any = None
    max_concurrency: int | None = None
    draft_len_schedule: dict[int, int] | None = None
    load_format: str | None = None
    acceptance_window: int | None = None
    acceptance_length_threshold: float | None = None
    allow_advanced_sampling: bool = False


@dataclasses.dataclass(kw_only=True)
class DraftTargetDecodingConfig(DecodingBaseConfig):
    decoding_type: ClassVar[str] = "Draft_Target"
    speculative_model_dir: dataclasses.InitVar[Any] = None
    """The older name, which is accepted by every release."""

    def __post_init__(self, speculative_model_dir: Any) -> None:
        self.speculative_model = self.speculative_model or speculative_model_dir
        if not self.max_draft_len or self.max_draft_len < 0 or self.speculative_model is None:
            raise ValueError("Draft_Target needs max_draft_len > 0 and a speculative model")
        self.max_total_draft_tokens = self.max_draft_len


@dataclasses.dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclasses.dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] | None = dataclasses.field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Any]] | None = dataclasses.field(default_factory=list)
    prompt_logprobs: list[dict[int, Any]] | None = dataclasses.field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    generation_logits: Any = None
    disaggregated_params: Any = None
    _seen: tuple[int, int, int] = (0, 0, 0)
    """Tokens, log-probabilities and characters before the last part."""

    @property
    def length(self) -> int:
        return len(self.token_ids or [])

    @property
    def token_ids_diff(self) -> list[int]:
        return (self.token_ids or [])[self._seen[0] :]

    @property
    def logprobs_diff(self) -> list[dict[int, Any]]:
        return (self.logprobs or [])[self._seen[1] :]

    @property
    def text_diff(self) -> str:
        return self.text[self._seen[2] :]

    def mark(self) -> None:
        """What is there now is not new any more."""
        self._seen = (self.length, len(self.logprobs or []), len(self.text))


@dataclasses.dataclass
class Part:
    """What the engine says of a request at once."""

    tokens: list[int]
    logprobs: list[dict[int, Logprob]] = dataclasses.field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    error: str | None = None

    @property
    def is_last(self) -> bool:
        return self.finish_reason is not None or self.error is not None


class RequestOutput:
    """An answer: awaited whole, or iterated part by part."""

    def __init__(self, request_id: int, prompt: list[int], abort: Callable[[], None]) -> None:
        self.request_id, self.prompt_token_ids, self.prompt = request_id, prompt, None
        self.outputs = [CompletionOutput(0)]
        self.context_logits, self.decoding_iter, self.finished = None, 0, False
        self._abort, self._parts, self._aborted = abort, queue.SimpleQueue[Part](), False

    def put(self, part: Part) -> None:
        """The engine's part."""
        self._parts.put(part)

    def abort(self) -> None:
        self._aborted = True
        self._abort()

    def aborted(self) -> bool:
        return self._aborted

    def _take(self, part: Part) -> None:
        output = self.outputs[0]
        output.mark()
        self.decoding_iter += 1
        if part.error is not None:
            self.finished = True
            raise RequestError(part.error)
        output.token_ids = [*(output.token_ids or []), *part.tokens]
        output.logprobs = [*(output.logprobs or []), *part.logprobs]
        output.text += part.text
        output.finish_reason, output.stop_reason = part.finish_reason, part.stop_reason
        self.finished = part.is_last

    def result(self, timeout: float | None = None) -> RequestOutput:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.finished:
            try:
                self._take(self._parts.get(timeout=None if end is None else max(0.0, end - time.monotonic())))
            except queue.Empty as e:
                raise TimeoutError("the answer is not there yet") from e
        return self

    async def aresult(self) -> RequestOutput:
        while not self.finished:
            await self._next()
        return self

    def __await__(self) -> Generator[Any, None, RequestOutput]:
        return self.aresult().__await__()

    def __aiter__(self) -> RequestOutput:
        return self

    async def __anext__(self) -> RequestOutput:
        if self.finished:
            raise StopAsyncIteration
        await self._next()
        return self

    async def _next(self) -> None:
        while self._parts.empty():
            await asyncio.sleep(_POLL)
        self._take(self._parts.get())
