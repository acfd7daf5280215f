"""Clients that are programs of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from server.serving import PATIENCE, ROOT

TOKENIZER = str(ROOT / "demo" / "target")
ALONE = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""Nothing is fetched from elsewhere: what would be, fails."""


def command(name: str) -> str:
    """A program of this environment; skips where it is not there."""
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        pytest.skip(f"{name} is not installed")
    return str(program)


def run(folder: Path, *arguments: str, **variables: str) -> str:
    """Runs it in a folder; what it wrote."""
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=os.environ | ALONE | {"HOME": str(folder)} | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
