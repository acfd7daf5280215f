"""Sends answers of a generation: in one body, or as server-sent events while it runs."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llgtrt import _core
from llgtrt.engine import Delta, Generation, GoneError
from llgtrt.openai import refusal
from llgtrt.openai.errors import ApiError, from_core, internal
from llgtrt.openai.render import Json, Render, Whole, Writer, drafts, narrowed, timings, usage
from llgtrt.openai.schema import StreamOptions

log = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()

KEEP_ALIVE_SECONDS = 15.0
"""Between two comments."""

MANY = 5_000
"""Tokens with log-probabilities from which an answer is built beside the event loop."""


def usage_of(generation: Generation) -> Json:
    """`usage` so far, with drafts where they are asked for, narrowed schemas and shortened choices."""
    counts = generation.usage()
    told = usage(counts) | ({"speculative": drafts(counts)} if generation.report else {})
    told |= {"shortened": counts.shortened} if counts.shortened else {}
    return told | ({"narrowed": narrowed(counts)} if counts.narrowed else {})


async def whole(
    generation: Generation, writer: Writer, look: Callable[[Sequence[Whole]], Awaitable[None]] | None = None
) -> bytes:
    """Waits for all choices, and gives the body; `look` may add to the choices before.

    Raises:
        GoneError, CoreError: as the generation does.
    """
    choices = [Whole() for _ in range(generation.choices)]
    while deltas := await generation.next():
        for delta in deltas:
            choices[delta.index].add(delta)

    if look is not None:
        await look(choices)
    for index, choice in enumerate(choices):
        choice.prompt = choices[generation.first_of(index)].prompt

    def build() -> bytes:
        body = writer.body(choices, usage_of(generation))
        return _encoder.encode(body | ({"timings": timings(generation)} if generation.timed else {}))

    if sum(len(c.logprobs) + len(c.prompt) for c in choices) < MANY:
        return build()
    # Other requests go on meanwhile.
    return await asyncio.to_thread(build)


class Events(abc.ABC):
    """The events of one streamed answer."""

    media_type = "text/event-stream"
    silence = b": keep-alive\n\n"
    """What is sent where there is no news for long."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    @abc.abstractmethod
    def chunks(self, deltas: Sequence[Delta]) -> bytes:
        """The events of some news."""

    @abc.abstractmethod
    def failed(self, error: ApiError) -> bytes:
        """The last event, where the answer fails."""

    def closing(self) -> bytes:
        """The last events of a whole answer."""
        return b""

    async def events(self, deltas: list[Delta]) -> AsyncIterator[bytes]:
        """All that is ready, time after time, from the first news on; an error is the last event.

        `deltas`: the first news. Where there is none yet, `silence` is sent until there is.
        """
        try:
            if not deltas:
                while not await self._generation.news(KEEP_ALIVE_SECONDS):
                    yield self.silence
                deltas = await self._generation.next()
            while deltas:
                few = sum(len(delta.logprobs) + len(delta.origins) for delta in deltas) < MANY
                yield self.chunks(deltas) if few else await asyncio.to_thread(self.chunks, deltas)
                deltas = await self._generation.next()
        except _core.CoreError as e:
            yield self.failed(from_core(e, self._generation.names()))
            return
        yield self.closing()


class Stream(Events):
    """The chunks of OpenAI's older APIs."""

    def __init__(self, generation: Generation, render: Render, options: StreamOptions | None) -> None:
        super().__init__(generation)
        self._render = render
        self._with_usage = bool(options and options.include_usage)
        self._always_usage = bool(options and options.continuous_usage_stats)
        self._begun: set[int] = set()

    def failed(self, error: ApiError) -> bytes:
        """An error as other errors are."""
        return error.event()

    def closing(self) -> bytes:
        """The chunk with `usage`, where it is wanted, and the mark of the end."""
        return (self._closing_usage() if self._with_usage else b"") + b"data: [DONE]\n\n"

    def chunks(self, deltas: Sequence[Delta]) -> bytes:
        """A chunk for each choice's news."""
        return b"".join(self._chunk(choice) for delta in deltas for choice in self._choices(delta))

    def _choices(self, delta: Delta) -> Iterable[Json]:
        if delta.index not in self._begun:
            self._begun.add(delta.index)
            opening = self._render.first(delta.index)
            if opening is not None:
                yield opening
        piece = self._render.piece(delta)
        if piece is not None:
            yield piece
        if delta.finish_reason is not None:
            yield self._render.last(delta.index, delta.finish_reason)

    def _chunk(self, choice: Json) -> bytes:
        chunk = self._render.envelope(self._render.chunk_object, [choice])
        if self._generation.timed:
            chunk["timings"] = timings(self._generation)
        if self._always_usage:
            chunk["usage"] = usage_of(self._generation)
        elif self._with_usage:
            chunk["usage"] = None
        return _data(chunk)

    def _closing_usage(self) -> bytes:
        chunk = self._render.envelope(self._render.chunk_object, [])
        return _data({**chunk, "usage": usage_of(self._generation)})


def typed(event: Json) -> bytes:
    """An event of an API whose events have types."""
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(value: Any) -> bytes:
    return b"data: " + _encoder.encode(value) + b"\n\n"


class EventResponse(Response):
    """Sends events as they come. Whatever happens, `finish` is called at the end."""

    def __init__(self, events: AsyncIterator[bytes], finish: Callable[[], None], media_type: str) -> None:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._events = events
        self._finish = finish

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events."""
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async for data in self._safe(scope["path"]):
                if data:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._finish()

    async def _safe(self, path: str) -> AsyncIterator[bytes]:
        try:
            async for data in self._events:
                yield data
        except GoneError:
            raise
        except Exception:
            log.exception("a stream failed")
            yield refusal.event(internal(), path)
