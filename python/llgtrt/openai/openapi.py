"""The OpenAPI document and `docs/api.md`, from the structs, the tables of fields and that of error codes.

`python -m llgtrt.openai.openapi` writes the page to stdout.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import msgspec

from llgtrt import __version__
from llgtrt.openai import body, errors, inquiry, schema
from llgtrt.openai import messages_errors as anthropic
from llgtrt.openai import ollama_errors as ollama
from llgtrt.openai.decisions import fields as decisions
from llgtrt.openai.messages_schema import CountRequest, MessagesRequest
from llgtrt.openai.ollama_schema import ChatBody, GenerateBody, ShowBody
from llgtrt.openai.responses.fields import ResponsesRequest

Json = dict[str, Any]

PAGES: dict[str, tuple[str, str, type[msgspec.Struct] | None]] = {
    "/v1/chat/completions": ("post", "Answers a conversation.", schema.ChatRequest),
    "/v1/completions": ("post", "Completes texts.", schema.CompletionRequest),
    "/v1/messages": (
        "post",
        "Answers a conversation in Anthropic's form ([messages.md](messages.md)).",
        MessagesRequest,
    ),
    "/v1/messages/count_tokens": (
        "post",
        "The tokens of such a conversation's prompt, in `input_tokens`.",
        CountRequest,
    ),
    "/v1/responses": (
        "post",
        "Answers a conversation, and keeps the answer ([responses.md](responses.md)).",
        ResponsesRequest,
    ),
    "/v1/responses/{response_id}": ("get delete", "A response that is kept; or it is forgotten.", None),
    "/v1/responses/{response_id}/input_items": ("get", "The items of its own input.", None),
    "/v1/responses/{response_id}/cancel": ("post", "Ends a response in the background.", None),
    "/v1/systemone": (
        "post",
        "Answers typed questions with probabilities ([decisions.md](decisions.md)).",
        decisions.SystemOneRequest,
    ),
    "/v1/chat/completions/render": (
        "post",
        "The prompt that such a chat has: `prompt`, `prompt_token_ids`, `count`, `max_model_len`.",
        schema.ChatRequest,
    ),
    "/v1/grammar/check": (
        "post",
        "Whether a constraint can be enforced, and whether a text satisfies it ([grammars.md](grammars.md)).",
        inquiry.GrammarRequest,
    ),
    "/api/chat": ("post", "Answers a conversation in Ollama's form ([ollama.md](ollama.md)).", ChatBody),
    "/api/generate": ("post", "Completes a text in Ollama's form.", GenerateBody),
    "/api/tags": ("get", "The model, as Ollama lists its models.", None),
    "/api/ps": ("get", "The model, as Ollama lists those that are loaded.", None),
    "/api/show": ("post", "What is known of the model, in Ollama's form.", ShowBody),
    "/api/version": ("get", "The version of Ollama's API that is served.", None),
    "/tokenize": (
        "post",
        "The tokens of a text or a conversation: `tokens`, `count`, `max_model_len`, `token_strs`.",
        inquiry.TokenizeRequest,
    ),
    "/detokenize": ("post", "The text of tokens, in `prompt`.", inquiry.DetokenizeRequest),
    "/v1/models": ("get", "The model, under each of its names.", None),
    "/v1/models/{model}": ("get", "The model under one of its names.", None),
    "/health": ("get", "The same as `/ready`, and 200 while the model is loaded, too.", None),
    "/ready": ("get", "200 where a request would be answered now, else 503; state and promise.", None),
    "/live": ("get", "200: the server runs, whatever its engine does.", None),
    "/v1/health/ready": ("get", "The same as `/ready`, without a key.", None),
    "/v1/health/live": ("get", "The same as `/live`, without a key.", None),
    "/metrics": ("get", "Metrics in Prometheus' text format.", None),
}
"""Every page: its methods, what it does, and the struct of its body."""


def guarded(path: str) -> bool:
    """Whether the page wants a key, where the server has one."""
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


_HEAD = """# The HTTP API

Written by `python -m llgtrt.openai.openapi`; a test holds it. The same as a document: `/openapi.json`, shown
at `/docs`, which takes its scripts from a public host. The server listens on 127.0.0.1, unless `--host` names
another address.

## Pages

| page | what |
|---|---|
"""

_HEALTH = """
Pages under `/v1/` and `/api/`, `/tokenize` and `/detokenize` want an API key where the server has one
(`Authorization: Bearer …`, or `x-api-key: …`), but not those under `/v1/health/`. Pages with `GET` also
answer `HEAD`.

`/ready` says whether a request would be answered now. It is 503 while the model is loaded, while the engine
is started again or computes nothing (`stalled`: choices run, and nothing has been computed for 30 s), and
while the server ends. A load balancer asks this page. `/health` differs in one case: it is 200 while the
model is loaded. `/live` is 200 in all of these. The body has `status` (`loading`, `ready`, `stalled`,
`restarting`, `failed`, `closed`), `reason` (while a model is loaded, what is being done) and `promise`
([determinism.md](determinism.md)). Requests for a model that is being loaded get 503 with `retry-after`.

