"""Servers of one model on loopback: ours, and the one that it is compared with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = os.environ.get("LLGTRT_PACKAGE", str(ROOT / "python"))
"""The folder with the package: that of another build lies elsewhere."""
START_SECONDS = 60.0
"""Most seconds until a server of a tiny model is ready; a second is usual."""
ANSWER_SECONDS = 600.0
"""A prompt of 8,000 tokens takes a larger model minutes."""
NOISE = re.compile(r"^(\d{4}-\d\d-\d\d [\d:,]+ |[\d.]+ )?(\[?[A-Z]+ +)?(llgtrt: )?")
"""What stands before a message in the log: when, how bad, who says so."""


class Failed(Exception):
    """A server that does not start; the text is its own reason, in one line."""

    def __init__(self, reason: str, crashed: bool) -> None:
        super().__init__(reason)
        self.crashed = crashed
        """Whether a process died of it, in place of refusing the model."""


@dataclass
class Running:
    """A server that answers."""

    http: httpx.Client
    process: subprocess.Popen[bytes]
    log: Path

    def post(self, page: str, body: dict[str, Any]) -> dict[str, Any]:
        """An answer; raises `httpx.HTTPError` where there is none, `ValueError` with an error's text."""
        answer = self.http.post(page, json=body)
        found: dict[str, Any] = answer.json()
        if answer.status_code != 200:
            raise ValueError(f"{answer.status_code}: {found.get('error', found)}")
        return found

    def get(self, page: str) -> httpx.Response:
        """A page, whatever its status."""
        return self.http.get(page)


@dataclass(frozen=True)
class Place:
    """Where a server listens, and where its files lie."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def ours(models: list[Path], config: dict[str, Any], place: Place) -> Iterator[Running]:
    """Our server of a model, or of a model and its draft model."""
    path = place.folder / f"{place.port}.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "llgtrt", "serve", *map(str, models), "--served-model-name", "m"]
    command += ["--port", str(place.port), "--runtime-config", str(path)]
    with serving(command, "/ready", place) as server:
        yield server


@contextlib.contextmanager
def peer(
    program: str, model: Path, kind: str, place: Place, more: Sequence[str] = ("-c", "4096", "-t", "1")
) -> Iterator[Running]:
    """llama-server with one slot, keys and values of a type as ours; `more`: further flags."""
    command = [program, "-m", str(model), "-np", "1", "-fa", "on", "--no-webui", *more]
    command += ["-ctk", kind, "-ctv", kind, "--host", "127.0.0.1", "--port", str(place.port)]
    with serving(command, "/health", place) as server:
        yield server


@contextlib.contextmanager
def serving(command: list[str], ready: str, place: Place) -> Iterator[Running]:
    """A server once it answers `ready` with 200; raises `Failed` where it does not start."""
    log = place.folder / f"{place.port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": PACKAGE},
        )
    try:
        with httpx.Client(base_url=place.url, timeout=ANSWER_SECONDS) as http:
            server = Running(http, process, log)
            wait(server, ready)
            yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait(server: Running, ready: str) -> None:
    """Returns once the server answers; raises `Failed` where it ends, gives up, or takes too long."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise Failed(reason(server.log), server.process.returncode < 0 or crashed(server.log))
        with contextlib.suppress(httpx.TransportError):
            answer = server.get(ready)
            if answer.status_code == 200:
                return
            if "json" in answer.headers.get("content-type", ""):
                state = answer.json()
                if state.get("status") in ("failed", "restarting"):
                    raise Failed(plain(state.get("reason") or reason(server.log)), crashed(server.log))
        time.sleep(0.05)
    raise Failed(f"not ready after {START_SECONDS:.0f} s; the last line: {reason(server.log)}", crashed=True)


def crashed(log: Path) -> bool:
    """Whether the log tells of a process that died."""
    text = log.read_text(errors="replace")
    return (
        re.search(r"GGML_ASSERT|GGML_ABORT|SIG(ABRT|SEGV|ILL|FPE|BUS)|panicked|core dumped", text) is not None
    )


def reason(log: Path) -> str:
    """The line of a log that says best why a server did not start: its last error, or else its last line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"GGML_ASSERT|\berror\b|\bERROR\b| E |^llgtrt: ", line)]
    return plain((wrong or lines or ["it said nothing"])[-1])


def plain(line: str) -> str:
    """A line of a log without time and level, and without the folders of files."""
    return re.sub(r"(?<!\S)/\S+/", "", NOISE.sub("", line.strip())).strip()
