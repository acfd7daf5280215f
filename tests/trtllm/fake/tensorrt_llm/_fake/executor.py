"""The Executor: a thread of its own that iterates, and a queue of responses."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorrt_llm._fake.checked import Duration, accepts, seconds
from tensorrt_llm._fake.configs import ExecutorConfig
from tensorrt_llm._fake.engine import Engine
from tensorrt_llm._fake.enums import ModelType
from tensorrt_llm._fake.group import Group, join
from tensorrt_llm._fake.loop import Loop, News
from tensorrt_llm._fake.requests import Request
from tensorrt_llm._fake.results import Response

_C = ctypes.PyDLL(None)
"""The C library by a way that keeps the GIL."""
_IDLE = 0.05
"""Seconds after which a thread that waits looks again whether it is wanted."""


@dataclasses.dataclass
class _Inbox:
    """What other threads leave for the executor's; under the executor's lock."""

    requests: list[tuple[int, Request]] = dataclasses.field(default_factory=list)
    cancelled: list[int] = dataclasses.field(default_factory=list)


class Executor:
    """As `tensorrt_llm.bindings.executor.Executor`, of decoders from engine folders."""

    def __init__(self, model_path: Any, model_type: ModelType, executor_config: ExecutorConfig) -> None:
        if not isinstance(model_type, ModelType) or not isinstance(executor_config, ExecutorConfig):
            raise TypeError("Executor(): incompatible constructor arguments")
        if model_type is not ModelType.DECODER_ONLY:
            raise RuntimeError("the fake has decoders only")
        self._config = executor_config
        self._changed = threading.Condition()
        self._inbox, self._next, self._unfinished = _Inbox(), 1, set[int]()
        self._ready: list[tuple[float, Response]] = []
        self._ended: set[int] = set()
        self._shutdown, self._broken = False, ""
        self._engine = Engine.open(Path(model_path), executor_config)
        parallel = executor_config.parallel_config
        self._group: Group = join(parallel.participant_ids if parallel else None, self._engine.world)
        self._loop = Loop(self._engine, executor_config, self._group, self._answer)
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self._thread.start()

    # The executor's thread.

    def _run(self) -> None:
        try:
            while True:
                news = self._group.broadcast(self._wait() if self._group.is_leader else None)
                self._loop.take(news)
                if news.stop:
                    break
                self._loop.step()
                self._misbehave()
        except Exception as e:
            self._broken = f"{type(e).__name__}: {e}"
        finally:
            self._loop.close()
            with self._changed:
                self._changed.notify_all()

    def _wait(self) -> News:
        """Until there is work, or it is over: then all requests have ended."""
        with self._changed:
            while self._loop.is_idle and not self._inbox.requests and not self._shutdown:
                self._inbox.cancelled.clear()
                self._changed.wait(_IDLE)
            inbox, self._inbox = self._inbox, _Inbox()
            stop = self._shutdown and self._loop.is_idle and not inbox.requests
        return News(inbox.requests, inbox.cancelled, stop)

    def _misbehave(self) -> None:
        faults = self._engine.faults
        if faults.stop_after and self._loop.iteration >= faults.stop_after:
            raise RuntimeError("a fault was asked for: the executor has shut itself down")
        while faults.hang_after and self._loop.iteration >= faults.hang_after:
            if self._shutdown:
                raise RuntimeError("a fault was asked for: the executor hung until it was shut down")
            time.sleep(_IDLE)

    def _answer(self, response: Response, last: bool) -> None:
        faults = self._engine.faults
        due = time.monotonic() + faults.late_ms / 1000
        with self._changed:
            self._ready.append((due, response))
            if last:
                self._unfinished.discard(response.request_id)
                self._ended.add(response.request_id)
                if faults.twice:
                    self._ready.append((due + faults.late_ms / 1000, response))
            self._changed.notify_all()

    # Everybody else's.

    def shutdown(self) -> None:
        """Waits for all requests to end; on other ranks than the leader's, for the leader. The GIL is free meanwhile."""
        with self._changed:
            self._shutdown = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:  # noqa: A002 (the binding's name)
        self.shutdown()

    def can_enqueue_requests(self) -> bool:
        return self._group.is_leader

    def enqueue_request(self, request: Request) -> int:
        return self.enqueue_requests([request])[0]

    def enqueue_requests(self, requests: list[Request]) -> list[int]:
        if not accepts(list[Request], requests):
            raise TypeError("enqueue_requests(): incompatible function arguments")
        if not self._group.is_leader:
            raise RuntimeError("[TensorRT-LLM][ERROR] only the leader can enqueue requests")
        if self._engine.faults.enqueue_ms:
            _C.usleep(int(self._engine.faults.enqueue_ms * 1000))
        with self._changed:
            self._check_alive()
            most = self._config.max_queue_size or 0
            if most and len(self._inbox.requests) + len(requests) > most:
                raise RuntimeError(f"Maximum queue size of {most} has been reached, please try again later")
            first = self._next
            self._next += len(requests)
            numbered = list(enumerate(requests, first))
            self._inbox.requests += numbered
            self._unfinished |= {number for number, _ in numbered}
            self._changed.notify_all()
        return [number for number, _ in numbered]

    def cancel_request(self, id: int | None = None) -> None:  # noqa: A002 (the binding's name)
        if not accepts(int, id):
            raise TypeError("cancel_request(): incompatible function arguments")
        with self._changed:
            self._inbox.cancelled.append(id or 0)
            self._changed.notify_all()

    def _check_alive(self) -> None:
        if self._broken:
            raise RuntimeError(f"[TensorRT-LLM][ERROR] the executor has failed: {self._broken}")
        if self._shutdown:
            raise RuntimeError("[TensorRT-LLM][ERROR] the executor has been shut down")

    def await_responses(self, *given: Any, **named: Any) -> Any:
        """Three overloads: all responses, those of one id, or of each of several; `timeout` is a Duration."""
        ids, timeout = _overload(given, named)
        end = None if timeout is None else time.monotonic() + seconds(timeout)
        if ids is None:
            return self._await(lambda _: True, end)
        if isinstance(ids, int):
            return self._await_one(ids, end)
        return [self._await_one(number, end) for number in ids]

    def _await_one(self, number: int, end: float | None) -> list[Response]:
        with self._changed:
            waits = any(response.request_id == number for _, response in self._ready)
            if number in self._ended and not waits:
                why = f"ReqId {number} has already been processed and was terminated."
                return [Response(number, why)]
        return self._await(lambda response: response.request_id == number, end)

    def _await(self, wanted: Callable[[Response], bool], end: float | None) -> list[Response]:
        with self._changed:
            while True:
                now = time.monotonic()
                found = [item for item in self._ready if item[0] <= now and wanted(item[1])]
                if found:
                    self._ready = [item for item in self._ready if item not in found]
                    return [response for _, response in found]
                if self._broken:
                    self._check_alive()
                if not self._thread.is_alive() or (end is not None and now >= end):
                    return []
                limits = [_IDLE, *(due - now for due, _ in self._ready if due > now)]
                if end is not None:
                    limits.append(end - now)
                self._changed.wait(max(0.0, min(limits)))

    def get_num_responses_ready(self, id: int | None = None) -> int:  # noqa: A002 (the binding's name)
        now = time.monotonic()
        with self._changed:
            return sum(due <= now and id in (None, r.request_id) for due, r in self._ready)

    def get_latest_iteration_stats(self) -> list[Any]:
        found, self._loop.stats = self._loop.stats, []
        return found

    def get_latest_request_stats(self) -> list[Any]:
        if self._config.request_stats_max_iterations:
            raise NotImplementedError("the fake keeps no statistics of requests")
        return []

    def get_latest_debug_tensors(self) -> list[Any]:
        return []

    def get_kv_cache_event_manager(self) -> None:
        """There are no events: `event_buffer_max_size` is taken for 0."""


def _overload(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Duration | None]:
    """The ids (all, one, several) and the timeout of a call, by their types as the bindings choose."""
    whole = dict(named)
    if given and accepts(Duration | None, given[0]) and not accepts(int, given[0]):
        whole["timeout"] = given[0]
    elif given:
        whole["ids" if isinstance(given[0], (list, tuple)) else "id"] = given[0]
    if len(given) > 1:
        whole["timeout"] = given[1]
    timeout = whole.pop("timeout", None)
    kinds = {"id": int, "ids": list[int]}
    fits = len(given) < 3 and len(whole) < 2 and all(n in kinds and accepts(kinds[n], v) for n, v in whole.items())
    if not fits or accepts(int, timeout) or not accepts(Duration | None, timeout):
        raise TypeError(f"await_responses(): incompatible function arguments: {given} {named}")
    return next(iter(whole.values()), None), timeout
