"""What stands around Ray's proxies, without Ray: links of prompts, errors, streams that are cut off."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from llgtrt.cluster import prefix
from llgtrt.cluster.options import Options, parse
from llgtrt.cluster.proxy import Front
from llgtrt.flags import UsageError


def chat(*texts: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": t} for t in texts]}).encode()


def test_prompts_that_begin_alike_share_links() -> None:
    begin = "The rules of the house. " * 40
    one, other = (prefix.links(chat(begin, text * 100), b"key") for text in ("one", "other"))
    common = sum(a == b for a, b in zip(one, other, strict=False))
    assert len(begin) // prefix.BLOCK_BYTES <= common < min(len(one), len(other))
    assert not set(one[common:]) & set(other[common:])
    assert prefix.links(chat(begin, "one" * 100, "and more"), b"key")[: len(one)] == one
    assert not set(prefix.links(chat(begin), b"another key")) & set(one)
    assert prefix.links(chat("short"), b"key") == []
    assert prefix.links(b'{"no": "prompt"}' * 100, b"key") == []
    assert len(prefix.links(chat("x" * 100_000), b"key")) == prefix.MOST_LINKS
    # A link says all that came before it.
    assert len(set(prefix.links(chat("x" * 100_000), b"key"))) == prefix.MOST_LINKS


def test_no_more_of_a_body_is_read_ahead_than_is_looked_at() -> None:
    enough = b'{"prompt": "' + b"x" * prefix.BLOCK_BYTES * prefix.MOST_LINKS
    assert prefix.found(enough + b"xxx")
    assert not prefix.found(enough[:-100])
    assert prefix.found(b" " * prefix.LOOK_BYTES)


class Proxy:
    """Ray's proxy as it behaves: what it has got, and what it sends."""

    def __init__(self, *sends: Message) -> None:
        self.sends = sends
        self.scope: Scope = {}
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        while (message := await receive())["type"] == "http.request":
            self.body += message["body"]
            if not message["more_body"]:
                break
        for message in self.sends:
            await send({**message})

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.scope["headers"]}


def start(status: int, kind: str = "application/json", replica: str | None = "r1") -> Message:
    headers = [(b"content-type", kind.encode()), (b"x-request-id", b"a"), (b"X-Request-ID", b"a")]
    headers += [(b"x-llgtrt-replica", replica.encode())] if replica else []
    return {"type": "http.response.start", "status": status, "headers": headers}


def part(data: bytes, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def run(proxy: Proxy, pieces: list[bytes], headers: dict[str, str] | None = None) -> tuple[int, Any, bytes]:
    """Status, headers and body of the answer to a request that comes in pieces."""
    coming = [
        {"type": "http.request", "body": p, "more_body": n < len(pieces) - 1} for n, p in enumerate(pieces)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": given}
    asyncio.run(Front(proxy)(scope, receive, send))
    begin, *parts = sent
    assert [p["more_body"] for p in parts if "more_body" in p][:-1] == [True] * (len(parts) - 1)
    return begin["status"], begin["headers"], b"".join(p["body"] for p in parts)


DONE = part(b"data: [DONE]\n\n", False)


def test_a_request_reaches_the_proxy_whole_with_its_links() -> None:
    data = chat("The rules of the house. " * 100)
    pieces = [data[at : at + 100] for at in range(0, len(data), 100)]
    proxy = Proxy(start(200), part(b"{}", False))
    rays = {"X-Session-Id": "s", "x_session_id": "t", "x-request-disconnect-disabled": "1", "accept": "*/*"}
    rays = {name.lower(): value for name, value in rays.items()}
    status, headers, body = run(proxy, pieces, {**rays, "x-request-id": "mine", "authorization": "Bearer k"})
    assert (status, body) == (200, b"{}")
    assert proxy.body == data
    links = prefix.links(data, b"Bearer k")
    assert proxy.headers["x-session-id"].split(".") == [*links, prefix.session(b"s", b"Bearer k")]
    assert set(proxy.headers) == {"accept", "authorization", "x-request-id", "x-session-id"}
    assert [value for name, value in headers if name.lower() == b"x-request-id"] == [b"mine"]


def test_a_body_that_comes_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llgtrt.cluster.proxy._LOOK_SECONDS", 0.05)
    proxy = Proxy(start(200), part(b"{}", False))
    slow = asyncio.Event()
    pieces = [part(b'{"messages": "', True), part(b'x"}', False)]

    async def receive() -> Message:
        if len(pieces) == 1:
            asyncio.get_running_loop().call_later(0.2, slow.set)
            await slow.wait()
        return {**pieces.pop(0), "type": "http.request"}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}
    asyncio.run(Front(proxy)(scope, receive, send))
    assert proxy.body == b'{"messages": "x"}'


@pytest.mark.parametrize(
    ("sends", "status", "code"),
    [
        ([], 500, "engine_error"),
        ([start(500, replica=None), part(b"Internal", False)], 500, "engine_error"),
        ([start(404, replica=None), part(b"Path not found", False)], 503, "shutting_down"),
        ([start(503, replica=None), part(b"Unavailable", False)], 503, "unavailable"),
        ([start(429, replica=None), part(b"Full", False)], 429, "overloaded"),
        ([start(408, replica=None), part(b"Timeout", False)], 504, "request_timeout"),
    ],
)
def test_what_ray_answers_by_itself_has_the_apis_body(sends: list[Message], status: int, code: str) -> None:
    got, headers, body = run(Proxy(*sends), [b"{}"], {"x-request-id": "mine"})
    assert (got, json.loads(body)["error"]["code"]) == (status, code)
    assert dict(headers)[b"x-request-id"] == b"mine"


def test_a_replicas_own_errors_pass() -> None:
    assert run(Proxy(start(404), part(b"its own", False)), [b"{}"])[::2] == (404, b"its own")


def test_a_stream_that_is_cut_off_ends_with_an_error() -> None:
    events = start(200, "text/event-stream; charset=utf-8")
    _, _, body = run(Proxy(events, part(b"data: {}\n\n", True)), [b"{}"])
    first, last = body.decode().strip().split("\n\n")
    assert first == "data: {}"
    assert json.loads(last[6:])["error"]["code"] == "engine_error"
    assert run(Proxy(events, DONE), [b"{}"])[2] == b"data: [DONE]\n\n"


def test_options() -> None:
    options, rest = parse(
        ["t", "d", "--replicas", "2", "--port", "1", "--max-replicas", "4", "--replica-gpus", "1"]
    )
    assert rest == ["t", "d", "--port", "1"]
    assert (options.least, options.replicas, options.most, options.gpus) == (2, 2, 4, 1.0)
    assert isinstance(parse(["t"])[0], Options)
    for wrong in (
        ["--replicas", "0"],
        ["--replicas", "two"],
        ["--min-replicas", "3", "--replicas", "2"],
        ["--max-replicas", "1", "--replicas", "2"],
        ["--target-ongoing-requests", "4"],
        ["--target-ongoing-requests", "-1", "--max-replicas", "2"],
        ["--replica-cpus", "0"],
        ["--replica-gpus", "nan"],
        ["--address", "auto", "--ray-metrics-port", "9"],
    ):
        with pytest.raises(UsageError):
            parse(["t", *wrong])
