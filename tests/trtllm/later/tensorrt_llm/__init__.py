"""A fake of a release of TensorRT-LLM without the Executor: the LLM API, on the weightless model.

Constraints are finite here: a schema with an `enum`, or a Lark grammar whose texts stand in quotes. They are
enforced token by token.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np

from tensorrt_llm import llmapi
from tensorrt_llm.sampling_params import SamplingParams

__version__ = "1.3.0"


def _weightless() -> Any:
    """The other fake's model, by its file: its package has the same name as this one."""
    file = Path(__file__).parents[2] / "fake" / "tensorrt_llm" / "_fake" / "model.py"
    spec = importlib.util.spec_from_file_location("weightless", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["weightless"] = module
    spec.loader.exec_module(module)
    return module


WEIGHTLESS = _weightless()


def _texts(guide: Any) -> list[bytes] | None:
    if guide is None:
        return None
    if guide.json is not None:
        return [json.dumps(value).encode() for value in json.loads(guide.json)["enum"]]
    return [text.encode() for text in re.findall(r'"([^"]*)"', guide.grammar)]


class LLM:
    """Keywords are those of the listed signatures; the model is in the folder's weights file."""

    def __init__(self, model: str, tokenizer: Any = None, **options: Any) -> None:
        unknown = set(options) - llmapi.ARGUMENTS
        assert not unknown, unknown
        assert options["guided_decoding_backend"] == "llguidance"
        self.model = WEIGHTLESS.Model.of(Path(model) / "model.safetensors")
        self.seen = os.environ.get("FAKE_LLM_SEEN")
        self._note({"options": {k: getattr(v, "__dict__", v) for k, v in options.items()}})

    def _note(self, what: dict[str, Any]) -> None:
        if self.seen:
            with Path(self.seen).open("a") as file:
                file.write(json.dumps(what) + "\n")

    def generate_async(
        self,
        inputs: list[int],
        sampling_params: SamplingParams | None = None,
        lora_request: Any = None,
        prompt_adapter_request: Any = None,
        streaming: bool = False,
        kv_cache_retention_config: Any = None,
        disaggregated_params: Any = None,
        _postproc_params: Any = None,
        scheduling_params: Any = None,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        assert streaming
        assert sampling_params is not None
        self._note({"sampling": {k: v for k, v in vars(sampling_params).items() if k != "guided_decoding"}})
        if inputs[:4] == list(b"FAIL"):
            raise ValueError("the prompt was refused")
        return RequestOutput(self.model, list(inputs), sampling_params)

    def shutdown(self) -> None:
        self._note({"shutdown": True})


class RequestOutput:
    """One answer, as it grows."""

    def __init__(self, model: Any, tokens: list[int], params: SamplingParams) -> None:
        self._model, self._tokens, self._params = model, tokens, params
        self._prompt, self._sent, self._aborted = len(tokens), 0, False
        self._hashes = [model.seed]
        self.outputs = [self]
        self.finish_reason: str | None = None
        self.index = 0

    @property
    def token_ids_diff(self) -> list[int]:
        return self._tokens[self._prompt + self._sent :]

    def abort(self) -> None:
        self._aborted = True

    async def __aiter__(self) -> AsyncIterator[RequestOutput]:
        while self.finish_reason is None:
            self._sent = len(self._tokens) - self._prompt
            self._step()
            yield self
            await asyncio.sleep(0.001)

    def _step(self) -> None:
        params = self._params
        if self._aborted:
            self.finish_reason = "cancelled"
            return
        self._model.extend(self._hashes, self._tokens[len(self._hashes) - 1 :])
        row = self._model.logits(self._hashes[-1:])[0].astype(np.float64)
        row[[token for token in range(len(row)) if not self._allowed(token)]] = -np.inf
        token = int(np.argmax(row))
        if params.top_k != 1:
            noise = np.random.default_rng([params.seed or 0, len(self._tokens)]).gumbel(size=len(row))
            token = int(np.argmax(row / (params.temperature or 1.0) + noise))
        if token == params.end_id or token in (params.stop_token_ids or []):
            self.finish_reason = "stop"
            return
        self._tokens.append(token)
        if len(self._tokens) - self._prompt >= params.max_tokens:
            self.finish_reason = "length"

    def _allowed(self, token: int) -> bool:
        ends = {self._params.end_id, *(self._params.stop_token_ids or [])}
        generated = len(self._tokens) - self._prompt
        if token in ends and generated < (self._params.min_tokens or 0):
            return False
        texts = _texts(self._params.guided_decoding)
        if texts is None:
            return True
        so_far = b"".join(_bytes(t) for t in self._tokens[self._prompt :])
        if token in ends:
            return so_far in texts
        piece = _bytes(token)
        return bool(piece) and any(text.startswith(so_far + piece) for text in texts)


def _bytes(token: int) -> bytes:
    if token < 256:
        return bytes([token])
    pieces: tuple[str, ...] = WEIGHTLESS.PIECES
    return pieces[token - 256].encode() if token - 256 < len(pieces) else b""
