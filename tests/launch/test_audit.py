"""launch/audit.py: what it finds, and what it says where a database of vulnerabilities cannot be reached."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(not (TOOLS / "pip-audit").exists(), reason="skipped: no pip-audit here")


def audit(what: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    path = variables.pop("PATH", f"{TOOLS}:{os.environ['PATH']}")
    command = [sys.executable, str(cwd / "launch" / "audit.py"), what]
    environment = os.environ | {"PATH": path} | variables
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


class Osv(http.server.BaseHTTPRequestHandler):
    """OSV's API, for which some versions of some packages are vulnerable, or which fails."""

    vulnerable: tuple[str, str] | None = None
    status = 200

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name, version = query["package"]["name"], query["version"]
        affected = {"package": {"ecosystem": "PyPI", "name": name}, "versions": [version], "ranges": []}
        bugs = [{"id": "OSV-1", "summary": "a test", "affected": [affected]}]
        answer = json.dumps({"vulns": bugs} if (name, version) == self.vulnerable else {}).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def osv(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Osv]]:
    handler = type("OneOsv", (Osv,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"http://127.0.0.1:{server.server_port}/v1/query")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder that has what `audit.py crates` reads, without the sources, which Cargo only looks for."""
    for name in ("Cargo.toml", "Cargo.lock", "launch/audit.py", "launch/deny.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("rust", "bench", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def fake(folder: Path, name: str, script: str) -> str:
    """A PATH on which the program `name` is the script."""
    folder.mkdir()
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_packages_without_known_vulnerabilities(osv: type[Osv]) -> None:
    done = audit("packages")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 90


def test_a_vulnerable_package_is_named(osv: type[Osv]) -> None:
    line = next(x for x in (ROOT / "launch/requirements/run.txt").read_text().splitlines() if "jinja2==" in x)
    name, _, version = line.rstrip(" \\").partition("==")
    osv.vulnerable = (name, version)
    done = audit("packages")
    assert (done.returncode, f"{name} {version}: OSV-1" in done.stdout) == (1, True)


def test_a_database_that_is_not_there_is_a_notice(osv: type[Osv]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        refused = audit("packages", PIP_AUDIT_OSV_URL=url)
    osv.status = 503
    for done in (refused, audit("packages")):
        assert done.returncode == 77, done.stdout + done.stderr
        assert done.stdout.startswith("notice: OSV's database cannot be reached from here")


def test_a_tool_that_fails_is_no_notice(tmp_path: Path) -> None:
    path = fake(tmp_path / "bin", "pip-audit", "echo 'error: unknown option' >&2; exit 2")
    done = audit("packages", PATH=path)
    assert (done.returncode, done.stdout) == (1, "error: unknown option\n")


def test_crates_with_other_licences_or_versions_are_refused(copy: Path) -> None:
    rules = copy / "launch" / "deny.toml"
    text = rules.read_text()
    for old, new, found in (
        ('    "BSD-3-Clause",\n', "", "license is not explicitly allowed"),
        ('    { crate = "syn@', '    { crate = "other@', "found 2 duplicate entries for crate 'syn'"),
        ("skip = [\n", 'skip = [\n    { crate = "serde", reason = "none" },\n', "unnecessary-skip"),
    ):
        assert old in text
        rules.write_text(text.replace(old, new))
        done = audit("crates", copy)
        assert (done.returncode, found in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("advisories", "status"),
    [
        ("true", 0),
        ("echo 'error[vulnerability]: a crate' >&2; exit 1", 1),
        ("echo '[ERROR] failed to fetch advisory database https://…' >&2; exit 1", 77),
    ],
)
def test_advisories_about_crates(tmp_path: Path, advisories: str, status: int) -> None:
    script = f'case "$*" in *"check advisories") {advisories} ;; esac'
    done = audit("crates", PATH=fake(tmp_path / "bin", "cargo-deny", script))
    assert done.returncode == status
    assert ("a crate" in done.stdout) == (status == 1)
    assert ("notice: RustSec's" in done.stdout) == (status == 77)
