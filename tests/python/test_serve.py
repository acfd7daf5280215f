"""The listening socket."""

from __future__ import annotations

import socket

from llgtrt.serve import _listen
from llgtrt.settings import load


def test_accepted_connections_send_at_once() -> None:
    settings = load("toy", None, {"server": {"host": "127.0.0.1", "port": 0}})
    with _listen(settings) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
