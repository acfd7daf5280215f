"""The ASGI application: the API behind a gate, and `/health`, `/ready` and `/metrics` beside it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Set
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llgtrt import _core, logs, page, spans
from llgtrt.engine import AsyncEngine, Generation, GoneError
from llgtrt.metrics import EngineCollector, HttpCounts, exposition, promise
from llgtrt.openai import grammar, hints, messages, ollama, openapi, refusal, routes, systemone, tokens
from llgtrt.openai.errors import RETRY, ApiError, from_core, internal, unavailable
from llgtrt.openai.messages_errors import is_own
from llgtrt.openai.responses import handlers as responses
from llgtrt.openai.responses.store import Store
from llgtrt.prompt import Vocabulary
from llgtrt.settings import Settings

log = logging.getLogger(__name__)

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Work:
    """Requests in flight, and whether more are taken."""

    def __init__(self) -> None:
        self.draining = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """One more.

        Raises:
            ApiError: the server is shutting down.
        """
        if self.draining:
            error = unavailable(
                "the server is shutting down; send the request to another one", "shutting_down"
            )
            error.headers["connection"] = "close"
            raise error
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """One less."""
        self._running -= 1
        if self._running == 0:
            self._idle.set()

    async def idle(self) -> None:
        """Waits until none is left."""
        await self._idle.wait()


class Record:
    """Around everything, preflights too: a name, a count and a line of the log for each request."""

    def __init__(self, app: ASGIApp, counts: HttpCounts, log: AccessLog | None) -> None:
        self._app = app
        self._counts = counts
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        outcome = ""
        begun = time.monotonic()
        name = request_id(scope)
        scope["request_id"] = name.decode()
        scope["answered"] = False
        ignored: list[str] = []
        hints.ignored.set(ignored)

        async def counting_send(message: Message) -> None:
            nonlocal outcome
            if message["type"] == "http.response.start":
                outcome, scope["answered"] = str(message["status"]), True
                names = [b"x-request-id", *([b"request-id"] if is_own(scope["path"]) else [])]
                more = [(hints.HEADER, ", ".join(ignored).encode())] if ignored else []
                message["headers"] = [*message["headers"], *((own, name) for own in names), *more]
            await send(message)

        try:
            await self._app(scope, receive, counting_send)
        except GoneError:
            outcome = "disconnected"
        finally:
            self._counts.count(_known_path(scope["path"]), outcome)
            if self._log is not None:
                self._log.write(scope, name.decode(), outcome, begun)


class Gate:
    """Around the handlers: keys, work in flight, and one body for whatever goes wrong."""

    def __init__(self, app: ASGIApp, keys: tuple[str, ...], work: Work) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        try:
            await self._guarded(scope, receive, send)
        except GoneError:
            raise
        except Exception:
            log.exception("a request failed")
            if not scope["answered"]:
                await refusal.response(internal(), scope["path"])(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not openapi.guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            scope["client_number"] = self._client(scope)
            self._work.begin()
        except ApiError as e:
            await refusal.response(e, scope["path"])(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._work.end()

    def _client(self, scope: Scope) -> int:
        """A number for the key that was sent; every known key is compared, each in constant time.

        Raises:
            ApiError: 401.
        """
        if not self._keys:
            return 0
        headers = dict(reversed(scope["headers"]))
        scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
        key = sent.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        if sum(hmac.compare_digest(known, key) for known in self._keys):
            return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
        message = "missing or wrong API key; send it as `Authorization: Bearer <key>` or as `x-api-key`"
        raise ApiError(message, code="invalid_api_key", headers={"www-authenticate": "Bearer"})


class AccessLog:
    """A line for each request, without any of its text. It is asked for by itself: `--quiet` leaves it."""

    def __init__(self, form: str) -> None:
        """`form`: `text` or `json`."""
        self._json = form == "json"
        self._log = logging.getLogger("llgtrt.access")
        self._log.setLevel(logging.INFO)

    def write(self, scope: Scope, request_id: str, outcome: str, begun: float) -> None:
        """The request is over."""
        # Lines of text have a time already.
        facts: dict[str, object] = {"time": logs.time_of(time.time())} if self._json else {}
        facts |= {"id": request_id, "method": scope["method"]}
        # As it was sent: decoded, it could begin a line of its own.
        path = scope["raw_path"][:200].decode("ascii", "backslashreplace")
        facts |= {"path": path, "status": outcome}
        generation: Generation | None = scope.get("generation")
        if generation is not None:
            usage = generation.usage()
            facts |= {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion}
            if generation.queued is not None:
                facts["queue_ms"] = round(generation.queued * 1e3, 1)
            if generation.first is not None:
                facts["first_token_ms"] = round((generation.first - begun) * 1e3, 1)
        facts["total_ms"] = round((time.monotonic() - begun) * 1e3, 1)
        if self._json:
            print(json.dumps(facts), file=sys.stderr, flush=True)
        else:
            self._log.info("request %s", " ".join(f"{name}={value}" for name, value in facts.items()))


_LONGEST_ID = 128


def request_id(scope: Scope) -> bytes:
    """The client's name for the request where it may stand in a log, else a new one."""
    sent: bytes = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    plain = sent.replace(b"-", b"").replace(b"_", b"").replace(b".", b"").isalnum()
    return sent if plain and len(sent) <= _LONGEST_ID else uuid.uuid4().hex.encode()


