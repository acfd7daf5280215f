"""Executors for tests of the fake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorrt_llm._fake.folders import Folder
from tensorrt_llm._fake.model import WIDTH, Model
from tensorrt_llm.bindings import executor as trt

PROMPT = list(b"A prompt, somewhat longer than one of the blocks that the cache is made of.")


class Live:
    """A running executor, and the model behind it."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.model = Model.of(folder / "rank0.engine")
        wanted = {"normalize_log_probs": False, **config}
        self.executor = trt.Executor(str(folder), trt.ModelType.DECODER_ONLY, trt.ExecutorConfig(**wanted))

    def enqueue(self, tokens: list[int] | None = None, max_tokens: int = 8, **fields: Any) -> int:
        """Hands a request in; `sampling` and `output` are those configurations' fields, `draft` a draft's."""
        for name, kind, default in (
            ("sampling", trt.SamplingConfig, {}),
            ("output", trt.OutputConfig, {"exclude_input_from_output": True, "return_perf_metrics": True}),
        ):
            fields[f"{name}_config"] = kind(**{**default, **fields.pop(name, {})})
        if "draft" in fields:
            draft = fields.pop("draft")
            draft = draft if isinstance(draft, dict) else {"tokens": draft}
            fields["external_draft_tokens_config"] = trt.ExternalDraftTokensConfig(**draft)
        return self.executor.enqueue_request(trt.Request(tokens or PROMPT, max_tokens, **fields))

    def all_of(self, number: int) -> list[trt.Response]:
        """Every response to a request."""
        found: list[trt.Response] = []
        while not found or not (found[-1].has_error() or found[-1].result.is_final):
            found += self.executor.await_responses(id=number, timeout=30.0)
        return found

    def last(self, number: int) -> trt.Result:
        """The last result of a request."""
        return self.all_of(number)[-1].result

    def ask(self, *given: Any, **fields: Any) -> trt.Result:
        return self.last(self.enqueue(*given, **fields))

    def error(self, *given: Any, **fields: Any) -> str:
        return self.all_of(self.enqueue(*given, **fields))[-1].error_msg

    def greedy(self, count: int, tokens: list[int] | None = None) -> list[int]:
        """What the model says, without an executor."""
        text, hashes, found = list(tokens or PROMPT), [self.model.seed], list[int]()
        for _ in range(count):
            self.model.extend(hashes, text[len(hashes) - 1 :])
            found.append(int(self.model.logits(hashes[-1:])[0].argmax()))
            text.append(found[-1])
        return found


@contextlib.contextmanager
def running(path: Path, folder: Folder | None = None, **config: Any) -> Iterator[Live]:
    """An executor on a folder of its own."""
    live = Live((folder or Folder()).write(path / "engine"), **config)
    try:
        yield live
    finally:
        live.executor.shutdown()


def tokens_of(result: trt.Result) -> list[int]:
    return result.output_token_ids[0]


def reason_of(result: trt.Result) -> str:
    return result.finish_reasons[0].name


def never(*tokens: int) -> dict[str, Any]:
    """Fields that keep tokens out of an answer."""
    return {"bad_words": [[token] for token in tokens]}


__all__ = ["PROMPT", "WIDTH", "Folder", "Live", "never", "reason_of", "running", "tokens_of", "trt"]
