"""`POST /v1/systemone`."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from llgtrt import _core
from llgtrt.engine import GoneError, deadline
from llgtrt.openai import routes, schema, translate
from llgtrt.openai.body import parse
from llgtrt.openai.decisions.asking import Asked, answer, asked, prompted
from llgtrt.openai.decisions.fields import SystemOneRequest, check
from llgtrt.openai.decisions.tree import all_decided
from llgtrt.openai.errors import from_core, invalid

Json = dict[str, Any]

_RENAMED = {"prompt": "state", "grammar": "questions", "options": "questions"}
"""This page's names of the core's fields."""


async def create(request: Request) -> Response:
    """`POST /v1/systemone`."""
    api: routes.Api = request.app.state.api
    questions = await routes.made(request, _read)
    try:
        deciding = all_decided(api.engine, api.vocabulary, [one.decision for one in questions.values()])
        found = await _while_connected(request, deciding, api.settings.server.request_timeout)
    except _core.CoreError as e:
        raise from_core(e, _RENAMED) from e
    pairs = zip(questions.items(), found, strict=True)
    answers = {name: answer(one, raw) for (name, one), raw in pairs}
    tokens = sum(len(one.decision.prompt) for one in questions.values())
    usage = {"input_tokens": tokens, "output_tokens": 0}
    return routes.json_response({"model": api.settings.model, "answers": answers, "usage": usage})


def _read(api: routes.Api, data: bytes, client: int) -> dict[str, Asked]:
    """The questions, by name."""
    body = parse(data, SystemOneRequest, api.settings.server.unknown_fields)
    check(body)
    api.check_model(body.model)
    api.check_loaded()
    _check_size(data, body)
    core = {
        "client": client,
        "priority": body.priority or 0,
        "cache_salt": translate.salt(body.cache_salt),
    }

    def prompt(text: str) -> list[int]:
        if api.model is not None:
            api.check_length(len(text), schema.ChatRequest(messages=[]), "state")
        return prompted(api.model, api.vocabulary, text)

    return asked(body, api.settings.server.decision_prompts, core, prompt)


def _check_size(data: bytes, body: SystemOneRequest) -> None:
    """Refuses a body that would become too many long prompts: each question has its own copy of the state.

    Raises:
        ApiError: 400.
    """
    if len(data) * len(body.questions) > routes.MOST_COPIES:
        message = f"questions: {len(body.questions)} with {len(data)} bytes each; send fewer at once"
        raise invalid("questions", message)


async def _while_connected(request: Request, work: Any, seconds: float) -> Any:
    """The result of `work`, which ends when the client goes away, and after so many seconds.

    Raises:
        GoneError: the client went away.
        DeadlineError: it took longer.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.create_task(routes.gone(request))
    try:
        await asyncio.wait((working, leaving), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            raise GoneError
        if not working.done():
            raise deadline(seconds)
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
