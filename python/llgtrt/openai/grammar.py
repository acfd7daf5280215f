"""`/v1/grammar/check`: whether a constraint can be enforced, its cost, and whether a text satisfies it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from llgtrt import _core
from llgtrt.openai import hints, routes
from llgtrt.openai.body import parse
from llgtrt.openai.constraint import constraint, field, styled
from llgtrt.openai.errors import from_core, invalid
from llgtrt.openai.incoming import read_body
from llgtrt.openai.inquiry import GrammarRequest

AT_ONCE = 2
"""Checks under way in a server: each takes a thread, and the cores are for answers."""


async def check(request: Request) -> Response:
    """`POST /v1/grammar/check`."""
    api: routes.Api = request.app.state.api
    body = parse(await read_body(request, api.settings.server), GrammarRequest, "ignore")
    api.check_loaded()
    try:
        async with request.app.state.checks:
            told = await asyncio.to_thread(verdict, api.engine.core, spec(body), body.text, body.show)
    except _core.InvalidRequest as e:
        raise from_core(e, {"grammar": field(body)}) from e
    return routes.json_response(told)


def spec(body: GrammarRequest) -> Any:
    """The constraint to be checked, as the core reads it.

    Raises:
        ApiError: there is none, or more than one.
    """
    found = constraint(body)
    if body.schema:
        if found is not None:
            raise invalid("schema", "schema: there is another constraint; leave one")
        hints.schema("schema", bytes(body.schema))
        return styled(body, {"json_schema": bytes(body.schema).decode()})
    if found is None:
        raise invalid("schema", "schema: give it, or a constraint as in a request, such as response_format")
    return found


def verdict(core: _core.Engine, constraint: Any, text: str | None, show: str | None = None) -> dict[str, Any]:
    """The answer: `ok` and the costs, or what cannot be enforced. Takes as long as a compilation may.

    Raises:
        InvalidRequest: the text takes too long.
    """
    try:
        report: dict[str, Any] = msgspec.json.decode(
            core.check_grammar(msgspec.json.encode(constraint).decode(), text, show is not None)
        )
    except _core.GrammarError as e:
        return {"ok": False, "pointer": e.pointer, "keyword": e.keyword, "reason": e.why}
    told = {"ok": True, "compile_ms": round(report["compile_ms"], 3), "mask_ms": round(report["mask_ms"], 3)}
    if report["min_tokens"] is not None:
        told["min_tokens"] = report["min_tokens"]
    if report["narrowed"]:
        told["narrowed"] = report["narrowed"]
    if show is not None:
        told["lark"] = report["lark"]
    if text is None:
        return told
    matched = report["matched"]
    told |= {"matches": report["matches"], "matched": matched}
    if not report["matches"]:
        told["reason"] = _why(text, matched)
    return told


def _why(text: str, matched: int) -> str:
    if matched == len(text):
        return "the text ends where it may not end yet"
    return f"at character {matched}, {text[matched : matched + 20]!r} cannot follow {text[:matched][-20:]!r}"
