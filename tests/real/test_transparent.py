"""What a real model rightly writes without a schema, it writes with it, token for token."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from server.serving import PACKAGE, PATIENCE, ROOT

from .conftest import SMALL, file_of

COUNT = 60


def test_a_schema_changes_no_answer_that_is_right() -> None:
    command = [sys.executable, str(ROOT / "bench" / "cli.py"), "transparent", str(file_of(SMALL))]
    done = subprocess.run(
        [*command, "--count", str(COUNT)],
        env=os.environ | {"PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"llgtrt *\| (\d+) of (\d+)", done.stdout)
    assert found, done.stdout
    assert found[1] == found[2]
    assert int(found[2]) > COUNT // 2
