"""Runs the server: socket, engine, uvicorn, signals, and the order in which they start and end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

MOST_DESCRIPTORS = 65_536
"""As many as are asked for at start."""

SEND_BUFFER_BYTES = 128 * 1024
"""Of the kernel, per connection: what a client has not read beyond it waits merged."""


def serve(settings: Settings) -> int:
    """Serves until a signal. The exit code: 0 after an orderly end.

    Raises:
        StartError: port, target, template, certificate or key cannot be used, or the engine failed.
    """
    templates.check(settings)
    _check_tls(settings)
    _allow_descriptors()
    listeners = _listen(settings)
    try:
        core = open_core(settings)
    except StartError:
        for listener in listeners:
            listener.close()
        raise
    try:
        return asyncio.run(_run(settings, core, listeners))
    finally:
        core.close()


def open_core(settings: Settings) -> _core.Engine:
    """Begins to load the engine: in a process of its own, or a thread of this one.

    Raises:
        StartError: the target cannot be used.
    """
    try:
        return _core.Engine(settings.target, settings.config, settings.child(settings.server.engine_process))
    except _core.CoreError as e:
        raise StartError(str(e)) from e


def _check_tls(settings: Settings) -> None:
    """Reads certificate and key as uvicorn will.

    Raises:
        StartError: one of them cannot be used; the message names it.
    """
    chain, key = settings.server.ssl_certfile, settings.server.ssl_keyfile
    if chain is None or key is None:
        return
    for name, file in ("ssl_certfile", chain), ("ssl_keyfile", key):
        try:
            Path(file).read_bytes()
        except OSError as e:
            raise StartError(f"server.{name}: {file} cannot be read ({e.strerror}); check the path") from e
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrong = f"server.ssl_certfile: {chain} is not a chain of certificates"
    try:
        context.load_verify_locations(chain)
        wrong = f"server.ssl_keyfile: {key} is not the certificate's private key, without a password,"
        context.load_cert_chain(chain, key, password="")
    except ssl.SSLError as e:
        raise StartError(f"{wrong} in PEM ({e.reason or e}); name the file that is") from e


def _allow_descriptors() -> None:
    """Lets there be many connections, as far as the system allows it."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(usual, MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, MOST_DESCRIPTORS))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _listen(settings: Settings) -> list[socket.socket]:
    """An open socket for each address of the host, all with the same port.

    Raises:
        StartError: an address cannot be used.
    """
    host, port = settings.server.host, settings.server.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "not a host name"
        raise StartError(f"{host}: no such address ({why}); choose another with --host") from e
    listeners: list[socket.socket] = []
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        # A free port is chosen once.
        used = listeners[0].getsockname()[1] if listeners else port
        try:
            listeners.append(_open(settings, family, (address[0], used, *address[2:])))
        except OSError as e:
            if listeners and e.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                continue  # a name may have an address of a family that this machine does not use
            for listener in listeners:
                listener.close()
            raise StartError(
                f"cannot listen on {host}:{used} ({e.strerror}); choose another with --port or --host"
            ) from e
    return listeners


def _open(settings: Settings, family: int, address: tuple[Any, ...]) -> socket.socket:
    """An open socket; accepted connections inherit its options."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # asyncio does so only for sockets that name their protocol. Without it, answers on a kept connection
        # wait for the client's delayed acknowledgement, 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.server.keep_alive)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        timeout = int(settings.server.send_timeout * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


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
