"""Middleware for Ray's HTTP proxies: keeps the API's behaviour, and provides what routing needs.

The proxy of every node loads this through the environment variable `CALLBACK`. Requests get the links of
their prompts (`prefix`) in the header from which Ray takes a session's name. Errors of Ray's own get the
API's error bodies: Ray returns an empty answer to a request whose replica has died, and cuts streams off. A
stream that is cut off ends with an error event.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llgtrt.app import request_id
from llgtrt.cluster import prefix
from llgtrt.openai import refusal
from llgtrt.openai.errors import ApiError, unavailable

CALLBACK = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
"""The environment variable of every node that names `middlewares`."""

REPLICA = b"x-llgtrt-replica"
"""The header of answers that names the replica they are from."""

_SESSION = b"x-session-id"

_RAYS = {
    _SESSION,
    b"serve-multiplexed-model-id",
    b"x-request-timeout-seconds",
    b"x-request-disconnect-disabled",
}
"""Headers by which a client would change how Ray treats its request."""

_LOOK_SECONDS = 1.0
"""For the beginning of a body: one that comes more slowly is routed by load alone."""


def middlewares() -> list[Middleware]:
    """What Ray's proxies are to put around themselves."""
    return [Middleware(Front)]


class Front:
    """One request's way through a proxy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith("/-/"):
            await self._app(scope, receive, send)
            return
        body = _Body(receive)
        name = request_id(scope)
        headers = [
            (n, v) for n, v in scope["headers"] if n.replace(b"_", b"-") not in _RAYS | {b"x-request-id"}
        ]
        headers.append((b"x-request-id", name))
        if scope["method"] == "POST":
            headers.append((_SESSION, ".".join(await _links(scope, body)).encode()))
        answer = _Answer(send, name)
        await self._app({**scope, "headers": headers}, body.receive, answer.send)
        await answer.end({**scope, "headers": headers}, receive)


async def _links(scope: Scope, body: _Body) -> list[str]:
    """Those of the prompt, and of the session, which comes last: it says the most."""
    headers = dict(scope["headers"])
    key = headers.get(b"authorization", headers.get(b"x-api-key", b""))
    chain = prefix.links(await body.beginning(), key)
    return [*chain, prefix.session(headers[_SESSION], key)] if _SESSION in headers else chain


class _Body:
    """A request's body, whose beginning is looked at before the proxy reads it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ahead: list[Message] = []
        self._coming: asyncio.Task[Message] | None = None

    async def beginning(self) -> bytes:
        """As much of it as is needed, and comes at once."""
        loop = asyncio.get_running_loop()
        end, data, more = loop.time() + _LOOK_SECONDS, b"", True
        while more and not prefix.found(data):
            self._coming = asyncio.ensure_future(self._receive())
            done, _ = await asyncio.wait({self._coming}, timeout=end - loop.time())
            if not done:
                break
            message = await self._next()
            self._ahead.append(message)
            data += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        return data

    async def receive(self) -> Message:
        """The body from its beginning."""
        return self._ahead.pop(0) if self._ahead else await self._next()

    async def _next(self) -> Message:
        coming, self._coming = self._coming, None
        return await (coming if coming is not None else self._receive())


_RAYS_ERRORS = {
    404: unavailable("no replica takes requests: the servers are starting or ending", "shutting_down"),
    408: ApiError("the request took longer than Ray's proxy lets one take", code="request_timeout"),
    429: ApiError("all replicas are busy and the waiting line is full; try again later", code="overloaded"),
    503: unavailable("no replica takes requests now; try again soon"),
}
"""What Ray's proxy answers by itself; anything else, and nothing at all, is a replica that ended."""

_DIED = ApiError(
    "the replica that served the request ended; the request may be sent again", code="engine_error"
)


class _Answer:
    """An answer as it passes by."""

    def __init__(self, send: Send, request: bytes) -> None:
        self._send = send
        self._request = request
        self._refused: int | None = None
        self._started = self._ended = self._streams = False

    async def send(self, message: Message) -> None:
        """Pass a replica's message on, and keep Ray's own back."""
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            if REPLICA not in headers:
                self._refused = message["status"]
                return
            self._started = True
            self._streams = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            message["headers"] = [(n, v) for n, v in message["headers"] if n.lower() != b"x-request-id"]
            message["headers"].append((b"x-request-id", self._request))
        elif self._refused is not None:
            return
        elif not message.get("more_body", False):
            self._ended = True
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """The proxy is done with the request."""
        if not self._started:
            response = refusal.response(_RAYS_ERRORS.get(self._refused or 0, _DIED), scope["path"])
            response.headers["x-request-id"] = self._request.decode()
            await response(scope, receive, self._send)
        elif not self._ended and self._streams:
            await self._send(_part(refusal.event(_DIED, scope["path"]), more_body=True))
            await self._send(_part(b"", more_body=False))


def _part(body: bytes, more_body: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more_body}
