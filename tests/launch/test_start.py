"""Mistakes on the command line, through the real launcher and the real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("LLGTRT_CACHE", ROOT))

pytestmark = pytest.mark.skipif(
    not (HOME / ".venv" / ".extension").exists(), reason="skipped: the launcher has built nothing here yet"
)


def launch(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Calls the launcher from another folder."""
    return subprocess.run(
        [str(ROOT / "launch" / "launch-llgtrt.sh"), *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["toy", "--prot", "0"], "--prot"),
        (["no such folder"], "no such folder"),
        (["."], "."),
        (["toy", "--runtime-config", "missing.json"], "missing.json"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, args: list[str], named: str) -> None:
    done = launch(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr
    assert done.stdout == ""


def test_the_printed_configuration_is_a_valid_file(tmp_path: Path) -> None:
    printed = launch("toy", "--port", "3999", "--print-config", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "printed.json").write_text(printed.stdout)
    again = launch("toy", "--runtime-config", "printed.json", "--print-config", cwd=tmp_path)
    assert again.stdout == printed.stdout
    assert '"port": 3999' in printed.stdout


def test_help_is_the_programs_own(tmp_path: Path) -> None:
    told = launch("--help", cwd=tmp_path)
    flags = [sys.executable, "-I", str(ROOT / "python" / "llgtrt" / "flags.py"), "serve", "--help"]
    own = subprocess.run(flags, capture_output=True, text=True, check=True)
    assert told.returncode == 0, told.stderr
    # Lines may be broken elsewhere: the launcher takes the system's Python.
    assert " ".join(told.stdout.split()).endswith(" ".join(own.stdout.split()))
    assert "--speculative-config" in told.stdout
