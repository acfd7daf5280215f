"""`POST /v1/systemone`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from llgtrt import _core
from llgtrt.engine import GoneError, deadline
from llgtrt.openai import routes, schema, translate
from llgtrt.openai.body import parse
from llgtrt.openai.chat import ready
from llgtrt.openai.decisions import distribution, prompts
from llgtrt.openai.decisions.fields import TOLERANCE, Question, SystemOneRequest, check
from llgtrt.openai.decisions.tree import Decision, Found, all_decided
from llgtrt.openai.errors import from_core, invalid

Json = dict[str, Any]

_RENAMED = {"prompt": "state", "grammar": "questions", "options": "questions"}
"""This page's names of the core's fields."""


@dataclasses.dataclass(frozen=True)
class _Asked:
    question: Question
    temperature: float
    decision: Decision


async def create(request: Request) -> Response:
    """`POST /v1/systemone`."""
    api: routes.Api = request.app.state.api
    asked = await routes.made(request, _read)
    try:
        deciding = all_decided(api.engine, api.vocabulary, [one.decision for one in asked.values()])
        found = await _while_connected(request, deciding, api.settings.server.request_timeout)
    except _core.CoreError as e:
        raise from_core(e, _RENAMED) from e
    pairs = zip(asked.items(), found, strict=True)
    answers = {name: _answer(one, raw) for (name, one), raw in pairs}
    tokens = sum(len(one.decision.prompt) for one in asked.values())
    usage = {"input_tokens": tokens, "output_tokens": 0}
    return routes.json_response({"model": api.settings.model, "answers": answers, "usage": usage})


def _read(api: routes.Api, data: bytes, client: int) -> dict[str, _Asked]:
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
    tolerance = TOLERANCE if body.tolerance is None else body.tolerance

    def asked(question: Question) -> _Asked:
        options = prompts.options(question)
        text = prompts.written(question, body.state, api.settings.server.decision_prompts)
        constrained = {**core, "grammar": {"choice": options}}
        decision = Decision(constrained, _prompt(api, text), options, tolerance=tolerance)
        return _Asked(question, question.temperature or body.temperature or 1.0, decision)

    return {name: asked(question) for name, question in body.questions.items()}


def _check_size(data: bytes, body: SystemOneRequest) -> None:
    """Refuses a body that would become too many long prompts: each question has its own copy of the state.

    Raises:
        ApiError: 400.
    """
    if len(data) * len(body.questions) > routes.MOST_COPIES:
        message = f"questions: {len(body.questions)} with {len(data)} bytes each; send fewer at once"
        raise invalid("questions", message)


def _prompt(api: routes.Api, text: str) -> list[int]:
    """The tokens of a question, up to where its answer begins."""
    vocabulary = api.vocabulary
    if api.model is None:
        return vocabulary.plain(text + "\n")
    message = schema.Message("user", text)
    body = schema.ChatRequest(messages=[message], enable_thinking=False)
    api.check_length(len(text), body, "state")
    prompt, reply = ready(api.model, body, translate.messages(body))
    return prompt + vocabulary.encode([(reply.opening, True)]) if reply.opening else prompt


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


def _answer(asked: _Asked, raw: Found) -> Json:
    return {**_typed(asked, distribution.tempered(raw.probabilities, asked.temperature)), "error": raw.error}


def _typed(asked: _Asked, found: Sequence[float]) -> Json:
    question, options = asked.question, asked.decision.options
    named = dict(zip(options, found, strict=True))
    match question.type:
        case "choice":
            return {
                "type": "choice",
                "choice": max(named, key=lambda option: named[option]),
                "probabilities": named,
                "confidence": distribution.choice_confidence(found),
            }
        case "score":
            return {
                "type": "score",
                "score": distribution.expected_level(found),
                "legend": dict(zip(options, question.criteria or (), strict=True)),
                "probabilities": named,
                "confidence": distribution.score_confidence(found),
            }
    return {"type": "noul", "noul": found[0]}
