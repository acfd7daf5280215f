"""What stands around the handlers: the access log, and errors."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, cast

import pytest

from llgtrt import _core
from llgtrt.app import AccessLog, create_app
from llgtrt.engine import AsyncEngine
from llgtrt.openai import refusal, routes, sse
from llgtrt.openai.errors import CODES, ApiError, from_core
from llgtrt.settings import load

from . import fake_core

SCOPE: dict[str, Any] = {"method": "GET", "path": "/a\nrequest id=b", "raw_path": b"/a%0Arequest%20id=b"}


def test_a_path_stays_within_its_line_whatever_else_is_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    # `--quiet`, which is the level of a process that has set none, is about other lines.
    AccessLog("text").write(SCOPE, "a", "404", 0.0)
    AccessLog("json").write(SCOPE, "a", "404", 0.0)
    (line,) = caplog.messages
    sent = SCOPE["raw_path"].decode()
    assert line.startswith(f"request id=a method=GET path={sent} status=404 total_ms=")
    assert json.loads(capsys.readouterr().err)["path"] == sent
    odd = SCOPE | {"raw_path": b"/\xff" * 200}
    AccessLog("text").write(odd, "a", "404", 0.0)
    assert r"path=/\xff/\xff" in caplog.messages[1]


def test_the_status_of_an_error_is_that_of_its_code() -> None:
    assert ApiError("no field has it").status == 400
    assert {code: ApiError("x", code=code).status for code in CODES} == {
        code: status for code, (status, _) in CODES.items()
    }
    error = _core.Overloaded("full")
    told = refusal.response(from_core(error), "/v1/completions")
    assert (told.status_code, told.headers["retry-after"]) == (429, "1")


def test_anthropics_pages_have_its_form_of_errors() -> None:
    kinds = {}
    for code, (status, _) in CODES.items():
        told = json.loads(refusal.body(ApiError("why", "stop", code), "/v1/messages/count_tokens"))
        assert (told["type"], told["error"]["message"]) == ("error", "stop_sequences: why")
        kinds[status] = told["error"]["type"]
    assert kinds == {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        405: "invalid_request_error",
        408: "invalid_request_error",
        413: "request_too_large",
        415: "invalid_request_error",
        429: "rate_limit_error",
        500: "api_error",
        503: "overloaded_error",
        504: "timeout_error",
    }
    event = refusal.event(ApiError("why", code="engine_error"), "/v1/messages")
    assert event.startswith(b'event: error\ndata: {"type":"error"')
    assert refusal.body(ApiError("why"), "/v1/messages2") == ApiError("why").body()


class Late(fake_core.Engine):
    """Says nothing until it may."""

    def __init__(self, target: str, config: str) -> None:
        self.may = threading.Event()
        super().__init__(target, config)

    def _step(self, number: int, choices: Any) -> None:
        if self.may.is_set():
            super()._step(number, choices)


def test_a_stream_begins_after_a_while_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_SILENCE", 0.01)
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.01)

    async def main() -> None:
        core = Late("toy", "{}")
        engine = AsyncEngine(cast("_core.Engine", core))
        while engine.state()[0] == "loading":
            await engine.change()
        app = create_app(load("toy", None, {}), engine)
        app.state.api.loaded = True
        told: asyncio.Queue[Any] = asyncio.Queue()
        body = {"type": "http.request", "body": b'{"prompt": "x", "stream": true}', "more_body": False}
        asked: asyncio.Queue[Any] = asyncio.Queue()
        asked.put_nowait(body)
        path = "/v1/completions"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
        scope |= {"headers": [], "query_string": b"", "root_path": ""}
        answer = asyncio.create_task(app(scope, asked.get, told.put))
        # Only what is told while the engine says nothing.
        begun = await asyncio.wait_for(told.get(), 100)
        assert (begun["type"], begun["status"]) == ("http.response.start", 200)
        for _ in range(2):
            assert (await told.get())["body"] == b": keep-alive\n\n"
        core.may.set()
        await answer
        said = b"".join([told.get_nowait()["body"] for _ in range(told.qsize())])
        assert b'"text":' in said
        assert said.endswith(b"data: [DONE]\n\n")
        core.close()

    asyncio.run(main())
