"""Starts what the server needs: sockets, certificate, engine. Imports nothing of the web stack."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import ssl
from pathlib import Path
from typing import Any

from llgtrt import _core, spans, templates
from llgtrt.openai.described import described
from llgtrt.settings import Settings, StartError

MOST_DESCRIPTORS = 65_536
"""As many as are asked for at start."""

SEND_BUFFER_BYTES = 128 * 1024
"""Of the kernel, per connection: what a client has not read beyond it waits merged."""


def serve(settings: Settings) -> int:
    """Serves until a signal. The exit code: 0 after an orderly end.

    Raises:
        StartError: port, target, template, format of calls, certificate or key cannot be used, traces cannot
            be exported as the environment asks, or the engine failed.
    """
    templates.check(settings)
    _check_tool_format(settings)
    spans.exporter()
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
        # The web stack takes as long to load as the engine's process takes to start.
        from llgtrt.serve import run

        return run(settings, core, listeners)
    finally:
        core.close()


def _check_tool_format(settings: Settings) -> None:
    """Refuses a description of function calls that cannot be used.

    Raises:
        StartError: as `described` would.
    """
    if isinstance(settings.server.tool_format, dict):
        described(settings.server.tool_format)


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
