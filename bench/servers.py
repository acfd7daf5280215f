"""Servers on loopback, started for a measurement and ended with it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 300.0
T = TypeVar("T")


@dataclass(frozen=True)
class Server:
    """A server that is ready."""

    name: str
    url: str
    pid: int

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far of the process and of its children together."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        pids = [pid for path in children for pid in path.read_text().split()]
        return {"server": cpu_seconds(self.pid), "engine": sum(cpu_seconds(int(pid)) for pid in pids)}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def ours(
    target: str, config: dict[str, Any], folder: Path, name: str = "llgtrt", root: Path = ROOT
) -> Iterator[Server]:
    """Our server from the checkout at `root`, with a configuration that is written into `folder`."""
    path = folder / f"{name.replace('/', '-').replace(' ', '-')}.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "llgtrt", "serve", target, "--served-model-name", "m"]
    command += ["--runtime-config", str(path)]
    with serving(name, command, "/ready", {"PYTHONPATH": str(root / "python")}) as server:
        yield server


@contextmanager
def llama_server(program: str, model: str, slots: int, context: int, flags: list[str]) -> Iterator[Server]:
    """The peer at its best: slots and cells as ours, flash attention, its prompt cache (on by default)."""
    threads = str(len(os.sched_getaffinity(0)))
    command = [program, "-m", model, "-np", str(slots), "-c", str(slots * context), "-fa", "on"]
    command += ["-t", threads, "-tb", threads, "--no-webui", "--jinja", *flags]
    with serving("llama-server", command, "/health", {}) as server:
        yield server


@contextmanager
def vllm(folder: str, slots: int, context: int, *, inside: bool = False) -> Iterator[Server]:
    """vLLM, on all cores, of the environment of LLGTRT_VLLM_PYTHON; `inside`: as our server's engine."""
    python = os.environ.get("LLGTRT_VLLM_PYTHON")
    if python is None:
        raise SystemExit(
            "LLGTRT_VLLM_PYTHON is not set: name the Python of an environment with vLLM and llgtrt"
        )
    command = [python, "-m", "vllm.entrypoints.cli.main", "serve", folder, "--host", "127.0.0.1"]
    if inside:
        command = [python, "-I", "-m", "llgtrt", "serve", folder, "--engine", "vllm"]
    command += ["--served-model-name", "m", "--max-num-seqs", str(slots), "--max-model-len", str(context)]
    cores = os.environ.get("VLLM_CPU_OMP_THREADS_BIND") or f"0-{len(os.sched_getaffinity(0)) - 1}"
    env = {"VLLM_CPU_OMP_THREADS_BIND": cores, "LLGTRT_VLLM": "off", "VLLM_NO_USAGE_STATS": "1"}
    env["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE") or "2"
    name, ready = ("llgtrt on vLLM", "/ready") if inside else ("vLLM", "/health")
    with serving(name, command, ready, env) as server:
        yield server


def each(
    model: str, peer: str | None, clients: int, context: int, measure: Callable[[Server], T]
) -> dict[str, T]:
    """What `measure` finds with our server, and then with the peer (a llama-server program), by their names.

    Each has `clients` slots of `context` tokens.
    """
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        config = {"max_batch_size": clients, "engine": {"context": context}}
        with ours(model, config, Path(folder)) as server:
            results[server.name] = measure(server)
    if peer:
        with llama_server(peer, model, clients, context, []) as server:
            results[server.name] = measure(server)
    return results


@contextmanager
def serving(name: str, command: list[str], ready: str, env: dict[str, str]) -> Iterator[Server]:
    """A server once it answers `ready` with 200; raises `RuntimeError` where it does not start."""
    port = free_port()
    command = [*command, "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=null, stderr=null, env=os.environ | env)
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(url + ready):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"did not start: {' '.join(command)}")
            time.sleep(0.1)
        yield Server(name, url, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    """Whether a GET gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
