"""Callbacks from the executor's own thread, and who holds the GIL meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from .live import PROMPT, Folder, Live, running, tokens_of, trt

LONG = PROMPT * 3


def config(callback: Callable[..., None], **more: Any) -> dict[str, Any]:
    made = trt.LogitsPostProcessorConfig(processor_batched=callback, replicate=False)
    return {"logits_post_processor_config": made, **more}


def on(stream: int) -> Any:
    return torch.cuda.stream(torch.cuda.ExternalStream(stream))


def test_only_those_that_ask_are_given(tmp_path: Path) -> None:
    calls: list[tuple[list[int], list[int | None]]] = []

    def look(numbers: Any, logits: Any, texts: Any, stream: int, clients: Any) -> None:
        assert len(numbers) == len(logits) == len(texts) == len(clients)
        calls.append((list(numbers), list(clients)))

    with running(tmp_path, Folder(faults={"iteration_ms": 5.0}), **config(look)) as live:
        live.enqueue(max_tokens=5)
        one = live.enqueue(max_tokens=5, client_id=11, logits_post_processor_name="batched")
        two = live.enqueue(max_tokens=5, logits_post_processor_name="batched")
        live.last(one)
        live.last(two)
    assert all(set(numbers) <= {one, two} for numbers, _ in calls)
    assert ([one, two], [11, None]) in calls
    assert sum(one in numbers for numbers, _ in calls) == 5


def test_texts_grow_and_edits_count(tmp_path: Path) -> None:
    texts: list[list[int]] = []

    def only(_: Any, logits: Any, tokens: Any, stream: int, __: Any) -> None:
        texts.append(tokens[0][0])
        with on(stream):
            keep = logits[0][:, :, 97 + len(texts)].clone()
            logits[0].fill_(float("-inf"))
            logits[0][:, :, 97 + len(texts)] = keep

    with running(tmp_path, **config(only)) as live:
        found = tokens_of(live.ask(max_tokens=4, logits_post_processor_name="batched"))
    assert found == [98, 99, 100, 101]
    assert texts == [PROMPT + found[:i] for i in range(4)]


@pytest.mark.parametrize("early", [False, True])
def test_chunked_prompts_call_early(tmp_path: Path, early: bool) -> None:
    shapes: list[tuple[tuple[int, ...], list[int]]] = []

    def look(_: Any, logits: Any, tokens: Any, *__: Any) -> None:
        shapes.append((tuple(logits[0].shape), tokens[0][0]))

    folder = Folder(faults={"early_calls": early}, draft_len=4)
    with running(tmp_path, folder, **config(look, enable_chunked_context=True, max_num_tokens=64)) as live:
        assert len(LONG) == 225  # 64 + 64 + 64 + the rest, drafts included
        greedy = live.greedy(4, LONG)
        assert tokens_of(live.ask(LONG, 5, draft=greedy[:3], logits_post_processor_name="batched")) == greedy
        assert shapes == [((1, 1, 272), LONG)] * (3 if early else 0) + [((4, 1, 272), LONG)]
        assert tokens_of(live.ask(LONG[1:], 3)) == live.greedy(3, LONG[1:])
    with running(tmp_path, folder, **config(look, max_num_tokens=64)) as whole:
        assert "max_num_tokens" in whole.error(LONG)


def test_single_callbacks(tmp_path: Path) -> None:
    calls: list[tuple[str, Any]] = []

    def named(number: int, logits: Any, tokens: Any, stream: int, client: Any) -> None:
        calls.append(("named", client))

    def own(number: int, logits: Any, tokens: Any, stream: int, client: Any) -> None:
        calls.append(("own", client))

    made = trt.LogitsPostProcessorConfig(processor_map={"mine": named}, replicate=False)
    with running(tmp_path, logits_post_processor_config=made) as live:
        live.ask(max_tokens=1, client_id=1, logits_post_processor_name="mine")
        live.ask(max_tokens=1, client_id=2, logits_post_processor=own)
        assert "batched" in live.error(max_tokens=1, logits_post_processor_name="batched")
    assert calls == [("named", 1), ("own", 2)]


def test_a_callback_that_raises_ends_what_runs(tmp_path: Path) -> None:
    angry = True

    def fail(*_: Any) -> None:
        if angry:
            raise ValueError("no masks today")

    with running(tmp_path, **config(fail)) as live:
        assert "no masks today" in live.error(logits_post_processor_name="batched")
        angry = False
        assert tokens_of(live.ask(logits_post_processor_name="batched")) == live.greedy(8)


def test_broken_logits(tmp_path: Path) -> None:
    def look(_: Any, logits: Any, *__: Any) -> None:
        assert len(logits[0].shape) == 3, "no shape"

    with running(tmp_path, Folder(faults={"broken_logits": 2}), **config(look)) as live:
        assert "no shape" in live.error(logits_post_processor_name="batched")


def test_rows_without_a_token_are_an_error(tmp_path: Path) -> None:
    def nothing(_: Any, logits: Any, __: Any, stream: int, ___: Any) -> None:
        with on(stream):
            logits[0].fill_(float("-inf"))

    with running(tmp_path, **config(nothing)) as live:
        assert "no token has a finite score" in live.error(logits_post_processor_name="batched")


def test_another_stream_is_an_error(tmp_path: Path) -> None:
    def wrong(_: Any, logits: Any, __: Any, stream: int, ___: Any) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            logits[0].fill_(0.0)

    with running(tmp_path, **config(wrong)) as live:
        assert "a race" in live.error(logits_post_processor_name="batched")


def test_pinned_memory_must_stay_as_it_is_until_it_is_read(tmp_path: Path) -> None:
    pinned = torch.zeros(272, pin_memory=True)

    def reuse(_: Any, logits: Any, __: Any, stream: int, ___: Any) -> None:
        with on(stream):
            for bias in (1.0, 2.0):
                pinned.fill_(bias)
                logits[0].add_(pinned.to("cuda", non_blocking=True))

    with running(tmp_path, **config(reuse)) as live:
        assert "pinned memory was changed" in live.error(logits_post_processor_name="batched")


def test_callbacks_come_from_another_thread_while_one_waits(tmp_path: Path) -> None:
    threads: set[int] = set()

    def look(*_: Any) -> None:
        threads.add(threading.get_ident())

    with running(tmp_path, **config(look)) as live:
        live.ask(
            logits_post_processor_name="batched"
        )  # waits in await_responses, which leaves the GIL to others
    assert threads
    assert threading.get_ident() not in threads


def counting(stop: threading.Event, steps: list[int]) -> None:
    while not stop.is_set():
        steps[0] += 1
        time.sleep(0)


def test_enqueuing_keeps_the_gil_and_awaiting_does_not(tmp_path: Path) -> None:
    stop, steps = threading.Event(), [0]
    thread = threading.Thread(target=counting, args=(stop, steps))
    with running(tmp_path, Folder(faults={"enqueue_ms": 300.0})) as live:
        request = trt.Request(PROMPT, 1)
        thread.start()
        try:
            before = steps[0]
            live.executor.enqueue_request(request)
            kept = steps[0] - before
            before = steps[0]
            assert live.executor.await_responses(77, timeout=0.3) == []
            left = steps[0] - before
        finally:
            stop.set()
            thread.join()
    assert left > 100
    assert kept < left / 2  # the thread runs before and behind the call, but not during it


def test_who_waits_for_the_callback_with_a_lock_that_it_wants_is_stuck(tmp_path: Path) -> None:
    """The deadlock that an adapter must not have: to wait for the executor with a lock that it wants."""
    lock, entered = threading.Lock(), threading.Event()

    def wants(*_: Any) -> None:
        entered.set()
        with lock:
            pass

    live = Live(Folder().write(tmp_path), **config(wants))
    with lock:
        live.enqueue(logits_post_processor_name="batched")
        assert entered.wait(10)
        closer = threading.Thread(target=live.executor.shutdown)
        closer.start()
        closer.join(0.3)
        assert closer.is_alive()
        assert live.executor.await_responses(timeout=0.1) == []
    closer.join(10)
    assert not closer.is_alive()
