"""The handlers of `/v1/responses`."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from llgtrt import _core
from llgtrt.engine import Generation, GoneError
from llgtrt.openai import constraint, routes, sse, translate
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError, from_core, internal, invalid
from llgtrt.openai.incoming import read_body
from llgtrt.openai.render_chat import ChatRender
from llgtrt.openai.responses import answer, as_chat, items
from llgtrt.openai.responses.answer import Answer, Keep
from llgtrt.openai.responses.fields import ResponsesRequest
from llgtrt.openai.responses.recall import Recall
from llgtrt.openai.responses.store import Kept, Store
from llgtrt.openai.schema import a_chats_alone

Json = dict[str, Any]

log = logging.getLogger(__name__)

_MOST_LISTED = 100
_LISTED = 20


class Responses:
    """What the handlers share: the responses that are kept, and those under way in the background."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.running: dict[tuple[int, str], tuple[Generation, asyncio.Task[None]]] = {}
        """By client and id."""


@dataclasses.dataclass(frozen=True)
class _Made:
    """A body made ready."""

    work: routes.Work
    answer: Answer
    keep: Keep


async def create(request: Request) -> Response:
    """`POST /v1/responses`."""
    api: routes.Api = request.app.state.api
    shared: Responses = request.app.state.responses
    data = await read_body(request, api.settings.server)
    # Beside the event loop: what is kept may be in a file.
    made = await asyncio.to_thread(_read, api, shared.store, data, request.scope["client_number"])
    try:
        if made.answer.response["background"]:
            return await _begin(request, shared, made)
        response = await routes.answered(request, made.work)
    except ApiError as e:
        raise as_chat.renamed(e) from e
    if not made.work.body.stream:
        await made.keep(made.answer)
    return response


def _read(api: routes.Api, store: Store, data: bytes, client: int) -> _Made:
    """Reads a body; `client`: a number for its API key.

    Raises:
        ApiError: it is refused.
    """
    unknown = api.settings.server.unknown_fields
    body = parse(data, ResponsesRequest, unknown, a_chats_alone(ResponsesRequest))
    api.check_model(body.model)
    api.check_loaded()
    as_chat.check(body)
    recall = Recall(store, client, api.settings.server.max_body_bytes)
    before = recall.before(body.previous_response_id)
    own = items.canonical(body.input, recall.item)
    told = items.talk(body.instructions, [*before, *own])
    if not told.messages:
        raise invalid("input", "input: missing; give a text or a list of items")
    chat = as_chat.chat_request(body, told.messages)
    try:
        if body.truncation == "auto":
            told = as_chat.fitted(api, chat, told)
            chat = msgspec.structs.replace(chat, messages=told.messages)
        prompt, reply, core = routes.conversation(api, chat, client)
        render = ChatRender(api.settings.model, api.fingerprint(), api.vocabulary, translate.logprobs(chat))
    except ApiError as e:
        raise as_chat.renamed(e, told.places) from e
    render.answer_in(reply)
    made = Answer(answer.begun(api, body), render)
    given = [item for item, _ in own]

    async def keep(done: Answer) -> None:
        if body.store is not False:
            await answer.kept(lambda: asyncio.to_thread(store.put, client, done.response, given))

    work = routes.Work(chat, [prompt], core, made, lambda going: answer.Events(going, made, keep))
    return _Made(work, made, keep)


async def _begin(request: Request, shared: Responses, made: _Made) -> Response:
    """Answers with what has begun, and goes on without the client."""
    api: routes.Api = request.app.state.api
    request.app.state.work.begin()
    try:
        await _check_constraint(request, made.work.core)
        generation = await routes.begun(api, made.work)
    except _core.CoreError as e:
        request.app.state.work.end()
        raise from_core(e, translate.renamed(made.work.body)) from e
    key = request.scope["client_number"], made.answer.response["id"]
    told = msgspec.json.encode(made.answer.response)
    await made.keep(made.answer)
    task = asyncio.create_task(_go_on(request, shared, made, generation, key))
    shared.running[key] = generation, task
    return Response(told, media_type="application/json")


