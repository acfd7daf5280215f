"""Errors as Ollama's API writes them: `{"error": "…"}`."""

from __future__ import annotations

import msgspec

from llgtrt.openai.errors import ApiError
from llgtrt.openai.ollama_schema import SAMPLING

_NAMES = {
    "response_format": "format",
    "max_tokens": "options.num_predict",
    "enable_thinking": "think",
    "reasoning_effort": "think",
    "repetition_penalty": "options.repeat_penalty",
    **{name: f"options.{name}" for name in SAMPLING},
}
"""This API's names of a chat's fields."""


def is_own(path: str) -> bool:
    """Whether a page is one of this API's."""
    return path.startswith("/api/")


def body(error: ApiError) -> bytes:
    """The JSON body, whose message begins with this API's name of the field."""
    message, param = error.message, error.param or ""
    if param in _NAMES:
        message = f"{_NAMES[param]}: {message.removeprefix(f'{param}: ')}"
    return msgspec.json.encode({"error": message})


def event(error: ApiError) -> bytes:
    """The line in the middle of a stream."""
    return body(error) + b"\n"
