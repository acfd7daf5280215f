"""Ollama's bodies as chats and completions of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from llgtrt.openai import ollama_schema as fields
from llgtrt.openai import response_formats
from llgtrt.openai import schema as openai
from llgtrt.openai.errors import invalid
from llgtrt.openai.functions import FunctionCall, ToolCall


def model(name: str | None, known: Sequence[str]) -> str | None:
    """A model's name without the tag that clients add."""
    plain = name.removesuffix(":latest") if name is not None else None
    return plain if name not in known else name


def chat(body: fields.ChatBody, known: Sequence[str]) -> openai.ChatRequest:
    """The chat that says the same; `known`: names of the model.

    Raises:
        ApiError: a field asks for what is not supported.
    """
    return _chat(body, _messages(body.messages or ()), known, tools=body.tools)


def generated(body: fields.GenerateBody, known: Sequence[str]) -> openai.ChatRequest:
    """The chat with one user message, for a prompt that uses the chat template.

    Raises:
        ApiError: as `chat` does.
    """
    system = [openai.Message("system", body.system)] if body.system else []
    return _chat(body, [*system, openai.Message("user", body.prompt or "")], known)


def completed(body: fields.GenerateBody, known: Sequence[str]) -> openai.CompletionRequest:
    """The completion of a prompt without the chat template.

    Raises:
        ApiError: as `chat` does.
    """
    for name in "system", "think":
        if getattr(body, name):
            message = f"{name}: needs the chat template; leave raw and suffix out"
            raise invalid(name, message, "unsupported_parameter")
    suffix = body.suffix or None
    return openai.CompletionRequest(
        prompt=body.prompt, suffix=suffix, model=model(body.model, known), **_shared(body)
    )


def _chat(
    body: fields.ChatBody | fields.GenerateBody,
    messages: list[openai.Message],
    known: Sequence[str],
    **more: Any,
) -> openai.ChatRequest:
    thinks: dict[str, Any] = {}
    if isinstance(body.think, str):
        thinks = {"reasoning_effort": _effort(body.think)}
    elif body.think is not None:
        thinks = {"enable_thinking": body.think}
    name = model(body.model, known)
    return openai.ChatRequest(messages=messages, model=name, **_shared(body), **thinks, **more)


def _effort(think: str) -> str:
    if think not in ("low", "medium", "high"):
        raise invalid("think", "think: must be true, false, low, medium or high")
    return think


def _shared(body: fields.ChatBody | fields.GenerateBody) -> dict[str, Any]:
    """What chats and completions have in common."""
    options = body.options or fields.Options()
    for name, neutral in fields.Options.refused.items():
        value = getattr(options, name)
        if value is not None and value not in neutral:
            at = f"options.{name}"
            raise invalid(at, f"{at}: this value is not supported; leave it out", "unsupported_parameter")
    said = {name: getattr(options, name) for name in fields.SAMPLING}
    most = options.num_predict
    return {
        **{name: value for name, value in said.items() if value is not None},
        "max_tokens": None if most is None or most < 0 else most,
        "stream": body.stream is not False,
        "response_format": _format(bytes(body.format)),
    }


def _format(wanted: bytes) -> response_formats.JsonObjectFormat | response_formats.JsonSchemaFormat | None:
    if wanted in (b"", b"null", b'""'):
        return None
    if wanted == b'"json"':
        return response_formats.JsonObjectFormat()
    if not wanted.startswith(b"{"):
        raise invalid("format", 'format: must be "json" or a JSON schema')
    return response_formats.JsonSchemaFormat(response_formats.JsonSchema(msgspec.Raw(wanted)))


def _messages(messages: Sequence[fields.Message]) -> list[openai.Message]:
    """The messages. Results have no ids in this API: they belong to the calls before them, in order."""
    made: list[openai.Message] = []
    open_calls: list[ToolCall] = []
    for i, message in enumerate(messages):
        if message.images:
            at = f"messages[{i}].images"
            raise invalid(at, f"{at}: not supported, only text is", "unsupported_parameter")
        own = openai.Message(message.role, message.content)
        own.reasoning_content = message.thinking or None
        if message.tool_calls:
            open_calls = [
                ToolCall(FunctionCall(call.function.name, json.dumps(call.function.arguments)), call.id or "")
                for call in message.tool_calls
            ]
            for number, call in enumerate(open_calls):
                call.id = call.id or f"call_{i}_{number}"
            own.tool_calls = list(open_calls)
        if message.role == "tool":
            call_of = _answered(message, open_calls)
            own.name = message.tool_name or (call_of.name if call_of else None)
            own.tool_call_id = call_of.id if call_of else message.tool_call_id
        made.append(own)
    return made


def _answered(message: fields.Message, open_calls: list[ToolCall]) -> ToolCall | None:
    """The call that a result answers, which is then no longer open."""
    for call in open_calls:
        named = message.tool_name in (None, call.name)
        if message.tool_call_id in (None, call.id) and named:
            open_calls.remove(call)
            return call
    return None
