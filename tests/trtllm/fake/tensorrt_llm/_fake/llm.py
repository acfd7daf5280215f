"""The LLM API: one process, one model from a folder in Hugging Face's layout, answers as they come."""

from __future__ import annotations

import dataclasses
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
from tensorrt_llm._fake.configs import ExecutorConfig, LogitsPostProcessorConfig
from tensorrt_llm._fake.device import host
from tensorrt_llm._fake.engine import Engine
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.faults import Faults
from tensorrt_llm._fake.group import Group
from tensorrt_llm._fake.guidance import Guide
from tensorrt_llm._fake.llmapi import DraftTargetDecodingConfig, Logprob, Part, RequestOutput
from tensorrt_llm._fake.mailbox import Mailbox
from tensorrt_llm._fake.model import END, PIECES, WIDTH, Model
from tensorrt_llm._fake.requests import OutputConfig, Request, SamplingConfig
from tensorrt_llm._fake.results import Response
from tensorrt_llm._fake.sampling_params import SamplingParams
from tensorrt_llm._fake.worker import Worker

ARGUMENTS = {
    "max_batch_size": 2048,
    "max_input_len": 1024,
    "max_seq_len": None,
    "max_num_tokens": 8192,
    "max_beam_width": 1,
    "guided_decoding_backend": None,
    "speculative_config": None,
    "kv_cache_config": None,
    "scheduler_config": None,
    "enable_chunked_prefill": False,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "context_parallel_size": 1,
    "iter_stats_max_iterations": None,
    "dtype": "auto",
    "load_format": "auto",
    "backend": None,
    "revision": None,
    "tokenizer_revision": None,
    "gather_generation_logits": False,
    "return_perf_metrics": False,
}
"""Keyword arguments of the constructor that the fake takes, with their defaults."""
_PASSED = (
    "top_k",
    "top_p",
    "seed",
    "temperature",
    "min_tokens",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
"""Of `SamplingParams`, by the names of `SamplingConfig`."""
_REASONS = {
    FinishReason.END_ID: "stop",
    FinishReason.STOP_WORDS: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TIMED_OUT: "timeout",
    FinishReason.CANCELLED: "cancelled",
}


@dataclasses.dataclass
class _Asked:
    """A request that runs."""

    output: RequestOutput
    params: SamplingParams
    streaming: bool
    guide: Guide | None
    text: list[int]
    rows: list[Any] = dataclasses.field(default_factory=list)
    """Logits before any mask, one row for each token."""
    held: Part = dataclasses.field(default_factory=lambda: Part([]))
    """Tokens of a round of speculation that goes on."""

    def process(self, _: int, logits: Any, tokens: list[list[int]], __: int, ___: int | None) -> None:
        """The engine's own part of a step: what is kept of the logits, and the constraint."""
        answer = tokens[0][len(self.output.prompt_token_ids) :]
        row = host(logits)[-1, 0, :WIDTH]
        self.rows[len(answer) :] = [row.copy()]
        if self.guide is not None:
            row[~self.guide.allowed(answer)] = -np.inf


class LLM:
    """As `tensorrt_llm.LLM`."""

    def __init__(self, model: Any, tokenizer: Any | None = None, **kwargs: Any) -> None:
        unknown = kwargs.keys() - ARGUMENTS.keys()
        if unknown:
            raise ValueError(f"{min(unknown)}: Extra inputs are not permitted")
        self.args = {**ARGUMENTS, **kwargs}
        self._folder = Path(model)
        if self.args["tensor_parallel_size"] * self.args["pipeline_parallel_size"] != 1:
            raise NotImplementedError("the fake's LLM has one rank")
        if self.args["guided_decoding_backend"] not in (None, "llguidance"):
            raise NotImplementedError("the fake has llguidance alone")
        config: DraftTargetDecodingConfig | None = self.args["speculative_config"]
        self._draft = Model.of(Path(config.speculative_model) / "toy.json") if config else None
        self._draft_len = (config.max_draft_len or 0) if config else 0
        self._mailbox, self._asked, self._next = Mailbox(), dict[int, _Asked](), 1
        config_ = ExecutorConfig(
            enable_chunked_context=self.args["enable_chunked_prefill"],
            logits_post_processor_config=LogitsPostProcessorConfig(),
        )
        self._engine = self._made()
        self._work = Worker(self._engine, config_, Group(), self._mailbox, None)
        self._thread = threading.Thread(target=self._dispatch, name="llm", daemon=True)
        self._thread.start()

    def _made(self) -> Engine:
        file = self._folder / "toy.json"
        length = self.args["max_seq_len"] or 4096
        return Engine(
            model=Model.of(file),
            faults=Faults.of(file),
            world=1,
            padded=WIDTH,
            half=False,
            batch=self.args["max_batch_size"],
            step_tokens=self.args["max_num_tokens"],
            input_len=length,
            seq_len=length,
            draft_len=0,
            external=False,
            gathers=False,
            paged_context=True,
            block=32,
        )

    def generate_async(
        self,
        inputs: Any,
        sampling_params: SamplingParams | None = None,
        lora_request: Any | None = None,
        prompt_adapter_request: Any | None = None,
        streaming: bool = False,
        kv_cache_retention_config: Any | None = None,
        disaggregated_params: Any | None = None,
        _postproc_params: Any | None = None,
        scheduling_params: Any | None = None,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        """Hands a request in.

        Raises:
            ValueError: it cannot be served.
        """
        params = sampling_params or SamplingParams()
        prompt = _prompt(inputs)
        guide = None
        if params.guided_decoding is not None:
            if self.args["guided_decoding_backend"] is None:
                raise ValueError("guided decoding needs guided_decoding_backend")
            guide = Guide(self._folder / "tokenizer.json", params.guided_decoding)
        if len(prompt) >= self._engine.seq_len:
            raise ValueError(f"The prompt length {len(prompt)} should be less than {self._engine.seq_len}")
        with self._mailbox.changed:
            number = self._next
            self._next += 1
            output = RequestOutput(number, prompt, lambda: self._cancel(number))
            asked = _Asked(output, params, streaming, guide, list(prompt))
            self._asked[number] = asked
            self._work.enqueue([(number, _request(prompt, params, asked, cache_salt))])
            self._mailbox.changed.notify_all()
        return output

    def _cancel(self, number: int) -> None:
        with self._mailbox.changed:
            self._work.cancel(number)
            self._mailbox.changed.notify_all()

    def generate(self, inputs: Any, sampling_params: SamplingParams | None = None) -> Any:
        """Answers, once they are whole: one, or a list for a list of prompts."""
        several = isinstance(inputs, list) and not all(isinstance(item, int) for item in inputs)
        found = [self.generate_async(one, sampling_params) for one in (inputs if several else [inputs])]
        whole = [output.result() for output in found]
        return whole if several else whole[0]

    def shutdown(self) -> None:
        self._work.stop()
        self._thread.join()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _dispatch(self) -> None:
        """Hands out what the engine says, until it is closed."""
        while not self._mailbox.closed or self._mailbox.count(None):
            try:
                responses = self._mailbox.all(None)
            except RuntimeError as e:
                for asked in self._asked.values():
                    asked.output.put(Part([], error=str(e)))
                return
            for response in responses:
                self._hear(response)

    def _hear(self, response: Response) -> None:
        asked = self._asked.get(response.request_id)
        if asked is None:
            return
        if response.has_error():
            asked.held.error = response.error_msg
        else:
            self._read(asked, response)
        if asked.held.is_last or (asked.streaming and not self._goes_on(asked)):
            asked.output.put(asked.held)
            last, asked.held = asked.held.is_last, Part([])
            if last:
                del self._asked[response.request_id]

    def _read(self, asked: _Asked, response: Response) -> None:
        result, part = response.result, asked.held
        (tokens,), reason = result.output_token_ids, result.finish_reasons[0]
        if reason is FinishReason.END_ID:
            tokens = [*tokens, asked.params.end_id or END[0]]  # the PyTorch backend keeps it
        for token in tokens:
            position = len(asked.text) - len(asked.output.prompt_token_ids)
            if asked.params.logprobs is not None:
                part.logprobs.append(_logprobs(asked.rows[position], token, asked.params.logprobs))
            asked.text.append(token)
        if reason is FinishReason.STOP_WORDS:
            part.stop_reason = tokens[-1]
            if not asked.params.include_stop_str_in_output:
                tokens = tokens[:-1]
        part.tokens += tokens
        if asked.params.detokenize:
            part.text += _text(tokens)
        part.finish_reason = _REASONS.get(reason)

    def _goes_on(self, asked: _Asked) -> bool:
        """Whether the last token was drafted, so that it comes with the next one."""
        if self._draft is None or len(asked.held.tokens) > self._draft_len:
            return False
        hashes = [self._draft.seed]
        self._draft.extend(hashes, asked.text[:-1])
        return int(self._draft.logits(hashes[-1:])[0].argmax()) == asked.text[-1]


def _prompt(inputs: Any) -> list[int]:
    if isinstance(inputs, dict):
        inputs = inputs.get("prompt_token_ids", inputs.get("prompt"))
    if not isinstance(inputs, str):
        return list(inputs)
    known = "|".join(map(re.escape, PIECES))
    parts = re.split(f"({known})", inputs)
    return [t for p in parts for t in ([256 + PIECES.index(p)] if p in PIECES else p.encode())]


def _text(tokens: list[int]) -> str:
    words = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in PIECES]
    return b"".join(words[token] for token in tokens if token < len(words)).decode(errors="replace")


def _request(prompt: list[int], params: SamplingParams, asked: _Asked, salt: str | None) -> Request:
    return Request(
        prompt,
        params.max_tokens,
        streaming=True,
        sampling_config=SamplingConfig(**{name: getattr(params, name) for name in _PASSED}),
        output_config=OutputConfig(exclude_input_from_output=True),
        end_id=None if params.ignore_eos else END[0] if params.end_id is None else params.end_id,
        stop_words=[[token] for token in params.stop_token_ids or []] + _stops(params.stop),
        bad_words=[[token] for token in params.bad_token_ids or []] or None,
        logits_post_processor=asked.process,
        cache_salt_id=None if salt is None else hash(salt) & 0xFFFF_FFFF,
    )


def _stops(stop: Any) -> list[list[int]]:
    return [_prompt(text) for text in ([stop] if isinstance(stop, str) else stop or [])]


def _logprobs(row: Any, token: int, count: int) -> dict[int, Logprob]:
    """Those of the likeliest tokens and of the drawn one."""
    scores = row.astype(np.float64) - np.logaddexp.reduce(row.astype(np.float64))
    order = np.argsort(-scores, kind="stable")
    ranks = {int(t): i + 1 for i, t in enumerate(order)}
    return {t: Logprob(float(scores[t]), ranks[t]) for t in [*map(int, order[:count]), token]}
