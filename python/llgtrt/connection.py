"""HTTP connections: uvicorn's, with limits on slow clients.

A client may stop reading, begin a request and never finish it, or disappear. After `send_timeout` its
connection is aborted: while uvicorn waits for room in the send buffer, after the answer is complete but not
read, and before the head of a request is complete (after an answer, uvicorn's keep-alive applies until more
data arrives). The time starts anew whenever the client reads something. The request is then cancelled, as
for any client that disconnects. Until then it costs no more than the send buffer, because the core merges
what cannot be sent. TCP_USER_TIMEOUT does the same if the kernel sees no acknowledgement.

Some clients ask for an upgrade to HTTP/2 (`Upgrade: h2c`: Java's HttpClient, `curl --http2`). A server may
ignore this (RFC 9110, section 7.8). But the parser ends such a request after its headers, and the body is
lost. So the head of the request is parsed a second time, without the header `Upgrade`.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios

import httptools
import uvicorn
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from llgtrt.openai.errors import invalid

if not hasattr(HttpToolsProtocol, "_start_asgi_task"):
    raise ImportError(f"uvicorn {uvicorn.__version__} lacks a hook; install uvicorn>=0.45,<1")


class _Closing(RequestResponseCycle):
    """An answer over HTTP/1.0, which has no chunks: the end of the connection can end the answer."""

    async def send(self, message: ASGISendEvent) -> None:
        """Sends a part of the answer."""
        if message["type"] == "http.response.start":
            if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                # Without chunks, uvicorn compares the number of bytes with this one.
                self.chunked_encoding, self.expected_content_length = False, sys.maxsize
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.expected_content_length = min(self.expected_content_length, len(message.get("body", b"")))
        await super().send(message)


class Connection(HttpToolsProtocol):
    """uvicorn's, with this API's error body. The running request always learns if its client disconnects."""

    _running: RequestResponseCycle | None = None
    _again: bytes | None = None
    """The head of a request that asks for an upgrade, without the header `Upgrade`."""

    def data_received(self, data: bytes) -> None:
        """Parses the bytes that have arrived."""
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        try:
            while rest:
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    rest = rest[upgrade.args[0] :]
                    head, self._again = self._again, None
                    if head is None:
                        return  # CONNECT: it was refused, and the bytes after it are not HTTP
                    self.parser.feed_data(head)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def on_headers_complete(self) -> None:
        """Starts the request, unless its head will be parsed again."""
        method = self.parser.get_method()
        if not self.parser.should_upgrade() or method == b"CONNECT":
            super().on_headers_complete()
            return
        kept = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        version = self.parser.get_http_version().encode()
        self._again = b"\r\n".join([method + b" " + self.url + b" HTTP/" + version, *kept, b"\r\n"])

    def on_message_complete(self) -> None:
        """Ends the request, unless its head will be parsed again."""
        if self._again is None:
            super().on_message_complete()

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
        if cycle.scope["http_version"] == "1.0":
            cycle.__class__ = _Closing
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