async def _check_constraint(request: Request, core: str) -> None:
    """Compiles the constraint of a core request, to refuse a wrong one before the response is queued.

    Raises:
        GrammarError: it cannot be enforced.
    """
    api: routes.Api = request.app.state.api
    async with request.app.state.checks:
        await asyncio.to_thread(constraint.check, api.engine.core, msgspec.json.decode(core)["grammar"])


async def _go_on(
    request: Request, shared: Responses, made: _Made, generation: Generation, key: tuple[int, str]
) -> None:
    """Generates in the background, and keeps what comes of it."""
    try:
        await _generated(generation, made.answer)
        await made.keep(made.answer)
    finally:
        generation.cancel()
        shared.running.pop(key, None)
        request.app.state.work.end()


async def _generated(generation: Generation, answer: Answer) -> None:
    """The answer at its end, whatever that is."""
    try:
        await sse.whole(generation, answer)
    except GoneError:
        answer.stop("cancelled")
    except _core.CoreError as e:
        answer.stop("failed", from_core(e, generation.names()))
    except Exception:
        log.exception("a response in the background failed")
        error = {"code": "server_error", "message": internal().message}
        answer.response |= {"status": "failed", "error": error}


async def one(request: Request) -> Response:
    """`GET` and `DELETE` of `/v1/responses/{response_id}`."""
    shared: Responses = request.app.state.responses
    client, name = request.scope["client_number"], request.path_params["response_id"]
    if request.method != "DELETE":
        if request.query_params.get("stream") == "true":
            raise invalid("stream", "stream: a kept response comes in one piece", "unsupported_parameter")
        return routes.json_response((await _found(request)).body)
    await _found(request)
    await _stopped(shared, client, name)
    await asyncio.to_thread(shared.store.delete, client, name)
    return routes.json_response({"id": name, "object": "response", "deleted": True})


async def cancel(request: Request) -> Response:
    """`POST /v1/responses/{response_id}/cancel`."""
    shared: Responses = request.app.state.responses
    kept = await _found(request)
    if not kept.body["background"]:
        raise invalid("response_id", "response_id: only a response with background: true can be cancelled")
    await _stopped(shared, request.scope["client_number"], kept.body["id"])
    return routes.json_response((await _found(request)).body)


async def _stopped(shared: Responses, client: int, name: str) -> None:
    """Ends what runs in the background, and waits until that is kept."""
    generation, task = shared.running.get((client, name), (None, None))
    if generation is not None and task is not None:
        generation.cancel()
        await asyncio.wait({task})


async def _found(request: Request) -> Kept:
    """The response that the path names.

    Raises:
        ApiError: 404.
    """
    shared: Responses = request.app.state.responses
    client, name = request.scope["client_number"], request.path_params["response_id"]
    kept = await asyncio.to_thread(shared.store.get, client, name)
    if kept is None:
        raise ApiError(f"no response {name:.128} is kept", "response_id", "response_not_found")
    generation, _ = shared.running.get((client, name), (None, None))
    if generation is not None and generation.queued is not None:
        kept.body["status"] = "in_progress"
    return kept


async def input_items(request: Request) -> Response:
    """`GET /v1/responses/{response_id}/input_items`: a page of them, the newest first."""
    kept = await _found(request)
    query = request.query_params
    given = kept.input if query.get("order", "desc") == "asc" else kept.input[::-1]
    limit = query.get("limit", str(_LISTED))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= _MOST_LISTED):
        raise invalid("limit", f"limit: must be 1 to {_MOST_LISTED}")
    if query.get("order", "desc") not in ("asc", "desc"):
        raise invalid("order", "order: must be asc or desc")
    if (after := query.get("after")) is not None:
        at = next((i for i, item in enumerate(given) if item["id"] == after), None)
        if at is None:
            raise invalid("after", f"after: {after:.128} is none of the items")
        given = given[at + 1 :]
    page = given[: int(limit)]
    return routes.json_response(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(given) > len(page),
        }
    )
