"""The server's log on standard error. The core's lines have the same format (`rust/src/py/log.rs`)."""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys

_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR"}
"""The core's names of levels, where Python's differ."""


def time_of(seconds: float) -> str:
    """Formats a time, in seconds since 1970, for a log line."""
    told = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return told.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Lines(logging.Formatter):
    """A line for each record, or with `as_json` an object."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time, level = time_of(record.created), _LEVELS.get(record.levelname, record.levelname)
        message = record.getMessage()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            told = {"time": time, "level": level, "logger": record.name, "message": message}
            return json.dumps(told | ({"exception": trace} if trace else {}))
        return f"{time} {level} {record.name}: {message}" + (f"\n{trace}" if trace else "")


def begin(level: int) -> None:
    """Begins to log; lines are JSON if the environment's `LLGTRT_LOG_FORMAT` is `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(os.environ.get("LLGTRT_LOG_FORMAT") == "json"))
    logging.basicConfig(level=level, handlers=[handler])
    quiet = logging.INFO if level == logging.DEBUG else logging.WARNING
    for name in ("uvicorn", "asyncio", "httpx", "httpx2"):
        logging.getLogger(name).setLevel(quiet)


def as_json() -> None:
    """Lines are JSON from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Lines(as_json=True))
