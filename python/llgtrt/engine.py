"""The engine for asyncio: takes requests, returns merged events, and never blocks the loop.

The core wakes the loop through a file descriptor; `drain` then returns the waiting events. Events that a
slow consumer has not taken yet are merged into one `Delta` per choice, so memory never exceeds the text.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llgtrt import _core

Logprob = tuple[int, float, list[tuple[int, float]]]
"""A token, its log-probability, and the most likely tokens with theirs."""


Origin = tuple[int, str | None, list[tuple[int, str]], "Free | None"]
"""A token, who drafted it (None = nobody), the tokens refused in its stead with who drafted those, and what
would have been without the constraint, where there is one and log-probabilities are asked for."""


Free = tuple[float, tuple[int, float] | None]
"""The probability of all allowed tokens together, and the likeliest token of all with its log-probability."""


Successors = tuple[list[float], list[tuple[int, float]]]
"""For each option of a decision, the probability of the tokens after which only this option remains; and the
tokens after which several remain, each with its probability."""


Narrowed = tuple[str, str, str]
"""A JSON pointer and a keyword of a schema, and what is left out of what it allows."""


class GoneError(Exception):
    """The generation was cancelled because nobody waits for it any more."""


class DeadlineError(_core.CoreError):
    """The request has taken as long as the server lets one take."""


def deadline(seconds: float) -> DeadlineError:
    """The error of a request that took longer than this."""
    return DeadlineError(
        f"the request took longer than {seconds:g} s, which is as long as this server lets one take"
    )


@dataclasses.dataclass
class Delta:
    """News of one choice since the consumer last looked."""

    index: int
    text: str
    logprobs: list[Logprob]
    finish_reason: str | None
    error: _core.CoreError | None
    prompt: list[Logprob] = dataclasses.field(default_factory=list)
    """Of further tokens of the prompt, from the second on; on the prompt's first choice."""
    origins: list[Origin] = dataclasses.field(default_factory=list)
    """Of the new tokens, where the client asks for them."""
    successors: list[Successors] = dataclasses.field(default_factory=list)
    """For a decision: of further places of the choice's path."""
    tokens: list[int] = dataclasses.field(default_factory=list)
    """New tokens, if the generation keeps them."""


