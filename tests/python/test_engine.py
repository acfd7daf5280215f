"""Generations: what is merged, in which order it comes, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from llgtrt import _core
from llgtrt.engine import AsyncEngine, DeadlineError, Generation, GoneError, Progress, Usage

from . import fake_core

SPEC: dict[str, Any] = {"prompt": [1, 2], "n": 1, "max_tokens": 50, "sampling": {"seed": 1}, "stop": []}
SPEC |= {"ignore_eos": False, "logprobs": None, "grammar": None}


def run(work: Callable[[AsyncEngine, fake_core.Engine], Awaitable[None]]) -> None:
    async def main() -> None:
        core = fake_core.Engine("toy", "{}")
        engine = AsyncEngine(cast("_core.Engine", core))
        while engine.state()[0] == "loading":
            await engine.change()
        await asyncio.wait_for(work(engine, core), 30)
        core.close()

    asyncio.run(main())


async def collect(generation: Generation) -> dict[int, str]:
    texts: dict[int, str] = {}
    while deltas := await generation.next():
        for delta in deltas:
            texts[delta.index] = texts.get(delta.index, "") + delta.text
    return texts


def spec(**fields: Any) -> str:
    return json.dumps({**SPEC, **fields})


def test_choices_are_numbered_prompt_major() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        one = await collect(await engine.submit([spec(n=2)], 2))
        two = await collect(await engine.submit([spec(n=2), spec(n=2, sampling={"seed": 2})], 2))
        assert sorted(two) == [0, 1, 2, 3]
        assert [two[0], two[1]] == [one[0], one[1]]
        assert two[2] != two[0]

    run(work)


def test_a_slow_consumer_gets_everything_at_once() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        text = (await collect(await engine.submit([spec()], 1)))[0]
        generation = await engine.submit([spec(logprobs=1)], 1)
        while core._running or core._events:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        (delta,) = await generation.next()
        assert (delta.text, delta.finish_reason) == (text, "length" if len(text) == 50 else "stop")
        assert len(delta.logprobs) == generation.usage().completion
        assert await generation.next() == []
        assert generation.usage() == Usage(2, 0, len(delta.logprobs))

    run(work)


def test_nothing_is_left_of_what_ended_or_was_cancelled() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        await collect(await engine.submit([spec()], 1))
        generation = await engine.submit([spec(ignore_eos=True, max_tokens=4000), spec()], 1)
        await generation.next()
        generation.cancel()
        with pytest.raises(GoneError):
            await generation.next()
        assert not engine._running
        assert not core._running

    run(work)


def test_a_deadline_ends_a_generation_and_what_it_holds() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        ended = await engine.submit([spec()], 1)
        await collect(ended)
        generation = await engine.submit([spec(ignore_eos=True, max_tokens=4000), spec()], 1)
        generation.end_after(0.05)
        with pytest.raises(DeadlineError, match=r"longer than 0\.05 s"):
            await collect(generation)
        assert not engine._running
        assert not core._running

    run(work)


def test_facts_are_those_of_the_living_engine() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        assert engine.info() is engine.info()
        before = engine.info()
        core._state = ("restarting", "it died")
        assert engine.state()[0] == "restarting"
        assert engine.info() == before
        core._state = ("ready", "")
        core.info = lambda: json.dumps({**before, "promise": "NearTies"})  # type: ignore[method-assign]
        assert engine.info()["promise"] == "NearTies"

    run(work)


def test_a_waiting_consumer_is_told_of_a_cancellation() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        core.step_seconds = 100
        generation = await engine.submit([spec()], 1)
        asyncio.get_running_loop().call_later(0.01, generation.cancel)
        with pytest.raises(GoneError):
            await collect(generation)

    run(work)


def test_a_failure_comes_after_the_text_before_it() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        generation = await engine.submit([spec(ignore_eos=True, max_tokens=4000, n=2)], 2)
        first = await generation.next()
        core.break_down()
        with pytest.raises(_core.EngineError, match="died"):
            await collect(generation)
        assert all(d.text for d in first)
        assert not engine._running

    run(work)


def test_a_refused_request_takes_its_fellows_with_it() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        with pytest.raises(_core.InvalidRequest):
            await engine.submit([spec(), spec(max_tokens=0)], 1)
        assert not engine._running
        assert not core._running

    run(work)


def test_prompts_after_a_refused_one_are_not_made() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        specs = iter([spec(max_tokens=0), spec(), spec()])
        with pytest.raises(_core.InvalidRequest):
            await engine.submit(specs, 1)
        assert len(list(specs)) == 2

    run(work)


def test_a_grammar_error_is_the_first_thing_that_comes() -> None:
    async def work(engine: AsyncEngine, core: fake_core.Engine) -> None:
        generation = await engine.submit([spec(grammar={"json_schema": '{"unsupportedKeyword": 1}'})], 1)
        with pytest.raises(_core.GrammarError):
            await generation.next()

    run(work)


def test_an_engine_is_stalled_where_choices_run_and_nothing_is_computed() -> None:
    def snapshot(computed: int, generated: int, running: int) -> dict[str, Any]:
        totals = {"computed_tokens": computed, "generated_tokens": generated}
        return {"totals": totals, "gauges": {"running": running}}

    progress = Progress()
    looks = [
        (snapshot(0, 0, 0), 100.0, 0.0),
        (snapshot(0, 0, 0), 200.0, 0.0),
        (snapshot(0, 0, 1), 210.0, 10.0),
        (snapshot(64, 0, 1), 220.0, 0.0),
        (snapshot(64, 0, 1), 250.0, 30.0),
        (snapshot(64, 1, 1), 260.0, 0.0),
        (snapshot(64, 1, 1), 299.0, 39.0),
        (snapshot(64, 1, 0), 300.0, 0.0),
    ]
    assert [progress.look(seen, now) for seen, now, _ in looks] == [seconds for _, _, seconds in looks]
