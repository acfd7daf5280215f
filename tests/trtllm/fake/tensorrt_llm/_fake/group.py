"""The processes of one executor: alone, or over MPI."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tensorrt_llm._fake.configs import ParallelConfig

POLL = 0.0005
"""Seconds between looks for a message: MPI's own waiting takes a core."""
_GROUP, _LINK, _ASK, _LOGITS = range(1, 5)
"""Tags: between ranks of a group, to and from the orchestrator, for a draft's logits, and these."""


class Group:
    """One process."""

    size, rank = 1, 0

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def broadcast(self, value: Any) -> Any:
        """The leader's value, everywhere."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, at the leader."""
        return [value]


class MpiGroup(Group):
    """Ranks of the world, the leader first, with a communicator of their own."""

    def __init__(self, ranks: list[int]) -> None:
        self._comm = _communicator(ranks)
        self.size, self.rank = self._comm.size, self._comm.rank

    def broadcast(self, value: Any) -> Any:
        if not self.is_leader:
            return _receive(self._comm, 0, _GROUP)
        for rank in range(1, self.size):
            self._comm.send(value, rank, _GROUP)
        return value

    def gather(self, value: Any) -> list[Any]:
        if not self.is_leader:
            self._comm.send(value, 0, _GROUP)
            return []
        return [value, *(_receive(self._comm, rank, _GROUP) for rank in range(1, self.size))]


class Link:
    """Between the orchestrator, rank 0 of the world, and the leader of a group."""

    def __init__(self, ranks: list[int]) -> None:
        self._comm = _communicator([0, *ranks])
        self._other = 1 if self._comm.rank == 0 else 0

    def send(self, message: Any) -> None:
        self._comm.send(message, self._other, _LINK)

    def receive(self) -> Any:
        """A message, if there is one."""
        return (
            self._comm.recv(source=self._other, tag=_LINK) if self._comm.iprobe(self._other, _LINK) else None
        )


def _communicator(ranks: list[int]) -> Any:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.Create_group(world.group.Incl(ranks))


def _receive(comm: Any, source: int, tag: int) -> Any:
    while not comm.iprobe(source, tag):
        time.sleep(POLL)
    return comm.recv(source=source, tag=tag)


def world_rank() -> int:
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or 0)


def world_size() -> int:
    """Processes that `mpirun` has started; 1 without it."""
    return int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or 1)


def ask_for_logits(rank: int, request: int) -> Any:
    """The logits of an ended draft request, from the leader of the draft's ranks."""
    from mpi4py import MPI

    MPI.COMM_WORLD.send(request, rank, _ASK)
    return _receive(MPI.COMM_WORLD, rank, _LOGITS)


def answer_asks(find: Callable[[int], Any]) -> None:
    """Answers who asks for logits now."""
    from mpi4py import MPI

    world, status = MPI.COMM_WORLD, MPI.Status()
    while world.iprobe(MPI.ANY_SOURCE, _ASK, status):
        source = status.Get_source()
        world.send(find(world.recv(source=source, tag=_ASK)), source, _LOGITS)


def join(parallel: ParallelConfig | None, world: int) -> Group:
    """The group of an engine for `world` processes.

    Raises:
        RuntimeError: there are more or fewer.
    """
    started = world_size()
    ranks = parallel.participant_ids if parallel and parallel.participant_ids else list(range(started))
    if len(ranks) != world:
        raise RuntimeError(
            f"[TensorRT-LLM][ERROR] Assertion failed: MPI world size ({len(ranks)}) must equal TP x PP "
            f"({world})"
        )
    return Group() if started == 1 else MpiGroup(ranks)
