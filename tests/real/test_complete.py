"""Answers of a real model with a schema are whole, however few tokens they may have."""

from __future__ import annotations

import os
import subprocess
import sys

from server.serving import PACKAGE, PATIENCE, ROOT

from .conftest import SMALL, file_of


def test_no_answer_with_a_schema_is_cut() -> None:
    command = [sys.executable, str(ROOT / "bench" / "cli.py"), "complete", str(file_of(SMALL))]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
