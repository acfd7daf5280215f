"""Every error has the one body, and says whose it is."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from .serving import PATIENCE, Server, serving, until

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
TOOL = {"type": "function", "function": {"name": "f"}}


def check(response: httpx.Response, status: int, param: str | None, code: str | None) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert isinstance(body["error"]["message"], str)
    assert (body["error"]["param"], body["error"]["code"]) == (param, code)
    assert body["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 2.1}, "temperature", None),
        ({"temperature": -0.1}, "temperature", None),
        ({"temperature": "x"}, "temperature", None),
        ({"top_p": 1.5}, "top_p", None),
        ({"min_p": 2}, "min_p", None),
        ({"top_k": -2}, "top_k", None),
        ({"presence_penalty": 2.5}, "presence_penalty", None),
        ({"frequency_penalty": -2.5}, "frequency_penalty", None),
        ({"repetition_penalty": 0}, "repetition_penalty", None),
        ({"logit_bias": {"1": 101}}, "logit_bias", None),
        ({"logit_bias": {"x": 1}}, "logit_bias", None),
        ({"logit_bias": {"4000000": 1}}, "logit_bias", None),
        ({"max_tokens": 0}, "max_tokens", None),
        ({"max_completion_tokens": 0}, "max_completion_tokens", None),
        ({"min_tokens": 5}, "min_tokens", None),
        ({"n": 0}, "n", None),
        ({"n": 129}, "n", None),
        ({"stop": [str(i) for i in range(17)]}, "stop", None),
        ({"stop": ""}, "stop", None),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", None),
        ({"top_logprobs": 2}, "top_logprobs", None),
        ({"messages": []}, "messages", None),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", None),
        ({"tools": [{"type": "function"}]}, "tools[0].function", None),
        ({"tool_choice": "required"}, "tool_choice", None),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
            None,
        ),
        ({"structural_tag": "a"}, "structural_tag", None),
        ({"grammar": 'root ::= "(" root ")"'}, "grammar", "unsupported_grammar"),
        ({"grammar": 'root ::= "a" <|im_end|>'}, "grammar", "unsupported_grammar"),
        ({"speculative": {"max_draft_len": -1}}, "speculative.max_draft_len", None),
        ({"speculative": {"sources": ["guess"]}}, "speculative.sources[0]", None),
        ({"speculative": {"acceptance": "hope"}}, "speculative.acceptance", None),
        ({"speculative": {"draft_len": 1}}, "speculative", None),
        ({"response_format": {"type": "xml"}}, "response_format.type", None),
    ],
)
def test_bad_chats(toy: Server, fields: dict[str, Any], param: str, code: str | None) -> None:
    for stream in (False, True):
        check(toy.http.post(CHAT, json={**HI, **fields, "stream": stream}), 400, param, code)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [999_999]}, "prompt"),
        ({"prompt": [999_999], "echo": True}, "prompt"),
        ({"prompt": "x", "suffix": "y"}, "suffix"),
        ({"prompt": "x", "best_of": 3, "n": 4}, "best_of"),
        ({"prompt": "x", "best_of": 3, "stream": True}, "best_of"),
        ({"prompt": "x", "best_of": 129}, "best_of"),
        ({"prompt": "x", "logprobs": 1, "echo": True, "stream": True}, "echo"),
        ({"prompt": "x", "logprobs": 21}, "logprobs"),
    ],
)
def test_bad_completions(toy: Server, fields: dict[str, Any], param: str) -> None:
    response = toy.http.post(COMPLETIONS, json={"max_tokens": 2, **fields})
    check(response, 400, param, response.json()["error"]["code"])


def test_too_long_for_the_context(toy: Server) -> None:
    for path, fields in ((COMPLETIONS, {"prompt": "x" * 5000}), (CHAT, HI | {"max_tokens": 100_000})):
        response = toy.http.post(path, json=fields)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_that_cannot_be_enforced(toy: Server, stream: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    response = toy.http.post(CHAT, json={**HI, "response_format": wanted, "stream": stream})
    check(response, 400, "response_format", "unsupported_grammar")
    assert "/properties/a" in response.json()["error"]["message"]
    assert "pattern" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "invalid_json"), (b"{", "invalid_json"), (b'{"messages": "\xff"}', "invalid_utf8"), (b"[]", None)],
)
def test_bad_bodies(toy: Server, body: bytes, code: str | None) -> None:
    check(toy.http.post(CHAT, content=body), 400, None, code)


def test_paths_and_methods(toy: Server) -> None:
    check(toy.http.get("/nope"), 404, None, "not_found")
    check(toy.http.get("/v1/nope"), 404, None, "not_found")
    check(toy.http.get("/v1/models/"), 404, "model", "model_not_found")
    check(toy.http.get(CHAT), 405, None, "method_not_allowed")
    assert toy.http.get(CHAT).headers["allow"] == "POST"
    check(toy.http.post(CHAT, json={**HI, "model": "gpt-5"}), 404, "model", "model_not_found")


def test_what_is_not_http(toy: Server) -> None:
    with socket.create_connection(toy.host, 10) as raw:
        raw.sendall(b"what is this\r\n\r\n")
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert response.status == 400
        assert json.loads(response.read())["error"]["code"] == "invalid_http"


def test_bodies_that_are_too_large() -> None:
    with serving(config={"server": {"max_body_bytes": 1000}}) as server:
        server.wait_ready()
        check(server.http.post(CHAT, content=b" " * 1001), 413, None, "request_too_large")
        chunks = (b" " * 500 for _ in range(3))
        check(server.http.post(CHAT, content=chunks), 413, None, "request_too_large")
        assert server.http.post(CHAT, json=HI).status_code == 200


def test_keys() -> None:
    with serving("toy", "--api-key", "secret") as server:
        server.wait_ready()
        assert server.http.get("/metrics").status_code == 200
        for key in ("", "Bearer", "Bearer wrong", "Bearer secret2", "Basic secret", "secret"):
            response = server.http.get("/v1/models", headers={"authorization": key})
            check(response, 401, None, "invalid_api_key")
        check(server.http.get("/v1/nope"), 401, None, "invalid_api_key")
        with pytest.raises(openai.AuthenticationError), server.client() as api:
            api.models.list()
        with server.client(api_key="secret") as api:
            assert api.models.list().data


def test_keys_from_elsewhere_and_pages_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\ntwo\n")
    monkeypatch.setenv("LLGTRT_API_KEY", "three")
    config = {"server": {"api_key_file": str(file), "cors_origins": ["https://example.com"]}}
    config["server"]["access_log"] = "json"
    with serving("toy", config=config) as server:
        server.wait_ready()
        statuses = {
            key: server.http.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code
            for key in ("one", "two", "three", "four")
        }
        assert statuses == {"one": 200, "two": 200, "three": 200, "four": 401}
        asked = {"origin": "https://example.com", "access-control-request-method": "POST"}
        asked["access-control-request-headers"] = "authorization"
        preflight = server.http.options(CHAT, headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://example.com"
        # It has a name and a line of the log, as any other request.
        name = preflight.headers["x-request-id"]
        (line,) = next(
            found for _ in until() if (found := [s for s in server.log().splitlines() if name in s])
        )
        assert (json.loads(line)["method"], json.loads(line)["status"]) == ("OPTIONS", "200")
        assert server.http.options(CHAT, headers={**asked, "origin": "https://x.org"}).status_code == 400
        told = server.http.get("/v1/models", headers={"origin": "https://example.com"})
        assert (told.status_code, "access-control-allow-origin" in told.headers) == (401, True)
        assert told.headers["access-control-expose-headers"] == "x-request-id, llgtrt-ignored"


def test_other_pages_may_not_call_unless_they_are_named(toy: Server) -> None:
    asked = {"origin": "https://example.com", "access-control-request-method": "POST"}
    for response in toy.http.options(CHAT, headers=asked), toy.http.get("/v1/models", headers=asked):
        assert not [name for name in response.headers if name.startswith("access-control-")]
    check(toy.http.options(CHAT, headers=asked), 405, None, "method_not_allowed")


def test_requests_have_names_and_a_line_in_the_log() -> None:
    for form in ("json", "text"):
        with serving("toy", config={"server": {"access_log": form}}) as server:
            server.wait_ready()
            told = server.http.post(CHAT, json=HI, headers={"x-request-id": "abc-1.2"})
            assert told.headers["x-request-id"] == "abc-1.2"
            for odd in ("a b", "x" * 129, 'a"b'):
                made = server.http.get("/v1/models", headers={"x-request-id": odd}).headers["x-request-id"]
                assert (made != odd, len(made)) == (True, 32)
            refused = server.http.post(CHAT, json={"messages": "secret words"})
            assert refused.headers["x-request-id"]
            # A line is written after its answer.
            last = refused.headers["x-request-id"]
            assert any(last in server.log() for _ in until())
            lines = server.log()
            assert "secret" not in lines
            if form == "text":
                found = re.search(
                    r"request id=abc-1\.2 method=POST path=\S+ status=200 prompt_tokens=\d+", lines
                )
                assert found, lines
                continue
            logged = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
            (line,) = [entry for entry in logged if entry["id"] == "abc-1.2"]
            usage = told.json()["usage"]
            assert (line["method"], line["path"], line["status"]) == ("POST", CHAT, "200")
            assert line["prompt_tokens"] == usage["prompt_tokens"]
            assert line["completion_tokens"] == usage["completion_tokens"]
            assert 0 <= line["queue_ms"] <= line["first_token_ms"] <= line["total_ms"]
            assert [entry["status"] for entry in logged].count("400") == 1


def test_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = [openssl, *kind, "-keyout", str(key), "-out", str(certificate), *name]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    server = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    with serving("toy", config={"server": server}) as running:
        assert running.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=running.url, verify=trusted, timeout=PATIENCE) as client:
            for _ in until():
                if client.get("/ready").status_code == 200:
                    break
            assert client.post(CHAT, json=HI).status_code == 200


def test_more_requests_than_may_wait() -> None:
    with serving("toy:slots=1,step_us=3000", config={"max_queue_size": 1, "max_batch_size": 1}) as server:
        server.wait_ready()
        long = {**HI, "max_tokens": 3000, "ignore_eos": True, "stream": True}
        with server.http.stream("POST", CHAT, json=long) as running:
            assert running.status_code == 200
            # Three would never be taken.
            many = {"prompt": ["a", "b", "c"], "max_tokens": 4}
            assert server.http.post(COMPLETIONS, json=many).status_code == 400
            many = {"prompt": ["a", "b"], "max_tokens": 4}
            response = server.http.post(COMPLETIONS, json=many)
            assert response.status_code == 429
            assert response.headers["retry-after"]
            assert response.json()["error"]["type"] == "rate_limit_error"
        server.wait_idle()
        assert server.http.post(CHAT, json=HI).status_code == 200


def test_a_model_with_several_names() -> None:
    with serving("toy", "--served-model-name", "first", "second") as server:
        server.wait_ready()
        listed = server.http.get("/v1/models").json()["data"]
        assert [card["id"] for card in listed] == ["first", "second"]
        for name, status in ("first", 200), ("second", 200), ("third", 404):
            assert server.http.post(CHAT, json={**HI, "model": name}).status_code == status
            assert server.http.get(f"/v1/models/{name}").status_code == status
        assert server.http.get("/v1/models/second").json()["id"] == "second"


def test_the_document_of_the_api(toy: Server) -> None:
    document = toy.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert CHAT in document["paths"]
    page = toy.http.get("/docs")
    assert (page.status_code, "swagger" in page.text) == (200, True)
