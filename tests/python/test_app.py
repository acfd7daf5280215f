"""What stands around the handlers: the access log, and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llgtrt import _core
from llgtrt.app import AccessLog
from llgtrt.openai.errors import CODES, ApiError, from_core

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
    told = from_core(error).response()
    assert (told.status_code, told.headers["retry-after"]) == (429, "1")
