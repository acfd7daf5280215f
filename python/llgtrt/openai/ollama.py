"""The handlers of Ollama's API. The server has the model it was started with: no other can be pulled."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from llgtrt.logs import time_of
from llgtrt.openai import infill, routes, schema
from llgtrt.openai import ollama_render as render
from llgtrt.openai import ollama_schema as fields
from llgtrt.openai import ollama_translate as translate
from llgtrt.openai.body import parse
from llgtrt.openai.incoming import read_body

Json = dict[str, Any]

VERSION = "0.12.0"
"""The version of Ollama's API that this server implements. Clients refuse servers with an old version."""

_NEVER = "2999-01-01T00:00:00Z"


async def chat(request: Request) -> Response:
    """`POST /api/chat`."""
    return await _answer(request, await routes.made(request, _chat))


async def generate(request: Request) -> Response:
    """`POST /api/generate`."""
    return await _answer(request, await routes.made(request, _generate))


async def _answer(request: Request, work: routes.Work | dict[str, Any]) -> Response:
    if isinstance(work, dict):
        return routes.json_response(work)
    return await routes.answered(request, work)


def _chat(api: routes.Api, data: bytes, client: int) -> routes.Work | dict[str, Any]:
    body = parse(data, fields.ChatBody, api.settings.server.unknown_fields)
    if not body.messages:
        return _loaded(api, body.model, render.as_message({}))
    return _conversation(api, translate.chat(body, api.settings.names), client, render.as_message)


def _generate(api: routes.Api, data: bytes, client: int) -> routes.Work | dict[str, Any]:
    body = parse(data, fields.GenerateBody, api.settings.server.unknown_fields)
    if not body.prompt:
        return _loaded(api, body.model, render.as_response({}))
    if not (body.raw or body.suffix):
        chat = translate.generated(body, api.settings.names)
        return _conversation(api, chat, client, render.as_response)
    work = routes.completed(api, translate.completed(body, api.settings.names), client)
    return _written(work, render.OllamaWriter(api.settings.model, None, render.as_response))


def _conversation(
    api: routes.Api, body: schema.ChatRequest, client: int, shape: Callable[[Json], Json]
) -> routes.Work:
    prompt, reply, core = routes.conversation(api, body, client)
    writer = render.OllamaWriter(api.settings.model, reply.parts(), shape)
    return routes.Work(body, [prompt], core, writer, lambda going: render.Lines(going, writer))


def _written(work: routes.Work, writer: render.OllamaWriter) -> routes.Work:
    """The work with its answer in the form of this API."""
    return dataclasses.replace(work, writer=writer, events=lambda going: render.Lines(going, writer))


def _loaded(api: routes.Api, model: str | None, told: Json) -> Json:
    """The answer to a request without a prompt, which asks to load the model."""
    _check(api, model)
    line = {"model": api.settings.model, "created_at": time_of(time.time()), **told}
    return {**line, "done": True, "done_reason": "load"}


def _check(api: routes.Api, model: str | None) -> None:
    api.check_loaded()
    api.check_model(translate.model(model, api.settings.names))


async def version(request: Request) -> Response:
    """`GET /api/version`."""
    return routes.json_response({"version": VERSION})


async def tags(request: Request) -> Response:
    """`GET /api/tags`."""
    api: routes.Api = request.app.state.api
    api.check_loaded()
    return routes.json_response({"models": [_card(api, name) for name in api.settings.names]})


async def running(request: Request) -> Response:
    """`GET /api/ps`."""
    api: routes.Api = request.app.state.api
    api.check_loaded()
    more = {"expires_at": _NEVER, "size_vram": 0, "context_length": api.engine.info()["limits"]["context"]}
    return routes.json_response({"models": [_card(api, api.settings.model) | more]})


async def show(request: Request) -> Response:
    """`POST /api/show`."""
    api: routes.Api = request.app.state.api
    body = parse(await read_body(request, api.settings.server), fields.ShowBody)
    _check(api, body.model if body.model is not None else body.name)
    model, context = api.model, api.engine.info()["limits"]["context"]
    able = {
        "completion": True,
        "tools": model is not None,
        "thinking": model is not None and model.markers is not None,
        "insert": infill.marks(api.vocabulary) is not None,
    }
    told = {
        "modelfile": "",
        "parameters": "",
        "template": model.template.source if model is not None else "",
        "details": _details(api),
        "model_info": {"general.architecture": "llgtrt", "llgtrt.context_length": context},
        "capabilities": [name for name, is_able in able.items() if is_able],
        "modified_at": _modified(api),
    }
    return routes.json_response(told)


def _card(api: routes.Api, name: str) -> Json:
    file = Path(api.settings.target)
    return {
        "name": name,
        "model": name,
        "modified_at": _modified(api),
        "size": file.stat().st_size if file.is_file() else 0,
        "digest": hashlib.sha256(api.fingerprint().encode()).hexdigest(),
        "details": _details(api),
    }


def _details(api: routes.Api) -> Json:
    kind = "gguf" if api.settings.target.endswith(".gguf") else ""
    empty = dict.fromkeys(("parent_model", "family", "parameter_size", "quantization_level"), "")
    return {**empty, "format": kind, "families": None}


def _modified(api: routes.Api) -> str:
    """When the server was started: the model is as it was then."""
    return time_of(api.created)
