"""HTTP as clients speak it: offers of HTTP/2, HTTP/1.0, HEAD, compressed bodies, ids and headers."""

from __future__ import annotations

import gzip
import json
import re
import socket
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from .serving import PATIENCE, Server, serving, until

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
SCHEMA = {"type": "object", "propertis": {"a": {"type": "string"}}, "properties": {"b": {"titel": "x"}}}
WRONG = {"type": "strin"}
"""A schema that cannot be enforced."""


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server that reads 20,000 bytes of a body at most, and writes an access log."""
    config = {"server": {"max_body_bytes": 20_000, "access_log": "text"}}
    with serving("toy", config=config) as server:
        yield server.wait_ready()


def head(method: str, path: str, *headers: str, version: str = "1.1") -> bytes:
    """The head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: x", *headers, "\r\n"]).encode()


UPGRADE = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")


def answers(server: Server, pieces: list[bytes], count: int) -> list[tuple[int, Any]]:
    """Sends the pieces one after the other; the status and the JSON of so many answers."""
    found = []
    with socket.create_connection(server.host, PATIENCE) as raw, raw.makefile("rb") as replies:
        for piece in pieces:
            raw.sendall(piece)
        for _ in range(count):
            status = int(replies.readline().split()[1])
            length = 0
            while (line := replies.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            found.append((status, json.loads(replies.read(length))))
    return found


def test_an_offer_of_http2_keeps_the_body_and_the_connection(toy: Server) -> None:
    content = json.dumps(BODY).encode()
    plain = head("GET", "/live")
    counted = head("POST", CHAT, *UPGRADE, f"content-length: {len(content)}")
    chunks = head("POST", CHAT, *UPGRADE, "transfer-encoding: chunked")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    half = len(counted) // 2
    ways = [
        [counted + content + plain],
        [counted, content, plain],
        [counted[:half], counted[half:] + content[:5], content[5:] + plain],
        [chunks + chunked + plain],
        [chunks, chunked, plain],
    ]
    for pieces in ways:
        (status, body), (after, live) = answers(toy, pieces, 2)
        assert (status, after) == (200, 200), pieces
        assert body["usage"]["completion_tokens"] <= 4
        assert live == {"status": "ok"}
    assert answers(toy, [head("GET", "/live", *UPGRADE) + plain], 2) == [(200, {"status": "ok"})] * 2
    # As many as fit into one piece: each is parsed by itself.
    many = 400
    assert len(answers(toy, [head("GET", "/live", *UPGRADE) * many], many)) == many


def test_connect_is_refused(toy: Server) -> None:
    ((status, body),) = answers(toy, [head("CONNECT", "x:1")], 1)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert toy.http.get("/live").status_code == 200


def test_head_answers_as_get_does_without_a_body(toy: Server) -> None:
    for path in (
        "/",
        "/page/app.js",
        "/live",
        "/ready",
        "/health",
        "/metrics",
        "/v1/models",
        "/openapi.json",
    ):
        got, headed = toy.http.get(path), toy.http.head(path)
        assert (headed.status_code, headed.content) == (200, b""), path
        assert headed.headers["content-type"] == got.headers["content-type"]
    assert toy.http.head(CHAT).status_code == 405


def test_head_of_a_response_does_not_delete_it(toy: Server) -> None:
    made = toy.http.post("/v1/responses", json={"input": "hi", "max_output_tokens": 4}).json()
    path = f"/v1/responses/{made['id']}"
    assert toy.http.head(path).status_code == 200
    assert toy.http.get(path).json()["id"] == made["id"]
    assert toy.http.delete(path).json()["deleted"] is True


@pytest.mark.parametrize("stream", [True, False])
def test_http_1_0_gets_no_chunks(toy: Server, stream: bool) -> None:
    content = json.dumps({**BODY, "stream": stream}).encode()
    with socket.create_connection(toy.host, PATIENCE) as raw, raw.makefile("rb") as reply:
        raw.sendall(head("POST", CHAT, f"content-length: {len(content)}", version="1.0") + content)
        top, _, body = reply.read().partition(b"\r\n\r\n")
    assert b" 200 " in top.splitlines()[0]
    assert b"transfer-encoding" not in top.lower()
    assert b"connection: close" in top.lower()
    if stream:
        assert body.startswith(b"data: {")
        assert body.endswith(b"data: [DONE]\n\n")
    else:
        assert json.loads(body)["object"] == "chat.completion"


@pytest.mark.parametrize(("name", "write"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_body_is_read_within_the_limit(small: Server, name: str, write: Any) -> None:
    def post(content: bytes, encoding: str = name) -> tuple[int, str | None]:
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        reply = small.http.post(CHAT, content=content, headers=headers)
        return reply.status_code, reply.json().get("error", {}).get("code")

    content = json.dumps(BODY).encode()
    assert post(write(content)) == (200, None)
    assert post(write(content).upper(), "identity") == (400, "invalid_utf8")
    assert post(write(content)[:-1]) == (400, "invalid_encoding")
    assert post(write(content) + b"x") == (400, "invalid_encoding")
    assert post(content) == (400, "invalid_encoding")
    assert post(write(b" " * 20_001)) == (413, "request_too_large")
    assert post(write(b" " * 10_000_000)) == (413, "request_too_large")
    assert post(content, "br") == (415, "unsupported_encoding")


CONSTRAINTS: list[tuple[str, dict[str, Any]]] = [
    ("response_format", {"response_format": {"type": "json_object", "schema": WRONG}}),
    ("structured_outputs.json", {"structured_outputs": {"json": WRONG}}),
    ("structured_outputs.regex", {"structured_outputs": {"regex": "("}}),
    ("guided_json", {"guided_json": WRONG}),
    ("json_schema", {"json_schema": WRONG}),
    ("guided_regex", {"guided_regex": "("}),
    ("regex", {"regex": "("}),
    ("guided_grammar", {"guided_grammar": "start: ("}),
    ("grammar", {"grammar": "root ::= ("}),
    ("ebnf", {"ebnf": "root ::= ("}),
    ("guided_choice", {"guided_choice": []}),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("name", "fields"), CONSTRAINTS, ids=[name for name, _ in CONSTRAINTS])
def test_an_error_names_the_constraint_that_was_sent(
    toy: Server, name: str, fields: dict[str, Any], stream: bool
) -> None:
    for path, body in (CHAT, BODY), ("/v1/completions", {"prompt": "hi", "max_tokens": 4}):
        reply = toy.http.post(path, json={**body, **fields, "stream": stream})
        assert reply.status_code == 400, reply.text
        assert reply.json()["error"]["param"] == name


WRONG_BODIES = [
    ('{"messages": "x', "Unterminated string starting at: line 1 column 14"),
    ('{"messages": [}', "Expecting value: line 1 column 15"),
    ('{"messages": [], "stop": }', "Expecting value: line 1 column 26"),
    ('{"messages": ' + "[" * 100_000, "nested too deeply"),
    (
        '{"messages": [{"role": "usr", "content": "x"}]}',
        "write one of assistant, developer, function, system",
    ),
    (
        '{"messages": [], "response_format": {"type": "jsonschema"}}',
        "write one of text, json_object, json_schema",
    ),
    ('{"messages": [], "service_tier": "x"}', "write one of auto"),
]


@pytest.mark.parametrize(("body", "said"), WRONG_BODIES, ids=[said for _, said in WRONG_BODIES])
def test_a_wrong_body_is_told_in_words(toy: Server, body: str, said: str) -> None:
    reply = toy.http.post(CHAT, content=body.encode())
    assert (reply.status_code, said in reply.json()["error"]["message"]) == (400, True), reply.text


def test_a_constraint_that_cannot_be_enforced_is_refused_before_it_is_queued(toy: Server) -> None:
    wanted = {"type": "json_schema", "name": "x", "schema": WRONG}
    body = {"input": "hi", "background": True, "text": {"format": wanted}}
    reply = toy.http.post("/v1/responses", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "unsupported_grammar")
    assert reply.json()["error"]["param"] == "text.format"
    body["text"] = {"format": {**wanted, "schema": {"type": "boolean"}}}
    assert toy.http.post("/v1/responses", json=body).json()["status"] == "queued"


def test_ignored_names_are_told_with_the_nearest_known_ones(small: Server) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "requird": []}}}]
    told = {
        "temprature": "temprature (did you mean temperature?)",
        "zork": "zork",
        "\u00e4\r\nx: y": "???x??y",
    }
    fields: dict[str, Any] = dict.fromkeys(told, 1)
    reply = small.http.post(CHAT, json={**BODY, **fields, "response_format": wanted})
    assert reply.status_code == 200, reply.text
    keywords = "propertis (did you mean properties?)"
    assert reply.headers["llgtrt-ignored"] == ", ".join([*told.values(), keywords])
    hint = "ignored the unknown request field 'temprature'; did you mean 'temperature'? (said once)"
    assert hint in small.log()
    assert "unknown keyword in response_format 'propertis'; did you mean 'properties'?" in small.log()
    reply = small.http.post(CHAT, json={**BODY, "tools": tools})
    assert reply.headers["llgtrt-ignored"] == "requird (did you mean required?)"
    checked = small.http.post("/v1/grammar/check", json={"schema": SCHEMA})
    assert checked.headers["llgtrt-ignored"] == keywords
    assert "llgtrt-ignored" not in small.http.post(CHAT, json=BODY).headers


