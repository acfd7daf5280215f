"""Errors as Anthropic's API writes them: `{"type": "error", "error": {"type", "message"}}`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from llgtrt.openai.errors import ApiError

PAGE = "/v1/messages"

_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""By HTTP status; of the others: `_OTHER`."""
_OTHER = "invalid_request_error"

TYPES = (_OTHER, *_TYPES.values())
"""All types of errors."""

_NAMES = {
    "stop": "stop_sequences",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
    "enable_thinking": "thinking",
    "thinking_budget": "thinking.budget_tokens",
    "tool_choice.function.name": "tool_choice.name",
}
"""This API's names of what a chat names otherwise."""

_DETAILS = {"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}}
"""More of a field: told this, the SDK sends the whole conversation, on that turn and all that follow."""

_FUNCTION = re.compile(r"(tools\[\d+\])\.function\.(name|parameters)")
_MEMBERS = {"name": "name", "parameters": "input_schema"}


def is_own(path: str) -> bool:
    """Whether a page is one of this API's."""
    return path == PAGE or path.startswith(f"{PAGE}/")


def _renamed(param: str) -> str:
    found = _FUNCTION.fullmatch(param)
    return f"{found[1]}.{_MEMBERS[found[2]]}" if found else _NAMES.get(param, param)


def body(error: ApiError) -> bytes:
    """The JSON body, whose message begins with this API's name of the field."""
    message = error.message
    if error.param:
        message = f"{_renamed(error.param)}: {message.removeprefix(f'{error.param}: ')}"
    told: dict[str, Any] = {"type": _TYPES.get(error.status, _OTHER), "message": message}
    if error.param in _DETAILS:
        told["details"] = _DETAILS[error.param]
    return msgspec.json.encode({"type": "error", "error": told})


def event(error: ApiError) -> bytes:
    """The same in the middle of a stream."""
    return b"event: error\ndata: " + body(error) + b"\n\n"
