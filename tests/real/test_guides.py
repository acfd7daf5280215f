"""The examples of README and of the documentation, run as they stand against the demo.

Blocks of `python` and `sh` run in order; the blocks of `python` share their names. A plain block that follows
directly is what they print. Blocks in another language, such as `console`, are only shown.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from server.serving import PACKAGE, PATIENCE, ROOT, Server

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted((DOCS / "guides").glob("*.md")),
    *(
        DOCS / f"{name}.md"
        for name in (
            "configuration",
            "decisions",
            "grammars",
            "migrating",
            "offline",
            "ollama",
            "speculation",
            "tools",
        )
    ),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:3000"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Kiel", "Rome"]}}},
    },
}
PRELUDE = "import ollama\nfrom openai import OpenAI\nclient = OpenAI(base_url=URL, api_key='none')\n"
"""What the examples of reference pages take for granted."""


def run_python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec", dont_inherit=True), names)
    return printed.getvalue()


def run_shell(code: str) -> str:
    own = f'llgtrt() {{ "{sys.executable}" -m llgtrt "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-euc", own + code],
        env=os.environ | {"PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith('{"error"'), done.stdout
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, shown: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "URL": shown.url + "/v1",
        "messages": [{"role": "user", "content": "Say yes."}],
        "tools": [TOOL],
    }
    ran = 0
    with warnings.catch_warnings():
        # Examples leave their connections to the interpreter.
        warnings.simplefilter("ignore", ResourceWarning)
        run_python(PRELUDE, names)
        for language, code, expected in BLOCK.findall(page.read_text()):
            if language in ("python", "sh"):
                code = code.replace(ADDRESS, shown.url)
                printed = run_python(code, names) if language == "python" else run_shell(code)
                assert not expected or printed == expected, code
                ran += 1
        names.clear()
        gc.collect()
    assert ran > 0