def test_one_id_is_in_header_body_and_log(small: Server) -> None:
    pages = [
        (CHAT, BODY, "chatcmpl-"),
        ("/v1/completions", {"prompt": "hi", "max_tokens": 4}, "cmpl-"),
        ("/v1/messages", {"model": "toy", **BODY}, "msg_"),
    ]
    for path, body, prefix in pages:
        for sent in None, "mine-1":
            headers = {} if sent is None else {"x-request-id": sent}
            reply = small.http.post(path, json=body, headers=headers)
            name = reply.headers["x-request-id"]
            assert sent in (None, name)
            assert reply.json()["id"] == prefix + name
            # The line is written once the answer is out.
            assert any(re.search(rf"id={name} .*path={path}", small.log()) for _ in until())
            streamed = small.http.post(path, json={**body, "stream": True}, headers=headers)
            assert f'"id":"{prefix}{streamed.headers["x-request-id"]}"' in streamed.text


def test_calls_have_ids_of_their_own(toy: Server) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "boolean"}}}]
    body = {**BODY, "max_tokens": 40, "tools": tools, "tool_choice": "required"}
    replies = [toy.http.post(CHAT, json=body, headers={"x-request-id": "same"}).json() for _ in range(2)]
    first, second = (reply["choices"][0]["message"]["tool_calls"][0]["id"] for reply in replies)
    assert first != second


