"""Runs the server: uvicorn, signals, the engine's state, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator

import uvicorn

from llgtrt import _core, templates
from llgtrt.app import Work, create_app
from llgtrt.connection import Connection, drop_stalled
from llgtrt.engine import AsyncEngine
from llgtrt.metrics import news, promise
from llgtrt.openai.chat import Model
from llgtrt.openai.routes import Api
from llgtrt.settings import Settings, StartError, is_loopback

log = logging.getLogger(__name__)

NEWS_SECONDS = 10.0
"""Between two lines about what was done."""

LAST_WORDS_SECONDS = 2.0
"""How long answers may take to end after the engine was closed."""


def run(settings: Settings, core: _core.Engine, listeners: list[socket.socket]) -> int:
    """Serves until a signal. The exit code: 0 after an orderly end.

    Raises:
        StartError: the engine failed.
    """
    return asyncio.run(_run(settings, core, listeners))


def _address(settings: Settings, listeners: list[socket.socket]) -> str:
    """The URL of the first address; all of them have the same port."""
    host, port = listeners[0].getsockname()[:2]
    scheme = "https" if settings.server.ssl_certfile else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn without its own idea of signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


async def _run(settings: Settings, core: _core.Engine, listeners: list[socket.socket]) -> int:
    engine = AsyncEngine(core, settings.server.request_timeout)
    app = create_app(settings, engine)
    server = _Server(_uvicorn_config(app, settings))
    address = _address(settings, listeners)
    alone = "; only this machine reaches it (--host)" if is_loopback(settings.server.host) else ""
    log.info("listening on %s, loading %s%s", address, settings.model, alone)
    followed = asyncio.create_task(follow(engine, app.state.api, address))
    followed.add_done_callback(lambda _: setattr(server, "should_exit", True))
    drop = asyncio.create_task(drop_stalled(server.server_state, settings.server.send_timeout))
    tell = asyncio.create_task(tell_news(engine))
    _on_signals(_Ending(engine, app.state.work, server, settings.server.grace_period))
    await server.serve(sockets=listeners)
    drop.cancel()
    tell.cancel()
    if followed.done():
        followed.result()
    followed.cancel()
    return 0


def _uvicorn_config(app: object, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=settings.server.keep_alive,
        ssl_certfile=settings.server.ssl_certfile,
        ssl_keyfile=settings.server.ssl_keyfile,
        timeout_graceful_shutdown=1,
    )


async def follow(engine: AsyncEngine, api: Api, address: str) -> None:
    """Readies the API when the model is loaded, and logs what becomes of the engine.

    Raises:
        StartError: the engine failed for good, or the model's template cannot be used.
    """
    before, told = "loading", ""
    while True:
        state, why = engine.state()
        if state == "failed":
            raise StartError(why)
        if state == "ready" and before == "loading":
            info = engine.info()
            template = templates.load(api.settings, info)
            if template is not None:
                api.model = Model.of(template, api.vocabulary, api.settings.server)
            api.loaded = True
            log.info("ready: %s at %s, %s; %s", api.settings.model, address, promise(info), info["summary"])
            if api.settings.server.page and address.startswith("http"):
                log.info("open %s in a browser to chat", address)
        elif state != before:
            log.warning("the engine is %s: %s", state, why)
        elif state in ("loading", "restarting") and why != told:
            log.info("%s: %s", state, why)
        before, told = state, why
        await engine.change()


async def loaded(followed: asyncio.Task[None], api: Api) -> None:
    """Waits until the API is ready; `followed` is `follow` for it, and raises what went wrong."""
    while not api.loaded:
        await asyncio.wait({followed}, timeout=0.05)
        if followed.done():
            followed.result()


async def tell_news(engine: AsyncEngine) -> None:
    """Logs a line about each interval in which anything was done."""
    before, begun = engine.metrics(), time.monotonic()
    while True:
        await asyncio.sleep(NEWS_SECONDS)
        after, ended = engine.metrics(), time.monotonic()
        stalled = engine.stalled(after)
        if stalled is not None:
            log.warning("stalled: choices run, and nothing has been computed for %.0f s", stalled)
        line = news(before, after, ended - begun)
        if line is not None:
            log.info("%s", line)
        before, begun = after, ended


class _Ending:
    """An orderly end: what runs and waits may finish within the grace period, while new requests get 503."""

    def __init__(self, engine: AsyncEngine, work: Work, server: uvicorn.Server, grace: float) -> None:
        self._engine = engine
        self._work = work
        self._server = server
        self._grace = grace
        self._task: asyncio.Task[None] | None = None

    def signal(self, number: int) -> None:
        """The first signal begins the end; a second one ends everything at once."""
        if self._task is not None:
            os._exit(128 + number)
        self._work.draining = True
        self._task = asyncio.create_task(self._end())

    async def _end(self) -> None:
        log.info("shutting down: requests have %g s to finish; another signal ends at once", self._grace)
        try:
            await asyncio.wait_for(self._work.idle(), self._grace)
        except asyncio.TimeoutError:
            log.warning("the grace period is over; ending what still runs")
            await asyncio.to_thread(self._engine.close)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._work.idle(), LAST_WORDS_SECONDS)
        self._server.should_exit = True


def _on_signals(ending: _Ending) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.signal, number)
