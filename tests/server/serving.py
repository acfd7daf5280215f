"""Servers as processes, reached over real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
COMMAND = os.environ.get("LLGTRT_SERVER", "-m llgtrt").split()
"""Arguments of Python that start the server; tests/python/fake_core.py can take its place."""


class Server:
    """A running `llgtrt serve`."""

    def __init__(self, target: str, *flags: str, config: dict[str, Any] | None = None) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115 (closed in stop)
        self._config = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115
        json.dump(config or {}, self._config)
        self._config.flush()
        command = [sys.executable, *COMMAND, "serve", target, "--port", "0"]
        command += ["--runtime-config", self._config.name, *flags]
        path = {"PYTHONPATH": str(ROOT / "python")}
        self.process = subprocess.Popen(command, stderr=self._log, stdout=self._log, env=os.environ | path)
        self.url = self._address()
        self.http = httpx.Client(base_url=self.url, timeout=90)

    def _address(self) -> str:
        for _ in _until(START_SECONDS):
            found = re.search(r"listening on (http://\S+?),", self.log())
            if found:
                return found[1]
            assert self.process.poll() is None, self.log()
        raise AssertionError("no address\n" + self.log())

    def log(self) -> str:
        """What the server has logged so far."""
        return Path(self._log.name).read_text()

    @property
    def host(self) -> tuple[str, int]:
        """Address for plain sockets."""
        name, port = self.url.removeprefix("http://").split(":")
        return name, int(port)

    def wait_ready(self) -> Server:
        """Waits until requests would be answered."""
        for _ in _until(START_SECONDS):
            if self.http.get("/ready").status_code == 200:
                return self
            assert self.process.poll() is None, self.log()
        raise AssertionError("not ready\n" + self.log())

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, without its retries."""
        settings: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 120, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **settings)

    def metric(self, name: str) -> float:
        """A metric's value; with labels as `/metrics` writes them."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.http.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    def wait_idle(self, seconds: float = 90) -> None:
        """Waits until nothing runs or waits any more."""
        for _ in _until(seconds):
            if self.metric("llgtrt_running_choices") + self.metric("llgtrt_waiting_requests") == 0:
                return
        raise AssertionError(self.http.get("/metrics").text)

    def children(self) -> list[int]:
        """Process ids of the engine."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]

    def stop(self, number: int = signal.SIGTERM, seconds: float = 90) -> int:
        """Ends it; its exit code."""
        self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        finally:
            self.close()

    def close(self) -> None:
        """Leaves nothing behind, whether it still runs or not."""
        self.process.kill()
        self.process.wait()
        self.http.close()
        self._log.close()
        self._config.close()


def _until(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.05)


@contextlib.contextmanager
def serving(target: str = "toy", *flags: str, config: dict[str, Any] | None = None) -> Iterator[Server]:
    """A server of the test's own."""
    server = Server(target, *flags, config=config)
    try:
        yield server
    finally:
        server.close()