def test_the_prompt_alone_counts_no_tokens(toy: Server) -> None:
    body = {"prompt": "hello", "max_tokens": 0, "echo": True, "logprobs": 1}
    reply = toy.http.post("/v1/completions", json=body).json()
    usage = reply["usage"]
    assert (usage["completion_tokens"], usage["total_tokens"]) == (0, usage["prompt_tokens"])
    assert reply["choices"][0]["text"] == "hello"


def test_timings_are_told_where_they_are_asked_for(toy: Server) -> None:
    body = {**BODY, "ignore_eos": True}
    assert "timings" not in toy.http.post(CHAT, json=body).json()
    reply = toy.http.post(CHAT, json={**body, "timings_per_token": True}).json()
    told = reply["timings"]
    assert told["prompt_n"] + told["cache_n"] == reply["usage"]["prompt_tokens"]
    assert told["predicted_n"] == 4
    assert all(told[name] >= 0 for name in ("queue_ms", "prompt_ms", "predicted_ms"))
    streamed = toy.http.post(CHAT, json={**body, "timings_per_token": True, "stream": True}).text
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert [chunk["timings"]["predicted_n"] for chunk in chunks][-1] == 4


def test_a_prefill_in_parts_is_recognised_as_reasoning(thinker: Server) -> None:
    def read(content: Any) -> Any:
        talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": content}]
        body = {**BODY, "messages": talk, "continue_final_message": True, "seed": 1, "ignore_eos": True}
        return thinker.http.post(CHAT, json=body).json()["choices"][0]["message"]

    text = "<think>\nhm"
    whole, parts = read(text), read([{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}])
    assert whole == parts
    assert whole["reasoning_content"]
