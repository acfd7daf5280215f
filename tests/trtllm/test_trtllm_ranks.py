"""The fake over real MPI processes."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import FAKE
from .live import Folder, Live
from .ranks import PROMPT

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="skipped: mpirun (openmpi-bin) or mpi4py is not installed",
)


def over(count: int, *words: str) -> Any:
    """What rank 0 of so many prints."""
    command = [
        "mpirun",
        "--oversubscribe",
        "-n",
        str(count),
        sys.executable,
        str(Path(__file__).parent / "ranks.py"),
    ]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **root, "PYTHONPATH": str(FAKE)}
    ran = subprocess.run([*command, *words], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def single(tmp_path: Path) -> Any:
    """What the same models say on one rank."""
    said: dict[str, list[int]] = {}
    for name, blur in (("target", 0.0), ("draft", 10.0)):
        live = Live(Folder(blur=blur).write(tmp_path / f"single-{name}"))
        said[name] = live.greedy(12, PROMPT)
        live.executor.shutdown()
    return said


def test_two_ranks_are_four_executors(tmp_path: Path, single: Any) -> None:
    target = Folder(tp=2, draft_len=5).write(tmp_path / "target")
    draft = Folder(tp=2, blur=10.0).write(tmp_path / "draft")
    seen = over(2, "leader", str(target), str(draft))
    assert seen["plain"] == [single["target"], single["draft"]]
    assert seen["verified"] == single["target"][:4]
    assert set(seen["masked"]) <= set(range(97, 123))
    assert seen["calls"] == 12


def test_an_orchestrator_with_logits_that_never_pass_it(tmp_path: Path, single: Any) -> None:
    target = Folder(tp=2, draft_len=5).write(tmp_path / "target")
    draft = Folder(blur=10.0, gathers=True, batch=2).write(tmp_path / "draft")
    seen = over(4, "orchestrator", str(target), str(draft))
    assert seen["plain"] == single["target"]
    assert all(1 <= count <= 6 for count in seen["counts"])
    assert sum(seen["counts"]) > 8  # the draft's noise is small


def test_a_rank_too_few_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"MPI world size \(1\) must equal"):
        Live(Folder(tp=2).write(tmp_path))
