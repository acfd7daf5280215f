"""`vllm serve` with the plug-in, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
"""Seconds that a start or an answer may take."""


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "multipleOf": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
"""XGrammar refuses two of its keywords."""


class Server:
    """A running server, and requests to it."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.http = httpx.Client(base_url=url, timeout=PATIENCE)
        self._log = log

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def chat(self, content: str, **fields: Any) -> httpx.Response:
        body = {"model": "m", "messages": [{"role": "user", "content": content}], "temperature": 0.0}
        return self.http.post("/v1/chat/completions", json=body | fields)

    def texts(self, content: str, **fields: Any) -> list[str]:
        """Texts of the answer's choices, which all have ended by themselves."""
        answer = self.chat(content, **fields)
        assert answer.status_code == 200, answer.text
        choices = answer.json()["choices"]
        assert {choice["finish_reason"] for choice in choices} == {"stop"}, answer.text
        return [choice["message"]["content"] for choice in choices]

    def metric(self, name: str) -> float:
        """The sum of a counter."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextlib.contextmanager
def running(
    command: list[str], log: Path, mode: str, cores: str = "0-1", page: str = "/health"
) -> Iterator[Server]:
    """A server that the command starts, once `--port` and a number are behind it; it has ended after.

    Args:
        command: its arguments behind Python's own; the model's name is `m`.
        log: where the log goes.
        mode: the value of LLGTRT_VLLM.
        cores: of the workers, as VLLM_CPU_OMP_THREADS_BIND takes them.
        page: says whether the server answers requests.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {
        "LLGTRT_VLLM": mode,
        "VLLM_CPU_OMP_THREADS_BIND": cores,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    whole = [os.environ["LLGTRT_VLLM_PYTHON"], *command, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(whole, stdout=output, stderr=output, env=os.environ | variables)
    server = Server(process, f"http://127.0.0.1:{port}", log)
    try:
        _wait(server, page)
        yield server
    finally:
        server.http.close()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def serving(
    model: str, folder: Path, *flags: str, mode: str, cores: str = "0-1", eager: bool = False
) -> Iterator[Server]:
    """Starts `vllm serve`; it has ended after.

    Args:
        model: a Hugging Face folder.
        folder: where the log goes.
        flags: more of its flags.
        mode: as of `running`, like `cores`.
        cores: of the workers.
        eager: starts in a third of the time, and computes more slowly.
    """
    command = ["-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", "m"]
    command += ["--max-num-seqs", "16", "--max-model-len", "1024", *flags]
    command += ["--enforce-eager"] if eager else []
    with running(command, folder / "vllm.log", mode, cores) as server:
        yield server


@contextlib.contextmanager
def llgtrt(model: str, folder: Path, *flags: str, cores: str = "0-1", eager: bool = True) -> Iterator[Server]:
    """Starts llgtrt's server with vLLM as its engine; the rest is as of `serving`."""
    command = ["-I", "-m", "llgtrt", "serve", model, "--engine", "vllm", "--served-model-name", "m"]
    command += ["--max-num-seqs", "16", "--max-model-len", "1024", *flags]
    command += ["--set", "vllm.engine_args.enforce_eager=true"] if eager else []
    with running(command, folder / "llgtrt.log", "auto", cores, "/ready") as server:
        yield server


def _wait(server: Server, page: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log()[-3000:]
        with contextlib.suppress(httpx.TransportError):
            if server.http.get(page).status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError(server.log()[-3000:])


def schema_format(schema: Mapping[str, Any] | bool) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
