"""What a real model rightly writes without a schema, it writes with it, token for token."""

from __future__ import annotations

import re

from .conftest import measure

COUNT = 60


def test_a_schema_changes_no_answer_that_is_right() -> None:
    done = measure("transparent", "--count", str(COUNT))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"llgtrt *\| (\d+) of (\d+)", done.stdout)
    assert found, done.stdout
    assert found[1] == found[2]
    assert int(found[2]) > COUNT // 2
