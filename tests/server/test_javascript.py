"""OpenAI's SDK for JavaScript on the demo model: `tests/clients_js`, and the call in the README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from .serving import PATIENCE, ROOT, Server

FOLDER = ROOT / "tests" / "clients_js"
OLDEST = 20
"""The first Node whose test runner has all that is used. The SDK itself asks for 22, and runs on 20."""


@pytest.fixture(name="node", scope="session")
def fixture_node() -> str:
    """The program that runs JavaScript, where the SDK is installed for it."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules" / "openai").exists():
        pytest.skip(f"needs Node {OLDEST} and its packages: npm ci --prefix tests/clients_js")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").split(".")[0]) < OLDEST:
        pytest.skip(f"needs Node {OLDEST}, there is {version.strip()}")
    return node


def run(command: list[str], server: Server, text: str | None = None) -> str:
    """What a program that is done says; where it failed, the test does."""
    done = subprocess.run(
        command,
        input=text,
        cwd=FOLDER,
        env=os.environ | {"LLGTRT_URL": server.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.test.js")))
def test_the_official_client(node: str, demo: Server, name: str) -> None:
    said = run([node, "--test", "--test-reporter", "tap", name], demo)
    passed = re.search(r"^# pass (\d+)$", said, re.MULTILINE)
    assert passed is not None, said
    assert int(passed[1]) > 1, said


def test_the_call_in_the_readme(node: str, demo: Server) -> None:
    found = re.search(r"```js\n(.*?)```\n\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    program = found[1].replace("http://127.0.0.1:3000", demo.url)
    assert demo.url in program
    assert run([node, "--input-type=module", "-"], demo, program) == found[2]
