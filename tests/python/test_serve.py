"""What the server opens before its engine: sockets, and the files for TLS."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llgtrt.cli import main
from llgtrt.serve import _uvicorn_config, tell_news
from llgtrt.settings import Settings, StartError, load
from llgtrt.start import _check_tls, _listen

from . import fake_core


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


def certificate(folder: Path, name: str, *more: str) -> list[str]:
    """Files of a new certificate and its key."""
    files = [str(folder / f"{name}.{kind}") for kind in ("pem", "key")]
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=x"]
    command = ["openssl", *kind, *(more or ["-nodes"]), "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_bad_certificates_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chain, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "other")
    _, secret = certificate(tmp_path, "secret", "-passout", "pass:sesame")
    bad, none = str(tmp_path / "bad"), str(tmp_path / "none")
    Path(bad).write_text("not PEM")
    for files, name, said in (
        ((none, key), "ssl_certfile", "No such file"),
        ((chain, none), "ssl_keyfile", "No such file"),
        ((chain, str(tmp_path)), "ssl_keyfile", "Is a directory"),
        ((bad, key), "ssl_certfile", "is not a chain of certificates"),
        ((chain, bad), "ssl_keyfile", "private key"),
        ((chain, other), "ssl_keyfile", "KEY_VALUES_MISMATCH"),
        ((chain, secret), "ssl_keyfile", "without a password"),
    ):
        pairs = zip(("server.ssl_certfile", "server.ssl_keyfile"), files, strict=True)
        flags = [word for pair in pairs for word in ("--set", "=".join(pair))]
        assert main(["serve", "toy", "--port", "0", *flags]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"llgtrt: server.{name}: {files[name == 'ssl_keyfile']} ")
        assert said in line
    _check_tls(load("toy", None, {"server": {"ssl_certfile": chain, "ssl_keyfile": key}}))


def test_connections_are_kept_as_long_as_the_configuration_says() -> None:
    usual = load("toy", None, {}).server.keep_alive
    assert usual > 60, "proxies keep theirs for 60 s"
    chosen = load("toy", None, {"server": {"port": 0, "keep_alive": 7}})
    assert _uvicorn_config(None, chosen).timeout_keep_alive == 7
    (listener,) = _listen(chosen)
    with listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7


class Busy:
    """An engine that has computed one token more at each look, from the second on."""

    def __init__(self, metrics: dict[str, Any]) -> None:
        self._metrics, self._looks = metrics, 0

    def metrics(self) -> dict[str, Any]:
        self._looks += 1
        totals = {**self._metrics["totals"], "computed_tokens": max(0, self._looks - 2)}
        return {**self._metrics, "totals": totals}

    def stalled(self, snapshot: dict[str, Any]) -> None:
        return None


def test_a_line_for_each_interval_with_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = fake_core.Engine("toy", "{}")
    engine: Any = Busy(json.loads(core.metrics()))
    core.close()
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with caplog.at_level("INFO"), pytest.raises(asyncio.CancelledError):
        asyncio.run(tell_news(engine))
    assert waited == [10.0] * 4
    # Of the three intervals, the first one was idle.
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "0 choices running, 0 requests waiting, 0 ended"
    ] * 2
