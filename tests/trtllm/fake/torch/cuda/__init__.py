"""Streams. Work is done at once; what is kept is which work on which stream others have waited for."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from torch._kinds import device as Device  # noqa: N812

_FIRST = 0x7F00_0000_0000
"""Where the invented addresses of streams begin."""
_addresses = itertools.count(_FIRST, 0x100)
_known: dict[int, Stream] = {}
_local = threading.local()


class Stream:
    """A queue of work: `issued` pieces of its own, and how many of each stream's it comes after."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = Device("cuda" if device is None else device)
        self.cuda_stream = next(_addresses)
        self.issued = 0
        self._after: dict[int, int] = {}
        self._reads: list[tuple[Any, bytes]] = []
        _known[self.cuda_stream] = self

    def synchronize(self) -> None:
        """Waits for all of its work, which from now on everything comes after.

        Raises:
            RuntimeError: pinned memory changed while a copy from it was under way.
        """
        reads, self._reads = self._reads, []
        _finished[self.cuda_stream] = self.issued
        for array, before in reads:
            if array.tobytes() != before:
                raise RuntimeError("pinned memory was changed while a non_blocking copy was reading it")

    def query(self) -> bool:
        return _finished.get(self.cuda_stream, 0) >= self.issued

    def wait_stream(self, stream: Stream) -> None:
        """Its later work comes after what `stream` has been given so far."""
        self._after[stream.cuda_stream] = stream.issued
        for address, count in stream._after.items():
            self._after[address] = max(count, self._after.get(address, 0))

    def wait_event(self, event: Event) -> None:
        for address, count in event.marks.items():
            self._after[address] = max(count, self._after.get(address, 0))

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def issue(self) -> tuple[int, int]:
        """One more piece of work; its mark."""
        self.issued += 1
        return self.cuda_stream, self.issued

    def comes_after(self, mark: tuple[int, int]) -> bool:
        """Whether what is issued now sees the work of `mark`."""
        address, number = mark
        seen = max(self._after.get(address, 0), _finished.get(address, 0))
        return address == self.cuda_stream or number <= seen

    def reads(self, array: Any) -> None:
        """Notes a copy that goes on reading host memory until the stream is synchronised."""
        self._reads.append((array, np.ascontiguousarray(array).tobytes()))


class ExternalStream(Stream):
    """Somebody else's stream, by its address."""

    def __new__(cls, stream_ptr: int, device: Any = None) -> ExternalStream:
        found = _known.get(stream_ptr)
        if found is None:
            raise RuntimeError(f"{stream_ptr:#x} is no stream")
        return found  # type: ignore[return-value] # the same object, so that its marks are the same

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        raise AssertionError("never: __new__ gives a Stream")


class Event:
    """A point in a stream's work."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.marks: dict[int, int] = {}
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._stream = stream or current_stream()
        self.marks = {**self._stream._after, self._stream.cuda_stream: self._stream.issued}

    def wait(self, stream: Stream | None = None) -> None:
        (stream or current_stream()).wait_event(self)

    def synchronize(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()

    def query(self) -> bool:
        return all(_finished.get(address, 0) >= count for address, count in self.marks.items())


_finished: dict[int, int] = {}
_default = Stream()


def is_available() -> bool:
    return device_count() > 0


def device_count() -> int:
    """`FAKE_CUDA_DEVICES` says how many."""
    return int(os.environ.get("FAKE_CUDA_DEVICES", "1"))


def is_initialized() -> bool:
    return True


def init() -> None:
    """Nothing to do."""


def current_device() -> int:
    return 0


def set_device(device: Any) -> None:
    """All devices are the same.

    Raises:
        RuntimeError: there is no such device.
    """
    if (Device(device).index or 0) >= device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")


def default_stream(device: Any = None) -> Stream:
    return _default


def current_stream(device: Any = None) -> Stream:
    found: Stream = getattr(_local, "stream", _default)
    return found


def set_stream(stream: Stream) -> None:
    _local.stream = stream


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Work inside goes to `stream`, on this thread."""
    before = current_stream()
    _local.stream = before if stream is None else stream
    try:
        yield
    finally:
        _local.stream = before


def synchronize(device: Any = None) -> None:
    """Waits for every stream."""
    for known in list(_known.values()):
        known.synchronize()
