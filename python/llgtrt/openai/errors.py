"""Errors as OpenAI's API writes them: `{"error": {"message", "type", "param", "code"}}`, mid-stream too."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from llgtrt import _core
from llgtrt.engine import DeadlineError

RETRY = {"retry-after": "1"}

_FUNCTION = re.compile(
    r"/(tools|functions)/(\d+)/(function/parameters|custom/format|parameters)(.*)", re.DOTALL
)
"""The pointer to a place in the schema of a function's arguments."""


CODES = {
    "invalid_json": (400, "The body is not JSON."),
    "invalid_utf8": (400, "The body is not UTF-8."),
    "invalid_http": (400, "The request is not HTTP."),
    "invalid_encoding": (400, "The body is not what its `content-encoding` says."),
    "context_length_exceeded": (400, "Prompt and output are longer than the context."),
    "unsupported_parameter": (400, "A field or value that would change the answer and is not supported."),
    "unknown_parameter": (400, "An unknown field, if `server.unknown_fields` is `refuse`."),
    "unsupported_grammar": (
        400,
        "The constraint cannot be enforced; the message names the keyword and its pointer.",
    ),
    "grammar_too_complex": (400, "Compiling the constraint takes more time or steps than allowed."),
    "timeout": (408, "The body did not arrive in time."),
    "request_too_large": (413, "The body is larger than `server.max_body_bytes`, decompressed or not."),
    "unsupported_encoding": (415, "The body is compressed with something other than gzip or deflate."),
    "invalid_api_key": (401, "No key, or a wrong one."),
    "model_not_found": (404, "The server has no model of this name."),
    "response_not_found": (404, "No response with this id is stored for this key."),
    "previous_response_not_found": (
        404,
        "The response of `previous_response_id`, or one before it, is not stored for this key.",
    ),
    "item_not_found": (404, "No item with this id is stored for this key."),
    "not_found": (404, "There is no such page."),
    "method_not_allowed": (405, "The page does not support this method."),
    "overloaded": (429, "The queue is full; try again after `retry-after`."),
    "engine_error": (500, "The engine failed; you may send the request again."),
    "internal_error": (500, "The server failed; the log says why."),
    "loading": (503, "The model is loading."),
    "shutting_down": (503, "The server is shutting down."),
    "unavailable": (503, "The engine is restarting, or has failed."),
    "request_timeout": (504, "The request took longer than `server.request_timeout`."),
}
"""Codes of errors: their HTTP status, and what they mean. Errors of a field without a code are a 400, too."""


class ApiError(Exception):
    """An error for the client; its status follows from its code."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = CODES[code][0] if code is not None else 400
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def type(self) -> str:
        """OpenAI's name for whose error it is."""
        if self.status == 429:
            return "rate_limit_error"
        return "server_error" if self.status >= 500 else "invalid_request_error"

    def body(self) -> bytes:
        """The JSON body."""
        fields = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": fields})

    def event(self) -> bytes:
        """The same in the middle of a stream."""
        return b"data: " + self.body() + b"\n\n"


def invalid(param: str | None, message: str, code: str | None = None) -> ApiError:
    """The request is wrong: 400, but for codes that say another status."""
    return ApiError(message, param, code)


def unavailable(message: str, code: str = "unavailable") -> ApiError:
    """Not now, but perhaps soon: 503."""
    return ApiError(message, code=code, headers=RETRY)


def from_core(error: _core.CoreError, renamed: Mapping[str, str] | None = None) -> ApiError:
    """A core error in HTTP; `renamed`: the client's names for the core's fields, where they differ."""
    if isinstance(error, _core.InvalidRequest):
        what = error.what.removeprefix("sampling.")
        param = (renamed or {}).get(what, what)
        return ApiError(f"{param}: {error.why}", param, error.code)
    if isinstance(error, _core.GrammarError):
        found = _FUNCTION.match(error.pointer)
        if found:
            param, pointer = f"{found[1]}[{found[2]}].{found[3].replace('/', '.')}", found[4]
            place = f"{error.keyword} at {pointer or 'its root'}"
            return ApiError(f"{param}: {place}: {error.why}", param, "unsupported_grammar")
        place = f" at {error.pointer}" if error.pointer else ""
        own = (renamed or {}).get("grammar", "response_format")
        field = "tools" if error.keyword == "tools" else own
        return ApiError(f"{error.keyword}{place}: {error.why}", field, "unsupported_grammar")
    if isinstance(error, _core.NotFound):
        return ApiError(str(error), code="not_found")
    if isinstance(error, _core.Overloaded):
        return ApiError(str(error), code="overloaded", headers=RETRY)
    if isinstance(error, _core.EngineClosed):
        return unavailable(str(error))
    if isinstance(error, DeadlineError):
        return ApiError(str(error), code="request_timeout")
    return ApiError(str(error), code="engine_error")


def internal() -> ApiError:
    """A fault of the server's own; the log has what happened."""
    return ApiError("the server failed on this request; its log says why", code="internal_error")
