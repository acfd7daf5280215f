"""Engines with several ranks: what is started, and by whom."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from llgtrt import _core, mpi
from llgtrt.cli import main

from .live import Folder


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of the ranks of an MPI job."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)


def started(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["serve", *arguments, "--dry-run"]) == 0
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("target", "draft", "flags", "count"),
    [
        (2, 2, [], 2),
        (4, 2, [], 4),
        (2, 1, ["--set", "trtllm.orchestrator=true"], 4),
        (2, 0, [], 2),
        (1, 0, ["--set", "trtllm.orchestrator=true"], 2),
    ],
)
def test_as_many_processes_as_the_engines_have_ranks(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: int,
    draft: int,
    flags: list[str],
    count: int,
) -> None:
    given = [str(Folder(tp=target, draft_len=4).write(tmp_path / "target"))]
    if draft:
        given.append(str(Folder(tp=draft).write(tmp_path / "draft")))
    line = started(capsys, *given, *flags)
    assert Path(line[0]).name in ("mpirun", "mpiexec")
    assert line[1:] == ["-n", str(count), sys.executable, "-m", "llgtrt", "serve", *given, *flags]


def test_one_rank_needs_no_launcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(Folder().write(tmp_path / "engine"))
    assert started(capsys, folder) == [sys.executable, "-m", "llgtrt", "serve", folder]
    assert started(capsys, "toy")[0] == sys.executable


def test_without_mpi_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["serve", str(Folder(tp=2).write(tmp_path / "engine"))]) == 2
    said = capsys.readouterr().err
    assert "openmpi-bin" in said
    assert "2 ranks" in said


def test_ranks_but_the_first_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, followed = str(Folder(tp=2).write(tmp_path / "engine")), []
    monkeypatch.setattr(_core, "follow", lambda *given: followed.append(given))
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    assert main(["serve", folder]) == 0
    assert followed[0][0] == folder


def test_the_launcher_replaces_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    tool = tmp_path / "mpirun"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "execve", lambda *given: ran.append(given))
    mpi.run(mpi.command(3, ["a", "b"]))
    assert ran[0][:2] == (str(tool), [str(tool), "-n", "3", "a", "b"])


def test_a_folder_that_is_no_engine_has_no_ranks(tmp_path: Path) -> None:
    with pytest.raises(_core.InvalidRequest, match="no engine of TensorRT-LLM"):
        _core.follow(str(tmp_path), _core.load_config(None, "{}"))
