"""Answers that wait to be fetched, and everybody who waits for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tensorrt_llm._fake.results import Response

IDLE = 0.05
"""Seconds after which a thread that waits looks again whether it is wanted."""


class Mailbox:
    """The answers of one executor."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.broken = ""
        """Why there will be no more of them."""
        self.closed = False
        self._ready: list[tuple[float, Response]] = []
        self._ended: set[int] = set()

    def put(self, response: Response, last: bool, late: float, twice: bool) -> None:
        """An answer that can be fetched `late` seconds from now, and a last one perhaps `twice`."""
        due = time.monotonic() + late
        with self.changed:
            self._ready.append((due, response))
            if last:
                self._ended.add(response.request_id)
                if twice:
                    self._ready.append((due + late, response))
            self.changed.notify_all()

    def close(self, why: str = "") -> None:
        """There will be no more."""
        with self.changed:
            self.closed, self.broken = True, why
            self.changed.notify_all()

    def count(self, number: int | None) -> int:
        now = time.monotonic()
        with self.changed:
            return sum(due <= now and number in (None, r.request_id) for due, r in self._ready)

    def all(self, end: float | None) -> list[Response]:
        """What is there, of any request; waits until `end` for it."""
        return self._await(lambda _: True, end)

    def of(self, number: int, end: float | None) -> list[Response]:
        """The same of one request."""
        with self.changed:
            waits = any(response.request_id == number for _, response in self._ready)
            if number in self._ended and not waits:
                why = f"ReqId {number} has already been processed and was terminated."
                return [Response(number, why)]
        return self._await(lambda response: response.request_id == number, end)

    def _await(self, wanted: Callable[[Response], bool], end: float | None) -> list[Response]:
        with self.changed:
            while True:
                now = time.monotonic()
                found = [item for item in self._ready if item[0] <= now and wanted(item[1])]
                if found:
                    self._ready = [item for item in self._ready if item not in found]
                    return [response for _, response in found]
                if self.broken:
                    raise RuntimeError(f"[TensorRT-LLM][ERROR] the executor has failed: {self.broken}")
                if self.closed or (end is not None and now >= end):
                    return []
                limits = [IDLE, *(due - now for due, _ in self._ready if due > now)]
                if end is not None:
                    limits.append(end - now)
                self.changed.wait(max(0.0, min(limits)))