class _Direct(APIRoute):
    """Calls the handler with the request, and nothing in between: bodies are read by msgspec."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler itself."""
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def create_app(settings: Settings, engine: AsyncEngine) -> FastAPI:
    """The application for one engine.

    `app.state` has what its handlers share: `api`, `work`, `counts`, `responses`; and `exposition`,
    which whoever runs replicas of it sets to what gives the metrics of them all.
    """
    work, counts = Work(), HttpCounts()
    form = settings.server.access_log
    access = AccessLog(form) if form != "off" else None
    record = Middleware(Record, counts=counts, log=access)
    gate = Middleware(Gate, keys=settings.server.api_keys, work=work)
    provider = spans.provider()
    traced = [] if provider is None else [Middleware(spans.Spans, provider=provider)]
    app = FastAPI(
        title="llgtrt",
        redoc_url=None,
        telemetry=spans.telemetry(provider),
        middleware=[record, *traced, *_cors(settings), gate],
        exception_handlers={HTTPException: _http_error, ApiError: _api_error, _core.CoreError: _core_error},
    )
    app.router.redirect_slashes = False
    app.router.route_class = _Direct
    for path, (methods, handler) in HANDLERS.items():
        # uvicorn does not send the body of an answer to HEAD.
        app.add_api_route(path, handler, methods=methods.replace("GET", "GET HEAD").split())
    if settings.server.page:
        for path in page.FILES:
            app.add_api_route(path, page.serve, methods=["GET", "HEAD"], include_in_schema=False)
    app.openapi = openapi.document  # type: ignore[method-assign]
    app.state.api = routes.Api(settings, engine, Vocabulary(engine.core))
    app.state.work, app.state.counts = work, counts
    app.state.exposition = None
    app.state.responses = responses.Responses(Store(settings.responses_file))
    app.state.checks = asyncio.Semaphore(grammar.AT_ONCE)
    return app


def _cors(settings: Settings) -> list[Middleware]:
    """Before the gate: a preflight has no key."""
    origins = settings.server.cors_origins
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["x-request-id", hints.HEADER.decode()],
        )
    ]


async def live(request: Request) -> Response:
    """`GET /live`: the server runs, whatever its engine does."""
    return routes.json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """`GET /ready`: 200 if a request would be answered now, else 503; state and promise."""
    return _state(request, {"ready"})


async def health(request: Request) -> Response:
    """`GET /health`: the same, but also 200 while the model is loaded."""
    return _state(request, {"ready", "loading"})


