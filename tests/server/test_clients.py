"""Clients that are many, go away, do not read, or say nothing more: they harm nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .serving import PATIENCE, Server, serving, until

CHAT = "/v1/chat/completions"
SEND_TIMEOUT = 5.0


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, **fields}


LONG = body(max_tokens=3500, ignore_eos=True)


@pytest.fixture(scope="module")
def slow() -> Iterator[Server]:
    """An engine with slow steps, and little patience with clients."""
    config = {"server": {"send_timeout": SEND_TIMEOUT}}
    with serving("toy:step_us=2000", config=config) as server:
        yield server.wait_ready()


def raw_request(server: Server, fields: dict[str, Any], receive_buffer: int | None = None) -> socket.socket:
    """A plain socket on which a request was sent."""
    raw = socket.socket()
    if receive_buffer is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    raw.settimeout(PATIENCE)
    raw.connect(server.host)
    content = json.dumps(fields).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
    raw.sendall(head.encode() + content)
    return raw


GONE = f'llgtrt_http_requests_total{{outcome="disconnected",path="{CHAT}"}}'


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_work(slow: Server, stream: bool) -> None:
    before = slow.metric('llgtrt_requests_total{outcome="cancelled"}')
    gone_before = slow.metric(GONE)
    with raw_request(slow, {**LONG, "stream": stream, "n": 2}):
        slow.wait_metric("llgtrt_running_choices")
    slow.wait_idle()
    assert slow.metric('llgtrt_requests_total{outcome="cancelled"}') == before + 1
    assert slow.metric(GONE) == gone_before + 1


def test_a_client_that_goes_away_while_its_request_waits() -> None:
    with serving("toy:slots=1,step_us=2000", config={"max_batch_size": 1}) as server:
        server.wait_ready()
        with raw_request(server, {**LONG, "stream": True}):
            server.wait_metric("llgtrt_running_choices")
            raw_request(server, LONG).close()
            server.wait_metric('llgtrt_requests_total{outcome="cancelled"}')
            assert server.metric("llgtrt_running_choices") == 1
        server.wait_idle()


def test_a_pipelining_client_that_goes_away(slow: Server) -> None:
    with raw_request(slow, {**LONG, "stream": True}) as raw:
        slow.wait_metric("llgtrt_running_choices")
        raw.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(0.2)
    slow.wait_idle()


def test_a_client_that_reads_a_byte_a_second(slow: Server) -> None:
    before = slow.metric(GONE)
    many = {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20, "n": 4}
    with raw_request(slow, many, 2048) as raw:
        assert raw.recv(1)
        other = slow.http.post(CHAT, json=body())
        assert other.status_code == 200, other.text
        for _ in until():
            if slow.metric(GONE) > before:
                break
            time.sleep(1)
            with contextlib.suppress(ConnectionError):
                raw.recv(1)
    slow.wait_idle()
    assert slow.metric(GONE) == before + 1, slow.log()


def test_a_slow_but_steady_body_is_read() -> None:
    with serving("toy", config={"server": {"send_timeout": 1.5}}) as server:
        server.wait_ready()
        content = json.dumps(body()).encode()
        with socket.create_connection(server.host, timeout=PATIENCE) as raw:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
            raw.sendall(head.encode())
            step = len(content) // 5
            for at in range(0, len(content), step):
                time.sleep(0.5)
                raw.sendall(content[at : at + step])
            assert raw.recv(4096).startswith(b"HTTP/1.1 200")


def test_half_open_sockets_harm_nobody(slow: Server) -> None:
    with contextlib.ExitStack() as sockets:
        idle = [sockets.enter_context(socket.create_connection(slow.host)) for _ in range(50)]
        idle[0].sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\n".encode())
        half = sockets.enter_context(socket.create_connection(slow.host))
        half.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{".encode())
        other = slow.http.post(CHAT, json=body())
        assert other.status_code == 200, other.text
        half.settimeout(PATIENCE)
        assert b"408" in half.recv(4096)
        # Those that ask for nothing are dropped too.
        for one in idle:
            one.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""


async def _post_all(server: Server, bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=len(bodies))
    async with httpx.AsyncClient(base_url=server.url, limits=limits, timeout=PATIENCE) as client:
        return list(await asyncio.gather(*(client.post(CHAT, json=b) for b in bodies)))


def test_32_streams_at_a_time(toy: Server) -> None:
    bodies = [body(seed=i, max_tokens=64, stream=True, temperature=1.5) for i in range(32)]
    responses = asyncio.run(_post_all(toy, bodies))
    assert {r.status_code for r in responses} == {200}
    assert all(r.text.endswith("data: [DONE]\n\n") for r in responses)
    alone = toy.http.post(CHAT, json=bodies[7]).text
    assert _text(alone) == _text(responses[7].text)


def _text(events: str) -> str:
    chunks = [json.loads(line[6:]) for line in events.split("\n\n")[:-2]]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)


def test_256_clients_queue_and_do_not_fail(toy: Server) -> None:
    responses = asyncio.run(_post_all(toy, [body(seed=i) for i in range(256)]))
    assert {r.status_code for r in responses} == {200}
    assert len({r.json()["id"] for r in responses}) == 256
    toy.wait_idle()
