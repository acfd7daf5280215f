"""HTTP connections: uvicorn's, and what clients may not do with them.

A client may leave data unread, begin a request and never end it, or be gone without a word. Its connection
is aborted when that has lasted `send_timeout`: while uvicorn waits for room in the send buffer, after the
answer is complete but not taken, and before the head of a request is complete (after an answer, uvicorn's
keep-alive counts until more comes). The time begins anew whenever the client takes something. Its request is
then cancelled as any client's that goes away. Until then it costs the send buffer and no more, since the core
merges what cannot be sent. Where the kernel itself sees no acknowledgement, TCP_USER_TIMEOUT does the same.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from llgtrt.openai.errors import invalid

if not hasattr(HttpToolsProtocol, "_start_asgi_task"):
    raise ImportError(f"uvicorn {uvicorn.__version__} lacks a hook; install uvicorn>=0.45,<1")


class Connection(HttpToolsProtocol):
    """uvicorn's, with this API's error body. The running request is always told when the client goes away."""

    _running: RequestResponseCycle | None = None

    def stalled(self) -> bool:
        """Whether the client keeps the server from going on, or from being done."""
        idle = self._running is None or self._running.response_complete
        if not self.transport.get_write_buffer_size():
            return idle and self.timeout_keep_alive_task is None
        return idle or self.flow.write_paused

    def unsent(self) -> int:
        """Bytes that the client has not taken: ours, and the kernel's, which takes ours in large steps."""
        socket = self.transport.get_extra_info("socket")
        queued = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP."""
        body = invalid(None, msg, "invalid_http").body()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        )
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Uvicorn tells the latest pipelined request only; the one that runs may be an earlier one."""
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: object) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]


async def drop_stalled(state: ServerState, timeout: float) -> None:
    """Aborts connections that have been stalled for `timeout` seconds, as long as it runs.

    A look counts for one interval, however late it comes: time that this process spent suspended or without
    a core is not the client's.
    """
    interval = min(1.0, timeout / 4)
    stalled: dict[Connection, tuple[int, float]] = {}
    while True:
        now = [(c, c.unsent()) for c in state.connections if isinstance(c, Connection) and c.stalled()]
        before, stalled = stalled, {}
        for connection, unsent in now:
            left, seconds = before.get(connection, (unsent, 0.0))
            stalled[connection] = unsent, seconds + interval if unsent == left else 0.0
            if stalled[connection][1] > timeout:
                connection.transport.abort()
        await asyncio.sleep(interval)
