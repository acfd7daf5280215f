"""Waiting for answers, cancelling, shutting down, and what goes wrong on request."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from .live import Folder, Live, reason_of, running, tokens_of, trt

SLOW = Folder(faults={"iteration_ms": 5.0})


def test_overloads(tmp_path: Path) -> None:
    with running(tmp_path) as live:
        first, second = live.enqueue(), live.enqueue()
        (found,) = live.executor.await_responses(second)
        assert found.request_id == second
        assert [len(found) for found in live.executor.await_responses([first])] == [1]
        live.enqueue(client_id=77)
        (other,) = live.executor.await_responses(timeout=datetime.timedelta(seconds=5))
        assert other.client_id == 77
        numbers = live.executor.enqueue_requests([trt.Request([1], 2), trt.Request([1], 3)])
        pairs = live.executor.await_responses(ids=numbers, timeout=5.0)
        assert [r.request_id for (r,) in pairs] == numbers
        for given, named in (((), {"timeout": 5}), (("x",), {}), ((1, 2), {}), ((), {"timeouts": 1.0})):
            with pytest.raises(TypeError):
                live.executor.await_responses(*given, **named)


def test_time_outs(tmp_path: Path) -> None:
    with running(tmp_path, SLOW) as live:
        begin = time.monotonic()
        assert live.executor.await_responses(timeout=0.05) == []
        assert live.executor.await_responses(99, timeout=0.05) == []
        assert live.executor.await_responses(0.05) == []
        assert 0.15 <= time.monotonic() - begin < 5
        number = live.enqueue(max_tokens=2)
        assert live.executor.get_num_responses_ready(number) == 0
        assert [live.last(number).is_final, live.executor.get_num_responses_ready()] == [True, 0]


def test_an_answered_request_is_over(tmp_path: Path) -> None:
    with running(tmp_path) as live:
        number = live.enqueue()
        live.last(number)
        (again,) = live.executor.await_responses(number)
        assert again.error_msg == f"ReqId {number} has already been processed and was terminated."
        with pytest.raises(RuntimeError):
            _ = again.result


@pytest.mark.parametrize("waiting", [False, True])
def test_cancelling(tmp_path: Path, waiting: bool) -> None:
    with running(tmp_path, Folder(batch=1, faults={"iteration_ms": 2.0})) as live:
        first = live.enqueue(max_tokens=1000, streaming=True)
        live.executor.await_responses(first)
        second = live.enqueue(max_tokens=3)
        live.executor.cancel_request(second if waiting else first)
        ended = live.last(second if waiting else first)
        assert (reason_of(ended), ended.is_final) == ("CANCELLED", True)
        if waiting:
            live.executor.cancel_request(first)
        assert reason_of(live.last(first if waiting else second)) == ("CANCELLED" if waiting else "LENGTH")
        live.executor.cancel_request(12345)  # nobody's


def test_a_bounded_queue(tmp_path: Path) -> None:
    with running(tmp_path, SLOW, max_queue_size=2) as live:
        requests = [trt.Request([1], 1)] * 3
        with pytest.raises(RuntimeError, match="Maximum queue size of 2"):
            live.executor.enqueue_requests(requests)
        assert len(live.executor.enqueue_requests(requests[:2])) == 2


def test_shutting_down_waits_for_what_runs(tmp_path: Path) -> None:
    live = Live(SLOW.write(tmp_path))
    number = live.enqueue(max_tokens=20)
    live.executor.shutdown()
    assert len(tokens_of(live.last(number))) == 20
    with pytest.raises(RuntimeError, match="shut down"):
        live.enqueue()
    assert live.executor.await_responses() == []
    live.executor.shutdown()
    with Live(SLOW.write(tmp_path)).executor as executor:
        assert executor.can_enqueue_requests()


def test_threads_that_wait_wake_up_at_shut_down(tmp_path: Path) -> None:
    live = Live(Folder().write(tmp_path))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(live.executor.await_responses()))
    thread.start()
    live.executor.shutdown()
    thread.join(10)
    assert found == [[]]


def fates(live: Live, count: int) -> list[str]:
    numbers = [live.enqueue(max_tokens=5) for _ in range(count)]
    ends = [live.all_of(number)[-1] for number in numbers]
    return [end.error_msg if end.has_error() else reason_of(end.result) for end in ends]


def test_planted_errors_harm_one_request_each(tmp_path: Path) -> None:
    error = "a fault was asked for"
    with running(tmp_path, Folder(faults={"error_every": 3})) as live:
        assert fates(live, 6) == ["LENGTH", "LENGTH", error] * 2
    with running(tmp_path, Folder(faults={"refuse_every": 2})) as live:
        assert fates(live, 4) == ["LENGTH", error] * 2


def test_a_failed_pass_ends_what_runs(tmp_path: Path) -> None:
    with running(tmp_path, Folder(faults={"fail_at": 3})) as live:
        assert "error in forwardAsync function" in live.error(max_tokens=50)
        assert fates(live, 1) == ["LENGTH"]


def test_late_answers_and_answers_that_come_twice(tmp_path: Path) -> None:
    with running(tmp_path, Folder(faults={"late_ms": 60, "twice": True})) as live:
        begin = time.monotonic()
        number = live.enqueue(max_tokens=1)
        live.last(number)
        assert 0.06 <= time.monotonic() - begin < 5
        (again,) = live.executor.await_responses(timeout=5.0)
        assert (again.request_id, again.result.is_final) == (number, True)


def test_an_executor_that_ends_by_itself(tmp_path: Path) -> None:
    live = Live(Folder(faults={"stop_after": 4}).write(tmp_path))
    live.enqueue(max_tokens=50)
    with pytest.raises(RuntimeError, match="shut itself down"):
        live.executor.await_responses(timeout=10.0)
    with pytest.raises(RuntimeError, match="has failed"):
        live.enqueue()
    live.executor.shutdown()


def test_an_executor_that_hangs_can_be_shut_down(tmp_path: Path) -> None:
    live = Live(Folder(faults={"hang_after": 2}).write(tmp_path))
    live.enqueue(max_tokens=50)
    assert live.executor.await_responses(timeout=0.2) == []
    live.executor.shutdown()


def test_silent_cancellations(tmp_path: Path) -> None:
    with running(tmp_path, Folder(faults={"iteration_ms": 2.0, "silent_cancel": True})) as live:
        number = live.enqueue(max_tokens=1000)
        live.executor.cancel_request(number)
        assert live.executor.await_responses(timeout=0.1) == []
        assert fates(live, 1) == ["LENGTH"]


def test_faults_of_the_environment_hold_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRTLLM", '{"error_every": 1}')
    with running(tmp_path) as live:
        assert fates(live, 1) == ["a fault was asked for"]
