"""The processes of one executor: alone, or over MPI."""

from __future__ import annotations

import time
from typing import Any

_POLL = 0.0005
"""Seconds between looks for a message: MPI's own waiting takes a core."""
_TAG = 1


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
    """Processes of an MPI communicator, with one of its own."""

    def __init__(self, participants: list[int] | None) -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if participants is None:
            self._comm = world.Dup()
        else:
            self._comm = world.Create_group(world.group.Incl(participants))
        self._any = MPI.ANY_SOURCE
        self.size, self.rank = self._comm.size, self._comm.rank

    def broadcast(self, value: Any) -> Any:
        if not self.is_leader:
            return self._receive(0)
        for rank in range(1, self.size):
            self._comm.send(value, rank, _TAG)
        return value

    def gather(self, value: Any) -> list[Any]:
        if not self.is_leader:
            self._comm.send(value, 0, _TAG)
            return []
        return [value, *(self._receive(rank) for rank in range(1, self.size))]

    def _receive(self, source: int) -> Any:
        while not self._comm.iprobe(source, _TAG):
            time.sleep(_POLL)
        return self._comm.recv(source=source, tag=_TAG)


def world_size() -> int:
    """Processes that `mpirun` has started; 1 without it."""
    import os

    return int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or 1)


def join(participants: list[int] | None, world: int) -> Group:
    """The group of an engine for `world` processes.

    Raises:
        RuntimeError: there are more or fewer.
    """
    started = world_size()
    count = len(participants) if participants is not None else started
    if count != world:
        raise RuntimeError(
            f"[TensorRT-LLM][ERROR] Assertion failed: MPI world size ({count}) must equal TP x PP of the engine ({world})"
        )
    if started == 1:
        return Group()
    return MpiGroup(participants)
