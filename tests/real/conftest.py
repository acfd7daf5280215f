"""Servers on real models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from server.serving import PACKAGE, PATIENCE, ROOT, Server, serving

from llgtrt import demo

SMALL = "smollm2-135m"
NAMES = (SMALL, "gemma3-270m", "qwen-coder-0.5b", "qwen-coder-1.5b")
DRAFTS = {"qwen-coder-1.5b": "qwen-coder-0.5b"}
CONFIG = {"kv_cache_max_tokens": 8 * 8192, "max_num_tokens": 1024, "engine": {"context": 8192}}


def file_of(name: str) -> Path:
    """A model's file; skips the test where it is not there."""
    folder = os.environ.get("LLGTRT_MODELS")
    path = Path(folder, f"{name}.gguf") if folder else demo.smollm2() if name == SMALL else None
    if path is None or not path.is_file():
        pytest.skip(f"no model {name} (LLGTRT_MODELS)")
    return path


def measure(name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of `bench/run` on the small model, to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "cli.py"), name, str(file_of(SMALL)), *flags],
        env=os.environ | {"PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="session", params=NAMES)
def real(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server on each real model that is there, with its draft model where it has one."""
    draft = DRAFTS.get(request.param)
    flags = [] if draft is None else ["--speculative-model", str(file_of(draft))]
    with serving(str(file_of(request.param)), *flags, config=CONFIG) as server:
        yield server.wait_ready()


@pytest.fixture(scope="session")
def shown() -> Iterator[Server]:
    """The demo as it is started from README."""
    file_of(SMALL)
    with serving("--demo") as server:
        yield server.wait_ready()
