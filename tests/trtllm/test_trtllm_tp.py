"""Engines of two ranks, served over real MPI processes: target and draft on each are four executors."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import PATIENCE

from .served import END_BIAS, Folder, Server, over_fake, serving
from .test_trtllm_chats import UNDRAFTED, bodies, essences

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="skipped: mpirun (openmpi-bin) or mpi4py is not installed",
)
TARGET = Folder(tp=2, draft_len=6, end_bias=END_BIAS, gathers=True)
DRAFT = Folder(tp=2, blur=8.0, end_bias=END_BIAS, gathers=True)
DRAFTING: dict[str, Any] = {"speculative": {"max_draft_len": 6, "adaptive": False}}


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI may be started by root, and on fewer cores than ranks."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    """The same model in the core."""
    with serving(f"toy:end_bias={END_BIAS:.0f}", config=UNDRAFTED) as server:
        yield server.wait_ready()


def processes(word: str) -> set[int]:
    """Those with `word` on their command line."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if word in line:
                found.add(int(entry.name))
    return found


def test_two_ranks_say_what_one_does_and_leave_nothing_behind(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, TARGET, DRAFT, DRAFTING) as server:
        ranks = processes(str(tmp_path))
        assert len(ranks) >= 3, server.log()  # the launcher and two ranks
        asked = bodies(0.0)[:14]
        for body, mine, theirs in zip(asked, essences(server, asked), essences(embedded, asked), strict=True):
            assert mine == theirs, body
        assert server.fates("draft_model")["accepted"] > 10
        server.stop()
    end = time.monotonic() + PATIENCE
    while processes(str(tmp_path)):
        assert time.monotonic() < end, processes(str(tmp_path))
        time.sleep(0.1)


def test_an_orchestrator_serves_a_pair(tmp_path: Path, embedded: Server) -> None:
    """Rank 0 serves, rank 1 drafts, ranks 2 and 3 are the target; the draft's logits decide."""
    config = {
        "trtllm": {"orchestrator": True},
        "speculative": {"max_draft_len": 6, "adaptive": False, "use_logits": True},
    }
    draft = Folder(blur=8.0, end_bias=END_BIAS, gathers=True)
    with over_fake(tmp_path, TARGET, draft, config) as server:
        asked = [body for body in bodies(0.0) if body["user"] in ("plain", "stop", "frequency")]
        for body, mine, theirs in zip(asked, essences(server, asked), essences(embedded, asked), strict=True):
            assert mine == theirs, body
        assert server.fates("draft_model")["accepted"] > 10
        constrained = {**bodies(0.0)[1], "stream": False}
        assert server.http.post("/v1/chat/completions", json=constrained).status_code == 400