def _state(request: Request, well: Set[str]) -> Response:
    api: routes.Api = request.app.state.api
    state, why = api.engine.state()
    if request.app.state.work.draining:
        state, why = "closed", "the server is shutting down"
    elif state == "ready" and not api.loaded:
        state = "loading"
    elif state == "ready" and (seconds := api.engine.stalled(api.engine.metrics())) is not None:
        state, why = "stalled", f"choices run, and nothing has been computed for {seconds:.0f} s"
    body = {"status": state, "reason": why, "promise": promise(api.engine.info()) if api.loaded else None}
    response = routes.json_response(body)
    if state not in well:
        response.status_code = 503
        response.headers["retry-after"] = RETRY["retry-after"]
    return response


async def metrics(request: Request) -> Response:
    """`GET /metrics`, in Prometheus' text format; of all replicas, where there are several."""
    of_all: Callable[[], Coroutine[Any, Any, bytes]] | None = request.app.state.exposition
    text = await of_all() if of_all is not None else exposition({None: collector(request.app).collect()})
    return Response(text, headers={"content-type": _METRICS_TYPE})


def collector(app: FastAPI) -> EngineCollector:
    """The metrics of an application."""
    api: routes.Api = app.state.api
    return EngineCollector(api.engine, app.state.counts, api.settings.model)


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: a page that is not there, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    url = f"{request.method} {request.scope['path']:.200}"
    said = {404: ("no such page", "not_found"), 405: ("not allowed", "method_not_allowed")}
    what, code = said[error.status_code]
    told = ApiError(f"{what}: {url}", code=code, headers=error.headers)
    return refusal.response(told, request.scope["path"])


async def _api_error(request: Request, error: Exception) -> Response:
    return refusal.response(error if isinstance(error, ApiError) else internal(), request.scope["path"])


async def _core_error(request: Request, error: Exception) -> Response:
    told = from_core(error) if isinstance(error, _core.CoreError) else internal()
    return refusal.response(told, request.scope["path"])


HANDLERS: dict[str, tuple[str, Callable[[Request], Coroutine[Any, Any, Response]]]] = {
    "/v1/chat/completions": ("POST", routes.chat_completions),
    "/v1/completions": ("POST", routes.completions),
    "/v1/messages": ("POST", messages.create),
    "/v1/messages/count_tokens": ("POST", messages.count_tokens),
    "/v1/responses": ("POST", responses.create),
    "/v1/responses/{response_id}": ("GET DELETE", responses.one),
    "/v1/responses/{response_id}/input_items": ("GET", responses.input_items),
    "/v1/responses/{response_id}/cancel": ("POST", responses.cancel),
    "/v1/systemone": ("POST", systemone.create),
    "/v1/chat/completions/render": ("POST", tokens.render),
    "/v1/grammar/check": ("POST", grammar.check),
    "/api/chat": ("POST", ollama.chat),
    "/api/generate": ("POST", ollama.generate),
    "/api/tags": ("GET", ollama.tags),
    "/api/ps": ("GET", ollama.running),
    "/api/show": ("POST", ollama.show),
    "/api/version": ("GET", ollama.version),
    "/tokenize": ("POST", tokens.tokenize),
    "/detokenize": ("POST", tokens.detokenize),
    "/v1/models": ("GET", routes.models),
    "/v1/models/{model:path}": ("GET", routes.model),
    "/health": ("GET", health),
    "/ready": ("GET", ready),
    "/live": ("GET", live),
    "/v1/health/ready": ("GET", ready),
    "/v1/health/live": ("GET", live),
    "/metrics": ("GET", metrics),
}
"""Pages, their methods and handlers; `/docs` and `/openapi.json`, which tell of them, are FastAPI's."""


def _known_path(path: str) -> str:
    """The path as a label: one of few."""
    for several in "/v1/models", "/v1/responses":
        if path.startswith(several + "/"):
            return several
    return path if path in HANDLERS or path in page.FILES else "other"
