"""The program that an install makes, from start to end, in a folder with modules of the same names.

With LLGTRT_WHEEL=FILE also what uvx and pipx make of that wheel, where they are; they fetch what it needs.
With LLGTRT_PROGRAM="COMMAND" a program that was installed elsewhere (launch/check-wheel.sh).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import llgtrt

WHEEL = os.environ.get("LLGTRT_WHEEL", "")
PROGRAM = os.environ.get("LLGTRT_PROGRAM", "")
PATIENCE = 600.0
"""Seconds that a start may take, what is required being fetched first."""
DAYS = ["Tuesday", "Friday"]
SCRIPT = "import sys\nfrom llgtrt.__main__ import main\nsys.exit(main())\n"
TOOLS = {
    "uvx": ["uvx", "--from", WHEEL, "llgtrt"],
    "pipx": ["pipx", "run", "--spec", WHEEL, "llgtrt"],
}


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    """A folder to start in; what is imported from it fails."""
    folder = tmp_path / "here"
    (folder / "llgtrt").mkdir(parents=True)
    for name in ("llgtrt/__init__.py", "json.py"):
        (folder / name).write_text(f"raise SystemExit('the wrong {name}')\n")
    return folder


@pytest.fixture(name="variables")
def fixture_variables(tmp_path: Path) -> dict[str, str]:
    """Variables of a user who has installed nothing."""
    kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    homes = ("UV_CACHE_DIR", "UV_TOOL_DIR", "PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")
    return kept | {name: str(tmp_path / name) for name in homes}


def descendants(process: int) -> Iterator[int]:
    """Process ids of its children and theirs."""
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)


def serves(command: list[str], folder: Path, variables: dict[str, str]) -> None:
    """Starts it, asks it, ends it by SIGTERM, and nothing is left."""
    log = folder.parent / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--port", "0"], cwd=folder, env=variables, stdout=file, stderr=file, text=True
        )
    try:
        url = ready(process, log)
        form = {"type": "json_schema", "json_schema": {"name": "day", "schema": {"enum": DAYS}}}
        messages = [{"role": "user", "content": "Which day comes after Monday?"}]
        asked = {"messages": messages, "max_tokens": 20, "response_format": form}
        answer = httpx.post(url + "/v1/chat/completions", json=asked, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        assert json.loads(answer.json()["choices"][0]["message"]["content"]) in DAYS
        others = list(descendants(process.pid))
        assert others, "the engine has a process of its own"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
        assert [other for other in others if Path(f"/proc/{other}").exists()] == []
    finally:
        process.kill()
        process.wait()


def ready(process: subprocess.Popen[str], log: Path) -> str:
    """Its address, once it would answer."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = re.search(r"ready: \S+ at (http://\S+?),", log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 looks into the working folder")
def test_the_script_takes_nothing_from_the_working_folder(folder: Path, variables: dict[str, str]) -> None:
    script = folder.parent / "bin" / "llgtrt"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    package = str(Path(llgtrt.__file__).parents[1])
    serves([sys.executable, str(script), "serve", "toy"], folder, variables | {"PYTHONPATH": package})


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_that_run_a_wheel(tool: str, folder: Path, variables: dict[str, str]) -> None:
    if not WHEEL:
        pytest.skip("needs a wheel: LLGTRT_WHEEL=FILE (launch/build-wheel.sh makes it)")
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    serves([*TOOLS[tool], "serve", "--demo"], folder, variables)


@pytest.mark.skipif(not PROGRAM, reason="skipped: needs LLGTRT_PROGRAM, as launch/check-wheel.sh sets it")
def test_a_program_that_was_installed(tmp_path: Path, variables: dict[str, str]) -> None:
    """In an empty folder, because it may have Python 3.10."""
    (tmp_path / "empty").mkdir()
    serves([*shlex.split(PROGRAM), "serve", "--demo"], tmp_path / "empty", variables)
