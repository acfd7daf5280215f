"""The listening sockets."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from llgtrt.serve import _listen
from llgtrt.settings import Settings, StartError, load


def settings(host: str = "127.0.0.1", port: int = 0) -> Settings:
    return load("toy", None, {"server": {"host": host, "port": port}})


def test_accepted_connections_send_at_once() -> None:
    (listener,) = _listen(settings())
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def found(*addresses: str) -> Any:
    """What a name server says."""
    kind = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    return lambda host, port, *_, **__: [(socket.AF_INET, *kind, (address, port)) for address in addresses]


def test_all_addresses_of_a_name_have_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found("127.0.0.1", "127.0.0.2", "127.0.0.1"))
    listeners = _listen(settings("two"))
    ports = {listener.getsockname() for listener in listeners}
    (port,) = {port for _, port in ports}
    assert ports == {("127.0.0.1", port), ("127.0.0.2", port)}
    for listener in listeners:
        with listener, socket.create_connection(listener.getsockname()):
            pass


def test_an_address_that_is_not_this_machines_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found("127.0.0.1", "192.0.2.1"))
    (listener,) = _listen(settings("two"))
    listener.close()
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.1"))
    with pytest.raises(StartError, match="cannot listen on two"):
        _listen(settings("two"))


def test_a_port_in_use_is_one_line_and_leaves_nothing_open() -> None:
    (listener,) = _listen(settings())
    with listener, pytest.raises(StartError, match="choose another with --port"):
        _listen(settings(port=listener.getsockname()[1]))