@dataclasses.dataclass
class Usage:
    """Token counts of one HTTP request, over all of its choices."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    """Of those, the tokens of reasoning."""
    shortened: int = 0
    """Constrained choices that `max_tokens` made end earlier, complete."""
    drafts: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    """Drafted tokens by (source, fate): `drafted` of which are `accepted` or `refused`."""
    narrowed: list[Narrowed] = dataclasses.field(default_factory=list)
    """Of all constraints of choices that have ended."""


STALLED_SECONDS = 30.0
"""An engine is stalled if choices run and it has computed nothing for this long."""


class Progress:
    """Measures for how long choices have run without anything being computed."""

    def __init__(self) -> None:
        self._computed = -1
        self._since = 0.0

    def look(self, snapshot: Mapping[str, Any], now: float) -> float:
        """Seconds since the last call that saw progress. `snapshot`: from `AsyncEngine.metrics`."""
        totals = snapshot["totals"]
        computed: int = totals["computed_tokens"] + totals["generated_tokens"]
        if computed != self._computed or not snapshot["gauges"]["running"]:
            self._computed, self._since = computed, now
        return now - self._since


def _origins(event: _core.Event) -> list[Origin]:
    told = event.origins
    if not told:
        return []
    shares = zip(event.allowed, event.logprobs, strict=True)
    free: list[Free | None] = [
        None if allowed is None else (allowed, top[0] if top else None) for allowed, (_, _, top) in shares
    ]
    each = zip(event.tokens, told, free or [None] * len(told), strict=True)
    return [(token, *origin, share) for token, origin, share in each]


class Generation:
    """The choices of one HTTP request: those of one core request per prompt, numbered prompt-major."""

    def __init__(self, core: _core.Engine, running: dict[int, Generation], n: int) -> None:
        self._core = core
        self._running = running
        self._n = n
        self._base: dict[int, int] = {}
        self._open = 0
        self._pending: dict[int, Delta] = {}
        self._counts: dict[int, tuple[int, int, int, int, int]] = {}
        self._drafts: dict[int, dict[str, tuple[int, int, int]]] = {}
        self._narrowed: dict[Narrowed, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._cancelled = False
        self._failure: _core.CoreError | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.begun = time.monotonic()
        self.queued: float | None = None
        """Seconds from its arrival to its admission, known with its first news."""
        self.compiled = 0.0
        """Of these, the seconds until its constraint was compiled; 0 without one."""
        self.first: float | None = None
        """When the first token was there."""
        self.last = self.begun
        """When the last event came."""
        self.timed = False
        """The client asks for `timings`."""
        self.keeps_tokens = False
        """Deltas have their tokens."""
        self.report = False
        """The client asks what became of drafts."""
        self.names: Callable[[], Mapping[str, str]] = dict
        """Gives the client's names of the core's fields, where they differ; errors alone need them."""

    @property
    def choices(self) -> int:
        """How many choices there are, ended ones included."""
        return self._n * len(self._base)

    def first_of(self, index: int) -> int:
        """The first choice of the same prompt."""
        return index - index % self._n

    def add(self, request: int) -> None:
        """Takes the next prompt's core request in."""
        self._base[request] = self.choices
        self._open += self._n
        self._running[request] = self

    def push(self, event: _core.Event) -> None:
        """Merges an event in."""
        index = self._base[event.request] + event.choice
        output = event.completion_tokens, event.reasoning_tokens, int(event.shortened)
        self._counts[index] = (event.prompt_tokens, event.cached_tokens, *output)
        if event.drafts:
            self._drafts[index] = event.drafts
        if self.queued is None:
            self.queued, self.compiled = event.queue_seconds, event.compile_seconds
        self.last = time.monotonic()
        if self.first is None and event.completion_tokens:
            self.first = self.last
        finish, error = event.finish_reason, event.error
        delta = self._pending.get(index)
        origins = _origins(event)
        if delta is None:
            prompt = event.prompt_logprobs
            logprobs, successors = event.logprobs, event.successors
            delta = Delta(index, event.text, logprobs, finish, error, prompt, origins, successors)
            self._pending[index] = delta
        else:
            delta.successors.extend(event.successors)
            delta.origins.extend(origins)
            delta.prompt.extend(event.prompt_logprobs)
            delta.text += event.text
            delta.logprobs.extend(event.logprobs)
            delta.finish_reason, delta.error = finish, error
        if self.keeps_tokens:
            delta.tokens.extend(event.tokens)
        if finish is not None or error is not None:
            self._narrowed |= dict.fromkeys(event.narrowed)
            self._open -= 1
            if self._open == 0:
                self._forget()
        self._wake()

    async def next(self) -> list[Delta]:
        """What happened since the last call, one delta per choice; waits for something. Empty at the end.

        Raises:
            GoneError: after `cancel`.
            CoreError: a choice failed, and all text before that was returned. All choices are cancelled.
        """
        while not self._has_news():
            await self._woken()
        if self._cancelled:
            raise GoneError
        deltas = sorted(self._pending.values(), key=lambda d: d.index)
        self._pending = {}
        self._failure = self._failure or next((d.error for d in deltas if d.error is not None), None)
        if self._failure is not None:
            deltas = [d for d in deltas if d.text]
            if not deltas:
                failure = self._failure
                self.cancel()
                raise failure
        return deltas

    async def news(self, within: float) -> bool:
        """Waits, so many seconds at most, until `next` need not wait. Whether that is so."""
        if not self._has_news():
            timer = asyncio.get_running_loop().call_later(within, self._wake)
            try:
                await self._woken()
            finally:
                timer.cancel()
        return self._has_news()

    def _has_news(self) -> bool:
        return bool(self._pending or self._failure or self._cancelled or not self._open)

    async def _woken(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def usage(self) -> Usage:
        """Counts so far. The prompt of several choices counts once."""
        firsts = [self._counts[b] for b in self._base.values() if b in self._counts]
        completion, reasoning, shortened = (sum(c[i] for c in self._counts.values()) for i in (2, 3, 4))
        drafts: Counter[tuple[str, str]] = Counter()
        for source, counts in ((s, c) for d in self._drafts.values() for s, c in d.items()):
            for fate, count in zip(("drafted", "accepted", "refused"), counts, strict=True):
                drafts[source, fate] += count
        prompt, cached = (sum(c[i] for c in firsts) for i in (0, 1))
        return Usage(prompt, cached, completion, reasoning, shortened, drafts, list(self._narrowed))

    def cancel(self) -> None:
        """Ends what still runs and frees it. Never fails, and may be called at any time."""
        if self._open and not self._cancelled:
            for request in self._base:
                self._core.cancel(request)
        self._cancelled = True
        self._pending = {}
        self._forget()
        self._wake()

    def end_after(self, seconds: float) -> None:
        """Ends it with `DeadlineError` unless it has ended by then."""
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        self._failure = deadline(seconds)
        for request in self._base:
            self._core.cancel(request)
        self._forget()
        self._wake()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for request in self._base:
            self._running.pop(request, None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class AsyncEngine:
    """The core's engine on the running event loop."""

    def __init__(self, core: _core.Engine, request_timeout: float | None = None) -> None:
        """`request_timeout`: seconds that a generation may take, waiting included."""
        self.core = core
        self._timeout = request_timeout
        self._running: dict[int, Generation] = {}
        self._info: dict[str, Any] | None = None
        self._progress = Progress()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(core.fileno(), self._drain)

    def state(self) -> tuple[str, str]:
        """`loading`, `ready`, `restarting`, `failed` or `closed`, and one line why."""
        state = self.core.state()
        if state[0] != "ready":
            self._info = None
        return state

    async def change(self) -> None:
        """Waits until something happened in the engine."""
        self._changed.clear()
        await self._changed.wait()

    def info(self) -> dict[str, Any]:
        """Facts of the living engine, or of the last one while it is restarted (`exec::Info`).

        Raises:
            EngineClosed: it has not been opened yet.
        """
        # Bodies are read on other threads, which look here, too.
        known = self._info
        if known is not None:
            return known
        info: dict[str, Any] = json.loads(self.core.info())
        if self.core.state()[0] == "ready":
            self._info = info
        return info

    async def submit(self, requests: Iterable[str], n: int) -> Generation:
        """Submits one core request per prompt, `n` choices each: all of them or none.

        Each is made when its turn comes, and others go on between them.

        Raises:
            InvalidRequest, Overloaded, EngineClosed: as the core says.
        """
        generation = Generation(self.core, self._running, n)
        try:
            for request in requests:
                if generation.choices:
                    await asyncio.sleep(0)
                generation.add(self.core.submit(request))
        except BaseException:
            generation.cancel()
            raise
        if self._timeout is not None:
            generation.end_after(self._timeout)
        return generation

    def metrics(self) -> dict[str, Any]:
        """`metrics::Snapshot`, and how often the engine was restarted."""
        snapshot: dict[str, Any] = json.loads(self.core.metrics())
        return snapshot

    def stalled(self, snapshot: Mapping[str, Any]) -> float | None:
        """Seconds without progress while choices run, from `metrics`; None below `STALLED_SECONDS`."""
        seconds = self._progress.look(snapshot, time.monotonic())
        return seconds if seconds >= STALLED_SECONDS else None

    def close(self) -> None:
        """Ends the engine now; what runs ends with `EngineClosed`."""
        self.core.close()

    def _drain(self) -> None:
        self._changed.set()
        for event in self.core.drain():
            generation = self._running.get(event.request)
            if generation is not None:
                generation.push(event)
