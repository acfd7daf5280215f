"""Clients that are slow, and clients that have stopped, with a clock of this test's own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from llgtrt.connection import Connection, drop_stalled

TIMEOUT = 2.0
ANSWER = Response(b"x" * 8_000_000)
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Client:
    """Reads a little at each look of the server's, as long as it likes to."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.looks, self.reads, self.got = 0, True, 0

    async def look(self, _: float) -> None:
        """The next look: takes the place of the time between two."""
        self.looks += 1
        if self.reads:
            await self.read()
        await _sleep(0.001)

    async def read(self) -> None:
        """Reads what the kernel has, at most 64 KiB, and lets the server send more."""
        with contextlib.suppress(BlockingIOError):
            self.got += len(self._raw.recv(65_536))


_sleep = asyncio.sleep


async def watch(client: Client, state: ServerState) -> None:
    """A reader that is slow, and then one that stopped."""
    drop = asyncio.create_task(drop_stalled(state, TIMEOUT))
    enough = 10 * TIMEOUT / min(1.0, TIMEOUT / 4)
    while client.looks < enough:
        assert state.connections, f"dropped after {client.looks} looks and {client.got} bytes"
        await _sleep(0)
    (one,) = state.connections
    assert isinstance(one, Connection)
    assert one.stalled()
    client.reads = False
    while state.connections:
        assert client.looks < 3 * enough, "a client that reads nothing is kept"
        await _sleep(0)
    drop.cancel()


def test_a_slow_reader_is_kept_and_one_that_stopped_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        config = uvicorn.Config(ANSWER, lifespan="off", log_config=None)
        config.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(config, state, {}, loop), "127.0.0.1", 0)
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            raw.connect(server.sockets[0].getsockname())
            raw.setblocking(False)
            raw.sendall(REQUEST)
            client = Client(raw)
            while not any(isinstance(c, Connection) and c.unsent() for c in state.connections):
                await _sleep(0.001)
            monkeypatch.setattr(asyncio, "sleep", client.look)
            await watch(client, state)
        server.close()

    asyncio.run(main())


def test_another_uvicorn_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(HttpToolsProtocol, "_start_asgi_task")
    spec = importlib.util.find_spec("llgtrt.connection")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"lacks a hook; install uvicorn>=0\.45,<1"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    # What is installed by, and what is said, is one range.
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert '"uvicorn>=0.45,<1",' in project.read_text()
