"""The OpenAPI document, from the structs of the request bodies and the table of error codes."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from llgtrt import __version__
from llgtrt.openai import errors, inquiry, schema
from llgtrt.openai import messages_errors as anthropic
from llgtrt.openai import ollama_errors as ollama
from llgtrt.openai.decisions import fields as decisions
from llgtrt.openai.messages_schema import CountRequest, MessagesRequest
from llgtrt.openai.ollama_schema import ChatBody, GenerateBody, ShowBody
from llgtrt.openai.responses.fields import ResponsesRequest

Json = dict[str, Any]

PAGES: dict[str, tuple[str, str, type[msgspec.Struct] | None]] = {
    "/v1/chat/completions": ("post", "Answer a conversation.", schema.ChatRequest),
    "/v1/completions": ("post", "Complete a text.", schema.CompletionRequest),
    "/v1/messages": (
        "post",
        "Answer a conversation, in Anthropic's format ([messages.md](messages.md)).",
        MessagesRequest,
    ),
    "/v1/messages/count_tokens": (
        "post",
        "Count the tokens of such a conversation's prompt: `input_tokens`.",
        CountRequest,
    ),
    "/v1/responses": (
        "post",
        "Answer a conversation, and store the answer ([responses.md](responses.md)).",
        ResponsesRequest,
    ),
    "/v1/responses/{response_id}": ("get delete", "Get or delete a stored response.", None),
    "/v1/responses/{response_id}/input_items": ("get", "List the input items of a stored response.", None),
    "/v1/responses/{response_id}/cancel": ("post", "Cancel a response that runs in the background.", None),
    "/v1/systemone": (
        "post",
        "Answer typed questions with probabilities ([decisions.md](decisions.md)).",
        decisions.SystemOneRequest,
    ),
    "/v1/chat/completions/render": (
        "post",
        "Show the prompt of a chat: `prompt`, `prompt_token_ids`, `count`, `max_model_len`.",
        schema.ChatRequest,
    ),
    "/v1/grammar/check": (
        "post",
        "Check a constraint, and whether a text satisfies it ([grammars.md](grammars.md)).",
        inquiry.GrammarRequest,
    ),
    "/api/chat": ("post", "Answer a conversation, in Ollama's format ([ollama.md](ollama.md)).", ChatBody),
    "/api/generate": ("post", "Complete a text, in Ollama's format.", GenerateBody),
    "/api/tags": ("get", "List the model, in Ollama's format.", None),
    "/api/ps": ("get", "List the loaded model, in Ollama's format.", None),
    "/api/show": ("post", "Show details of the model, in Ollama's format.", ShowBody),
    "/api/version": ("get", "The version of Ollama's API that this server has.", None),
    "/tokenize": (
        "post",
        "Tokenize a text or a conversation: `tokens`, `count`, `max_model_len`, `token_strs`.",
        inquiry.TokenizeRequest,
    ),
    "/detokenize": ("post", "Convert token ids to text: `prompt`.", inquiry.DetokenizeRequest),
    "/v1/models": ("get", "List the model under each of its names.", None),
    "/v1/models/{model}": ("get", "Show the model under one of its names.", None),
    "/health": ("get", "The same as `/ready`, but also 200 while the model loads.", None),
    "/ready": (
        "get",
        "200 if the server answers requests now, else 503; the state, and how exact equal output is.",
        None,
    ),
    "/live": ("get", "200 as long as the server process runs, whatever state its engine is in.", None),
    "/v1/health/ready": ("get", "The same as `/ready`; needs no API key.", None),
    "/v1/health/live": ("get", "The same as `/live`; needs no API key.", None),
    "/metrics": ("get", "Metrics, in Prometheus' text format.", None),
}
"""Every page: its methods, what it does, and the struct of its body."""


def guarded(path: str) -> bool:
    """Whether the page needs an API key, if the server has one."""
    if path.startswith("/v1/"):
        return not path.startswith("/v1/health/")
    return path in ("/tokenize", "/detokenize") or ollama.is_own(path)


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "What is wrong, and what to do."},
                "type": {"enum": ["invalid_request_error", "rate_limit_error", "server_error"]},
                "param": {"type": ["string", "null"], "description": "The field that is wrong."},
                "code": {
                    "enum": [*errors.CODES, None],
                    "description": "Machine-readable reason.",
                },
            },
        }
    },
}


_MESSAGES_ERROR = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"enum": [*anthropic.TYPES]}, "message": {"type": "string"}},
        },
    },
}
"""Anthropic's."""


_OLLAMA_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


@functools.cache
def document() -> Json:
    """The OpenAPI 3.1 document."""
    kinds = [kind for _, _, kind in PAGES.values() if kind is not None]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    structs: list[type[msgspec.Struct]] = [
        *kinds,
        schema.Speculative,
        schema.StreamOptions,
        decisions.Question,
    ]
    for kind in structs:
        for name, meta in schema.metas(kind).items():
            # None is how the structs say that nothing was sent, not what holds then.
            told = components[kind.__name__]["properties"][name]
            told.pop("default", None)
            told |= meta.extra_json_schema or {}
    components |= {"Error": _ERROR, "MessagesError": _MESSAGES_ERROR, "OllamaError": _OLLAMA_ERROR}
    return {
        "openapi": "3.1.0",
        "info": {"title": "llgtrt", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": {
            path: {method: _operation(path, method, what, kind) for method in methods.split()}
            for path, (methods, what, kind) in PAGES.items()
        },
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _operation(path: str, method: str, summary: str, kind: type[msgspec.Struct] | None) -> Json:
    wants_key = guarded(path)
    statuses = {status for status, _ in errors.CODES.values()} if kind else {503}
    if wants_key and not kind:
        statuses = {401, 404, 503}
    form = "MessagesError" if anthropic.is_own(path) else "OllamaError" if ollama.is_own(path) else "Error"
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form}"}}}
    answers: Json = {"200": {"description": "The answer.", "content": _content(path, kind)}}
    if path not in ("/live", "/v1/health/live", "/metrics"):
        own = {} if wants_key else {"application/json": {"schema": {"type": "object"}}}
        answers |= {str(s): {"description": _meaning(s), "content": own or error} for s in sorted(statuses)}
    operation: Json = {
        "summary": summary,
        "operationId": path.strip("/").replace("/", "_") + "_delete" * (method == "delete"),
        "responses": answers,
    }
    if wants_key:
        operation["security"] = [{}, {"key": []}, {"x-api-key": []}]
    for name in re.findall(r"{(\w+)}", path):
        parameter = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [parameter]
    if kind is not None:
        reference = {"$ref": f"#/components/schemas/{kind.__name__}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return operation


def _content(path: str, kind: type[msgspec.Struct] | None) -> Json:
    if path == "/metrics":
        return {"text/plain": {"schema": {"type": "string"}}}
    streams = path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", anthropic.PAGE)
    # Without a schema: readers differ in whether it is that of the whole text or of an event.
    stream: Json = {"text/event-stream": {}} if streams else {}
    if path in ("/api/chat", "/api/generate"):
        stream = {"application/x-ndjson": {}}
    return {"application/json": {"schema": {"type": "object"}}, **stream}


def _meaning(status: int) -> str:
    return " ".join(text for own, text in errors.CODES.values() if own == status)
