"""Ranks of TensorRT-LLM: how many processes an engine needs, and the command line that starts them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llgtrt.settings import Settings, StartError

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
"""Where launchers say which process this is: Open MPI, what it is built on, and MPICH."""


def rank() -> int | None:
    """The number of this process, if a launcher of MPI started it."""
    return next((int(os.environ[name]) for name in _RANKS if name in os.environ), None)


def processes(settings: Settings) -> int:
    """How many the engines need.

    Target and draft model share ranks; behind an orchestrator each has ranks of its own.
    """
    if settings.is_toy:
        return 1
    config = json.loads(settings.config)
    draft = config["speculative"]["draft_model"]
    target, drafts = _ranks(settings.target), _ranks(draft) if draft else 0
    if config["trtllm"]["orchestrator"] and target:
        return 1 + target + drafts
    return max(1, target, drafts)


def _ranks(folder: str) -> int:
    """Ranks that an engine was built for; 0 where there is none of TensorRT-LLM."""
    try:
        described: Any = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError):
        return 0
    if not isinstance(described, dict) or "build_config" not in described:
        return 0
    mapping = described.get("pretrained_config", {}).get("mapping", {})
    sizes = [mapping.get(name, 1) for name in ("tp_size", "pp_size")]
    return int(sizes[0]) * int(sizes[1]) if all(isinstance(size, int) for size in sizes) else 1


def command(count: int, own: Sequence[str]) -> list[str]:
    """The command line that starts `own` so many times; where MPI is not installed, as it would be."""
    launcher = shutil.which("mpirun") or shutil.which("mpiexec") or "mpirun"
    return [launcher, "-n", str(count), *own]


def run(line: Sequence[str]) -> None:
    """Goes on as that command line.

    Raises:
        StartError: MPI is not installed.
    """
    if shutil.which(line[0]) is None:
        raise StartError(
            f"the engine has {line[2]} ranks, which mpirun starts, and it is not installed; "
            "install Open MPI (openmpi-bin), or run in TensorRT-LLM's container"
        )
    os.execve(line[0], list(line), environment(os.environ))


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """That of the launcher: containers run as root, which Open MPI refuses otherwise."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return dict(own) | (allowed if os.geteuid() == 0 else {})
