"""One response: the object, from its creation to its end, and its stream."""

from __future__ import annotations

import dataclasses
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from llgtrt import _core
from llgtrt.engine import Delta, Generation, Logprob
from llgtrt.openai import routes, schema, sse
from llgtrt.openai.errors import from_core
from llgtrt.openai.parse import Call, Content, Parser
from llgtrt.openai.render_chat import ChatRender
from llgtrt.openai.responses import as_chat
from llgtrt.openai.responses.fields import ResponsesRequest
from llgtrt.openai.responses.items import new_id
from llgtrt.openai.responses.output import Output, Scores

Json = dict[str, Any]

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


def begun(api: routes.Api, body: ResponsesRequest) -> Json:
    """The object of a response of which there is nothing yet."""
    effort = body.reasoning.effort if body.reasoning else None
    form = body.text.format if body.text else None
    told = {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "queued" if body.background else "in_progress",
        "completed_at": None,
        "background": bool(body.background),
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": api.settings.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": effort, "summary": None},
        "safety_identifier": body.safety_identifier,
        "service_tier": body.service_tier or "auto",
        "store": body.store is not False,
        "temperature": _sampled(api, "temperature", body.temperature),
        "text": {"format": {"type": "text"} if form is None else _format(form), "verbosity": "medium"},
        "tool_choice": "auto" if body.tool_choice is None else _choice(body.tool_choice),
        "tools": [_tool(tool) for tool in body.tools or ()],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": _sampled(api, "top_p", body.top_p),
        "truncation": body.truncation or "disabled",
    }
    return told | ({"user": body.user} if body.user is not None else {})


def _sampled(api: routes.Api, name: str, value: float | None) -> float:
    said: float = api.sampling.get(name, 1.0) if value is None else value
    return said


def _format(form: msgspec.Struct) -> Json:
    """The format as it was asked for, its schema as it was written."""
    given = {name: getattr(form, name) for name in form.__struct_fields__}
    told = {name: value for name, value in given.items() if value is not None}
    return {"type": form.__struct_config__.tag, **told}


def _choice(wanted: Any) -> Any:
    if isinstance(wanted, str):
        return wanted
    if wanted.type == "function":
        return {"type": "function", "name": wanted.name}
    tools = [{"type": "function", "name": tool.name} for tool in wanted.tools or ()]
    return {"type": wanted.type, "mode": wanted.mode, "tools": tools}


def _tool(tool: Any) -> Json:
    schema_text = bytes(tool.parameters)
    parameters = None if schema_text in (b"", b"null") else msgspec.Raw(schema_text)
    told = {"type": "function", "name": tool.name, "parameters": parameters}
    # It is enforced whatever the client says.
    told |= {"strict": tool.strict is not False}
    return told | ({"description": tool.description} if tool.description is not None else {})


