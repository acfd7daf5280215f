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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("LLGTRT_DATA", ROOT.parent / "shared" / "data"))
"""The folder with what others publish."""
PATIENCE = 600.0
"""Seconds that anything may take: a machine may stall for minutes. Pytest ends what hangs."""
PACKAGE = os.environ.get("LLGTRT_PACKAGE", str(ROOT / "python"))
"""The folder with the package: that of another build lies elsewhere."""
PYTHON = os.environ.get("LLGTRT_PYTHON", sys.executable)
"""The Python that starts the server, where it is not that of the tests (launch/check-clients.sh)."""
COMMAND = os.environ.get("LLGTRT_SERVER", "-m llgtrt").split()
"""Arguments of Python that start the server; tests/python/fake_core.py can take its place."""


class Server:
    """A running `llgtrt serve`, or what `start` is in its place."""

    def __init__(
        self,
        target: str,
        *flags: str,
        config: dict[str, Any] | None = None,
        path: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        start: Sequence[str] = (*COMMAND, "serve"),
    ) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115 (closed in stop)
        self._config = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115
        json.dump(config or {}, self._config)
        self._config.flush()
        command = [PYTHON, *start, target, "--port", "0"]
        command += ["--runtime-config", self._config.name, *flags]
        found = {"PYTHONPATH": os.pathsep.join(map(str, (*path, PACKAGE)))}
        variables = os.environ | found | dict(environment or {})
        self.process = subprocess.Popen(command, stderr=self._log, stdout=self._log, env=variables)
        self.url = self._address()
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def _address(self) -> str:
        for _ in until():
            found = re.search(r"listening on (https?://\S+?),", self.log())
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
        self._wait(lambda: self.http.get("/ready").status_code == 200)
        return self

    def wait_away(self) -> None:
        """Waits until it says that requests would not be answered."""
        self._wait(lambda: self.http.get("/ready").status_code == 503)

    def _wait(self, holds: Callable[[], bool]) -> None:
        for _ in until():
            if holds():
                return
            assert self.process.poll() is None, self.log()
        raise AssertionError(self.http.get("/metrics").text + self.log())

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, without its retries."""
        settings: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": PATIENCE, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **settings)

    def metric(self, name: str) -> float:
        """A metric's value; with labels as `/metrics` writes them."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.http.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    def fates(self, source: str) -> Counter[str]:
        """What became of the tokens that a source drafted."""
        counts: Counter[str] = Counter()
        for fate in ("accepted", "target", "grammar", "stop", "unverified"):
            counts[fate] = int(self.metric(f'llgtrt_draft_fates_total{{fate="{fate}",source="{source}"}}'))
        return +counts

    def wait_idle(self) -> None:
        """Waits until nothing runs or waits any more."""
        self._wait(
            lambda: self.metric("llgtrt_running_choices") + self.metric("llgtrt_waiting_requests") == 0
        )

    def wait_metric(self, name: str, least: float = 1) -> None:
        """Waits until a metric has risen to `least`."""
        self._wait(lambda: self.metric(name) >= least)

    def children(self) -> list[int]:
        """Process ids of the engine."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends it; its exit code."""
        self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.close()

    def close(self) -> None:
        """Leaves nothing behind, whether it still runs or not."""
        self.process.kill()
        self.process.wait()
        self.http.close()
        self._log.close()
        self._config.close()


def until() -> Iterator[None]:
    """Ticks for as long as patience lasts: a loop that ends has waited in vain."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        yield
        time.sleep(0.05)


@contextlib.contextmanager
def serving(
    target: str = "toy", *flags: str, config: dict[str, Any] | None = None, **more: Any
) -> Iterator[Server]:
    """A server of the test's own."""
    server = Server(target, *flags, config=config, **more)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def serving_demo(config: dict[str, Any] | None = None) -> Iterator[Server]:
    """A server on the demo model, ready."""
    settings = {"max_batch_size": 32, **(config or {})}
    with serving(str(ROOT / "demo" / "target"), "--served-model-name", "demo", config=settings) as server:
        yield server.wait_ready()
