"""Lines of the log."""

from __future__ import annotations

import json
import logging
import re
import sys

from llgtrt import logs


def record(level: int, exc_info: bool = False) -> logging.LogRecord:
    told = sys.exc_info() if exc_info else None
    return logging.LogRecord("llgtrt.x", level, "x.py", 1, "said %s", ("yes",), told)


def test_a_line_has_time_level_logger_and_message() -> None:
    line = logs.Lines(as_json=False).format(record(logging.WARNING))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARN llgtrt\.x: said yes", line)
    told = json.loads(logs.Lines(as_json=True).format(record(logging.INFO)))
    assert {name: told[name] for name in ("level", "logger", "message")} == {
        "level": "INFO",
        "logger": "llgtrt.x",
        "message": "said yes",
    }


def test_an_exception_is_part_of_its_line_as_json() -> None:
    try:
        raise ValueError("no\nline")
    except ValueError:
        broken = record(logging.ERROR, exc_info=True)
    told = logs.Lines(as_json=True).format(broken)
    assert "\n" not in told
    assert "ValueError: no\nline" in json.loads(told)["exception"]
    assert "ValueError: no" in logs.Lines(as_json=False).format(broken)
