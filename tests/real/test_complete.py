"""Answers of a real model with a schema are whole, however few tokens they may have."""

from __future__ import annotations

from .conftest import measure


def test_no_answer_with_a_schema_is_cut() -> None:
    done = measure("complete")
    assert done.returncode == 0, done.stdout + done.stderr
