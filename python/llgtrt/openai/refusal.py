"""Errors in the form of the API whose page it is."""

from __future__ import annotations

from starlette.responses import Response

from llgtrt.openai import messages_errors as anthropic
from llgtrt.openai import ollama_errors as ollama
from llgtrt.openai.errors import ApiError


def body(error: ApiError, path: str) -> bytes:
    """The JSON body."""
    if ollama.is_own(path):
        return ollama.body(error)
    return anthropic.body(error) if anthropic.is_own(path) else error.body()


def response(error: ApiError, path: str) -> Response:
    """The HTTP response."""
    return Response(body(error, path), error.status, headers=error.headers, media_type="application/json")


def event(error: ApiError, path: str) -> bytes:
    """The event in the middle of a stream."""
    if ollama.is_own(path):
        return ollama.event(error)
    return anthropic.event(error) if anthropic.is_own(path) else error.event()
