"""The application without a server: requests of this process, read and answered as over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI
from starlette.types import Message, Scope

from llgtrt.app import create_app
from llgtrt.engine import AsyncEngine
from llgtrt.serve import follow, loaded
from llgtrt.settings import Settings
from llgtrt.start import open_core


def private(settings: Settings) -> Settings:
    """The settings without those about clients: nobody comes from outside."""
    server = dataclasses.replace(settings.server, api_keys=(), access_log="off", cors_origins=())
    return dataclasses.replace(settings, server=server)


@contextlib.asynccontextmanager
async def application(settings: Settings, name: str) -> AsyncIterator[tuple[FastAPI, asyncio.Task[None]]]:
    """The application on a loaded engine, and a task that raises when the engine has failed for good.

    Raises:
        StartError: the engine cannot be opened.
    """
    core = open_core(settings)
    try:
        engine = AsyncEngine(core, settings.server.request_timeout)
        app = create_app(settings, engine)
        followed = asyncio.create_task(follow(engine, app.state.api, name))
        await loaded(followed, app.state.api)
        yield app, followed
        followed.cancel()
    finally:
        core.close()


async def post(
    app: FastAPI, path: str, body: bytes, take: Callable[[Message], None], left: asyncio.Event | None = None
) -> None:
    """Sends a request; `take` gets the messages of its answer. The client goes away when `left` is set."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
    }
    coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if coming:
            return coming.pop()
        if left is None:
            await asyncio.get_running_loop().create_future()
        else:
            await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        take(message)

    await app(scope, receive, send)