def usage(counts: Json) -> Json:
    """A chat's `usage` as a response's."""
    told = {
        "input_tokens": counts["prompt_tokens"],
        # No tokens are written on request: every prompt is kept as long as there is room.
        "input_tokens_details": {**counts["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": {
            "reasoning_tokens": counts["completion_tokens_details"]["reasoning_tokens"]
        },
        "total_tokens": counts["total_tokens"],
    }
    return told | ({"speculative": counts["speculative"]} if "speculative" in counts else {})


class Answer:
    """A response as it comes."""

    def __init__(self, body: Json, render: ChatRender) -> None:
        """`body`: as it has `begun`; `render`: the chat's, which knows what the answer may be."""
        self.body = body
        self._render = render
        self._output = Output(lambda number: render.call(0, number))
        self._parser = Parser(render.parts) if render.parts is not None else None
        self._scores = Scores(render.parts, render.lookup) if render.parts and render.scored else None
        self._calls = 0
        self.body["output"] = self._output.items

    def take(self, text: str, logprobs: Sequence[Logprob], finish_reason: str | None) -> list[Json]:
        """Events of news."""
        visible = self._render.visible(logprobs, finish_reason) if self._render.scored else ()
        if self._parser is None:
            entries = self._render.entries(visible)
            return self._output.take(Content(text), entries) if text or entries else []
        pieces = self._parser.feed(text)
        if self._scores is not None:
            self._scores.feed(visible)
        if finish_reason is not None:
            pieces += self._parser.finish()
            if self._scores is not None:
                self._scores.finish()
        events: list[Json] = []
        for piece in pieces:
            self._calls += isinstance(piece, Call)
            scored = self._scores is not None and isinstance(piece, Content)
            entries = self._render.entries(self._scores.taken(self._calls)) if scored and self._scores else []
            events += self._output.take(piece, entries)
        return events

    def finish(self, finish_reason: str, counts: Json) -> list[Json]:
        """Events of the end; `counts`: a chat's `usage`."""
        whole = finish_reason != "length"
        status = "completed" if whole else "incomplete"
        events = self._output.ended(status)
        self.body |= {"status": status, "usage": usage(counts)}
        if whole:
            self.body["completed_at"] = int(time.time())
        else:
            self.body["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*events, self.told(f"response.{status}")]

    def stop(self, status: str, error: _core.CoreError | None = None) -> list[Json]:
        """Events of an end before its time: `failed` or `cancelled`."""
        events = self._output.close("incomplete")
        self.body["status"] = status
        if error is not None:
            code = "rate_limit_exceeded" if isinstance(error, _core.Overloaded) else "server_error"
            message = as_chat.renamed(from_core(error)).message
            self.body["error"] = {"code": code, "message": message}
        return [*events, self.told(f"response.{status}")]

    def told(self, kind: str) -> Json:
        """An event that has the response as it is now."""
        return {"type": kind, "response": {**self.body, "output": list(self.body["output"])}}


@dataclasses.dataclass(frozen=True)
class ResponseWork(routes.Work):
    """A chat that is answered as a response."""

    answer: Answer
    keep: Callable[[Answer], Awaitable[None]]
    """Called at the end, before the client is told of it."""

    async def whole(self, generation: Generation) -> bytes:
        """The object at its end."""
        await self.finished(generation)
        return await sse.built(lambda: _encoder.encode(self.answer.body), 0)

    async def finished(self, generation: Generation) -> None:
        """Waits for the end, and keeps it.

        Raises:
            GoneError, CoreError: as the generation does.
        """
        (choice,) = await sse.gathered(generation)
        assert choice.finish_reason is not None
        counts, reason = sse.usage_of(generation), choice.finish_reason

        def build() -> bytes:
            self.answer.take(choice.text, choice.logprobs, reason)
            self.answer.finish(reason, counts)
            return b""

        await sse.built(build, len(choice.logprobs))
        await self.keep(self.answer)

    def stream(self, generation: Generation) -> sse.Stream:
        """Its typed events."""
        return _Events(generation, self)


class _Events(sse.Stream):
    """The stream of a response."""

    def __init__(self, generation: Generation, work: ResponseWork) -> None:
        super().__init__(generation, work.render, schema.StreamOptions())
        self._work = work
        self._answer = work.answer
        self._number = 0
        self._reason = ""

    def _opening(self) -> bytes:
        return self._told([self._answer.told(f"response.{kind}") for kind in ("created", "in_progress")])

    def _chunks(self, deltas: Iterable[Delta]) -> bytes:
        events: list[Json] = []
        for delta in deltas:
            events += self._answer.take(delta.text, delta.logprobs, delta.finish_reason)
            self._reason = delta.finish_reason or self._reason
        return self._told(events)

    async def _closing(self) -> bytes:
        events = self._answer.finish(self._reason, sse.usage_of(self._generation))
        await self._work.keep(self._answer)
        return self._told(events)

    async def _failed(self, error: _core.CoreError) -> bytes:
        events = self._answer.stop("failed", error)
        await self._work.keep(self._answer)
        return self._told(events)

    def _told(self, events: Sequence[Json]) -> bytes:
        told = []
        for event in events:
            data = _encoder.encode({**event, "sequence_number": self._number})
            told.append(b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n")
            self._number += 1
        return b"".join(told)


async def kept(put: Callable[[], Awaitable[object]]) -> None:
    """Keeps a response. Where that fails the client has its answer all the same, and the log says why."""
    try:
        await put()
    except sqlite3.Error:
        log.exception("a response could not be kept")
