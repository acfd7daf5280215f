"""A proxy between clients and the server that keeps every exchange, to be held to what was published.

It stands where the client believes the server to be, so that all is seen that a library sends and gets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
from server.serving import PATIENCE, Server

_OWN_HEADERS = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
"""Those of one connection, which are not handed on."""
_PART_BYTES = 65536
"""Most that is handed on at once; what there is of a stream goes on as it comes."""


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A request and its answer, with the bodies as they were sent."""

    method: str
    path: str
    sent: bytes
    status: int
    kind: str
    got: bytes
    whole: bool
    """Whether the client took all of it."""

    def asked(self) -> Any:
        """The request's fields."""
        return json.loads(self.sent)

    def body(self) -> Any:
        """The answer's fields."""
        return json.loads(self.got)

    def events(self) -> list[Any]:
        """What a stream told, event by event, without the line that ends it."""
        blocks = self.got.decode().split("\n\n")
        data = [line[6:] for block in blocks for line in block.split("\n") if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]


class Recorder:
    """The proxy: `url` is where clients find the server."""

    def __init__(self, server: Server) -> None:
        self.exchanges: list[Exchange] = []
        self.host = server.host
        self.http = httpx.Client(base_url=server.url, timeout=PATIENCE)
        recorder = self

        class Handler(_Handler):
            owner = recorder

        self._listener = _Listener(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._listener.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"

    def close(self) -> None:
        """Ends it."""
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        self.http.close()

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, without its retries."""
        settings: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": PATIENCE, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **settings)

    def on(self, path: str) -> list[Exchange]:
        """The exchanges on a page."""
        return [each for each in self.exchanges if each.path.partition("?")[0] == path]


@contextlib.contextmanager
def recording(server: Server) -> Iterator[Recorder]:
    """A recorder before a server."""
    recorder = Recorder(server)
    try:
        yield recorder
    finally:
        recorder.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Connections that may wait: load tools open many at a time."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that ends a connection between two requests may.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    owner: Recorder
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _hand_on(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding"):
            self.send_error(411)  # None of the libraries sends a body without its length.
            return
        # Not by a client that refuses what another would send: NUL in a header, for example.
        with contextlib.closing(http.client.HTTPConnection(*self.owner.host, timeout=PATIENCE)) as server:
            server.putrequest(self.command, self.path, skip_accept_encoding=True)
            for name, text in self.headers.items():
                if name.lower() not in _OWN_HEADERS:
                    server.putheader(name, text)
            server.putheader("content-length", str(len(sent)))
            server.endheaders(sent)
            self._hand_back(sent, server.getresponse())

    def _hand_back(self, sent: bytes, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, text)
        if self.command == "HEAD":
            self.close_connection = True
        else:
            self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        got = bytearray()
        try:
            while part := answer.read1(_PART_BYTES):
                got += part
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        except ConnectionError:
            self.close_connection = True
            self._keep(sent, answer, bytes(got), whole=False)
            return
        # Kept before the client knows that it has everything.
        self._keep(sent, answer, bytes(got), whole=True)
        if self.command == "HEAD":
            return
        with contextlib.suppress(ConnectionError):
            self.wfile.write(b"0\r\n\r\n")

    def _keep(self, sent: bytes, answer: http.client.HTTPResponse, got: bytes, *, whole: bool) -> None:
        kind = (answer.getheader("content-type") or "").partition(";")[0]
        kept = Exchange(self.command, self.path, sent, answer.status, kind, got, whole)
        self.owner.exchanges.append(kept)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # Any method that there is.
            return self._hand_on
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass
