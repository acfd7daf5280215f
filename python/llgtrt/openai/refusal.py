"""Errors in the form of the API whose page it is."""

from __future__ import annotations

from types import ModuleType

from starlette.responses import Response

from llgtrt.openai import messages_errors as anthropic
from llgtrt.openai import ollama_errors as ollama
from llgtrt.openai.errors import ApiError


def body(error: ApiError, path: str) -> bytes:
    """The JSON body."""
    form = _form(path)
    return error.body() if form is None else form.body(error)


def response(error: ApiError, path: str) -> Response:
    """The HTTP response."""
    return Response(body(error, path), error.status, headers=error.headers, media_type="application/json")


def event(error: ApiError, path: str) -> bytes:
    """The event in the middle of a stream."""
    form = _form(path)
    return error.event() if form is None else form.event(error)


def _form(path: str) -> ModuleType | None:
    """The module with the form of this page's errors; None for OpenAI's pages."""
    return next((form for form in (anthropic, ollama) if form.is_own(path)), None)