Each answer has the header `x-request-id`: the one of the request, or a new one. The same id stands in the
access log and, behind a prefix, as `id` in the body. Fields that no API has, and names in a schema that are
almost keywords, are ignored. The header `llgtrt-ignored` and the log name them:
`temprature (did you mean temperature?)`.

Request bodies may be compressed (`content-encoding: gzip` or `deflate`). The server speaks HTTP/1.1. It also
answers requests that ask for HTTP/2 (`upgrade: h2c`).
"""

_ERRORS = """
## Errors

`{"error": {"message", "type", "param", "code"}}`, as the last event where a stream has begun. `param` names
the field. What is wrong with a field and has no code of its own is a 400 without a code. Errors of the pages
under `/v1/messages` have [Anthropic's form](messages.md).

| code | status | meaning |
|---|---|---|
"""


def _tables() -> list[tuple[str, str, list[str]]]:
    """Tables of fields: title, name of the struct, and the fields to list."""
    common = schema.Common.__struct_fields__
    own = {
        kind: [n for n in kind.__struct_fields__ if n not in common] for _, _, kind in PAGES.values() if kind
    }
    return [
        ("Fields of both", "ChatRequest", list(common)),
        ("Fields of `/v1/chat/completions`", "ChatRequest", own[schema.ChatRequest]),
        ("Fields of `/v1/completions`", "CompletionRequest", own[schema.CompletionRequest]),
        ("Fields of `/v1/messages`", "MessagesRequest", list(MessagesRequest.__struct_fields__)),
        ("Fields of `/v1/responses`", "ResponsesRequest", own[ResponsesRequest]),
        ("Fields of `/v1/systemone`", "SystemOneRequest", list(decisions.SystemOneRequest.__struct_fields__)),
        ("Members of its questions", "Question", list(decisions.Question.__struct_fields__)),
        ("Fields of `/v1/grammar/check`", "GrammarRequest", own[inquiry.GrammarRequest]),
        ("Fields of `/api/chat`", "ChatBody", list(ChatBody.__struct_fields__)),
        ("Fields of `/api/generate`", "GenerateBody", list(GenerateBody.__struct_fields__)),
        ("Fields of `/tokenize`", "TokenizeRequest", own[inquiry.TokenizeRequest]),
        ("Fields of `/detokenize`", "DetokenizeRequest", own[inquiry.DetokenizeRequest]),
        ("Members of `speculative`", "Speculative", list(schema.Speculative.__struct_fields__)),
        ("Members of `stream_options`", "StreamOptions", list(schema.StreamOptions.__struct_fields__)),
    ]


def page() -> str:
    """The text of `docs/api.md`."""
    lines = [_HEAD.rstrip()]
    lines += [
        f"| `{methods.upper().replace(' ', ', ')} {path}` | {text} |"
        for path, (methods, text, _) in PAGES.items()
    ]
    lines.append(_HEALTH.rstrip())
    components = document()["components"]["schemas"]
    for title, name, fields in _tables():
        lines += [
            "",
            f"## {title}",
            "",
            "| field | type | range | default | meaning |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(field, components[name]["properties"][field]) for field in fields]
    lines += [
        "",
        "`response_format`: [grammars.md](grammars.md); `tools`, `thinking_budget`: [tools.md](tools.md);",
        "`speculative`: [speculation.md](speculation.md); `/v1/responses`: [responses.md](responses.md).",
    ]
    lines += [
        "",
        "## Other servers' fields",
        "",
        "Accepted without effect on the text: " + _names(body.NO_EFFECT) + ".",
    ]
    refused = [name for name in body.UNSUPPORTED if name not in body.FOREIGN_GRAMMARS]
    lines += ["", "Refused by name, unless their value changes nothing: " + _names(refused) + "."]
    lines += ["", "Always refused: " + _names(body.FOREIGN_GRAMMARS) + ".", _ERRORS.rstrip()]
    lines += [f"| `{code}` | {status} | {text} |" for code, (status, text) in errors.CODES.items()]
    return "\n".join(lines) + "\n"


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _row(name: str, told: Json) -> str:
    least, most = told.get("minimum"), told.get("maximum")
    bounds = " to ".join(_number(b) for b in (least, most) if b is not None)
    default = told.get("default")
    shown = "" if default is None else f"`{json.dumps(default)}`"
    about = "from " * (most is None and bool(bounds)) + bounds
    return f"| `{name}` | {_type(told)} | {about} | {shown} | {told.get('description', '')} |"


def _number(value: float) -> str:
    return f"{value:,}"


def _type(told: Json) -> str:
    if "anyOf" in told:
        kinds = dict.fromkeys(_type(one) for one in told["anyOf"] if one.get("type") != "null")
        return " or ".join(kinds)
    if "enum" in told:
        return " or ".join(f"`{json.dumps(value)}`" for value in told["enum"] if value is not None)
    if "$ref" in told:
        return "object"
    if told.get("type") == "array" and "items" in told:
        return "list of " + _type(told["items"])
    kind = told.get("type", "any")
    return str(kind)


if __name__ == "__main__":
    print(page(), end="")
