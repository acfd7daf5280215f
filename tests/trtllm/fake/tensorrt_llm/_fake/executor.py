"""The Executor: what its users call. Its work is done elsewhere."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

from tensorrt_llm._fake.checked import Duration, accepts, seconds
from tensorrt_llm._fake.configs import ExecutorConfig
from tensorrt_llm._fake.engine import Engine
from tensorrt_llm._fake.enums import CommunicationMode, ModelType
from tensorrt_llm._fake.group import Link, join, world_size
from tensorrt_llm._fake.mailbox import Mailbox
from tensorrt_llm._fake.requests import Request
from tensorrt_llm._fake.worker import Orchestrator, Worker

_C = ctypes.PyDLL(None)
"""The C library by a way that keeps the GIL."""


class Executor:
    """As `tensorrt_llm.bindings.executor.Executor`, of decoders from engine folders."""

    def __init__(self, model_path: Any, model_type: ModelType, executor_config: ExecutorConfig) -> None:
        if not isinstance(model_type, ModelType) or not isinstance(executor_config, ExecutorConfig):
            raise TypeError("Executor(): incompatible constructor arguments")
        if model_type is not ModelType.DECODER_ONLY:
            raise RuntimeError("the fake has decoders only")
        self._config, self._mailbox = executor_config, Mailbox()
        self._next, self._shutdown = 1, False
        self._engine = Engine.open(Path(model_path), executor_config)
        link = _link(executor_config)
        parallel = executor_config.parallel_config
        self._work: Worker | Orchestrator
        if (
            link
            and parallel
            and parallel.orchestrator_config
            and parallel.orchestrator_config.is_orchestrator
        ):
            self._work = Orchestrator(self._mailbox, link)
        else:
            group = join(parallel, self._engine.world)
            self._work = Worker(self._engine, executor_config, group, self._mailbox, link)

    def shutdown(self) -> None:
        """Waits for all requests to end, and on other ranks for the leader. The GIL is free meanwhile."""
        self._shutdown = True
        self._work.stop()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:  # noqa: A002 (the binding's name)
        self.shutdown()

    def can_enqueue_requests(self) -> bool:
        return self._work.leads

    def enqueue_request(self, request: Request) -> int:
        return self.enqueue_requests([request])[0]

    def enqueue_requests(self, requests: list[Request]) -> list[int]:
        if not accepts(list[Request], requests):
            raise TypeError("enqueue_requests(): incompatible function arguments")
        if not self._work.leads:
            raise RuntimeError("[TensorRT-LLM][ERROR] only the leader can enqueue requests")
        if self._engine.faults.enqueue_ms:
            _C.usleep(int(self._engine.faults.enqueue_ms * 1000))
        with self._mailbox.changed:
            self._check_alive()
            most = self._config.max_queue_size or 0
            if most and self._work.waiting() + len(requests) > most:
                raise RuntimeError(f"Maximum queue size of {most} has been reached, please try again later")
            numbered = list(enumerate(requests, self._next))
            self._next += len(requests)
            self._work.enqueue(numbered)
            self._mailbox.changed.notify_all()
        return [number for number, _ in numbered]

    def _check_alive(self) -> None:
        if self._mailbox.broken:
            raise RuntimeError(f"[TensorRT-LLM][ERROR] the executor has failed: {self._mailbox.broken}")
        if self._shutdown:
            raise RuntimeError("[TensorRT-LLM][ERROR] the executor has been shut down")

    def cancel_request(self, id: int | None = None) -> None:  # noqa: A002 (the binding's name)
        if not accepts(int, id):
            raise TypeError("cancel_request(): incompatible function arguments")
        with self._mailbox.changed:
            self._work.cancel(id or 0)
            self._mailbox.changed.notify_all()

    def await_responses(self, *given: Any, **named: Any) -> Any:
        """Three overloads: all responses, those of one id, or of each of several; `timeout` is a Duration."""
        ids, timeout = _overload(given, named)
        end = None if timeout is None else time.monotonic() + seconds(timeout)
        if ids is None:
            return self._mailbox.all(end)
        if isinstance(ids, int):
            return self._mailbox.of(ids, end)
        return [self._mailbox.of(number, end) for number in ids]

    def get_num_responses_ready(self, id: int | None = None) -> int:  # noqa: A002 (the binding's name)
        return self._mailbox.count(id)

    def get_latest_iteration_stats(self) -> list[Any]:
        return self._work.stats()

    def get_latest_request_stats(self) -> list[Any]:
        if self._config.request_stats_max_iterations:
            raise NotImplementedError("the fake keeps no statistics of requests")
        return []

    def get_latest_debug_tensors(self) -> list[Any]:
        return []

    def get_kv_cache_event_manager(self) -> None:
        """There are no events: `event_buffer_max_size` is taken for 0."""


def _link(config: ExecutorConfig) -> Link | None:
    """The way between orchestrator and ranks, where there is an orchestrator."""
    parallel = config.parallel_config
    if parallel is None or parallel.communication_mode is CommunicationMode.LEADER:
        return None
    if parallel.orchestrator_config is None or not parallel.participant_ids or world_size() == 1:
        raise RuntimeError(
            "orchestrator mode needs an orchestrator_config, participant_ids and several MPI ranks"
        )
    if parallel.orchestrator_config.spawn_processes:
        raise NotImplementedError("the fake spawns no processes; start them with mpirun")
    if config.logits_post_processor_config is not None:
        raise RuntimeError("logits post-processors are not supported in orchestrator mode")
    return Link(parallel.participant_ids)


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
    fits = (
        len(given) < 3
        and len(whole) < 2
        and all(n in kinds and accepts(kinds[n], v) for n, v in whole.items())
    )
    if not fits or accepts(int, timeout) or not accepts(Duration | None, timeout):
        raise TypeError(f"await_responses(): incompatible function arguments: {given} {named}")
    return next(iter(whole.values()), None), timeout
