"""One response: the object, from its creation to its end, and its stream."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from llgtrt.engine import Delta, Generation, Logprob
from llgtrt.openai import routes, sse
from llgtrt.openai.errors import ApiError
from llgtrt.openai.parse import Parser, pieces, whole
from llgtrt.openai.pieces import Call, Content, Piece
from llgtrt.openai.render import Whole, Writer
from llgtrt.openai.render_chat import ChatRender
from llgtrt.openai.responses import as_chat
from llgtrt.openai.responses.fields import ResponsesRequest
from llgtrt.openai.responses.items import new_id, within
from llgtrt.openai.responses.output import Output
from llgtrt.openai.scores import Scores

Json = dict[str, Any]

log = logging.getLogger(__name__)

Keep = Callable[["Answer"], Awaitable[None]]


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
    if wanted.type in as_chat.OWN:
        return {"type": wanted.type, "name": wanted.name}
    tools = [{"type": tool.type, "name": tool.name} for tool in wanted.tools or ()]
    return {"type": wanted.type, "mode": wanted.mode, "tools": tools}


def _tool(tool: Any) -> Json:
    """A tool as it was given; a function is always strict."""
    if tool.type == "namespace":
        inner = [_tool(one) for one in tool.tools or ()]
        return {"type": "namespace", "name": tool.name, "description": tool.description, "tools": inner}
    if tool.type == "custom":
        given = {"name": tool.name, "description": tool.description, "format": tool.format}
        return {"type": "custom", **{name: value for name, value in given.items() if value is not None}}
    if tool.type != "function":
        return {"type": tool.type}
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


class Answer(Writer):
    """A response as it comes."""

    def __init__(self, told: Json, render: ChatRender) -> None:
        """`told`: as it has `begun`; `render`: the chat's, which knows what the answer may be."""
        self.response = told
        self._render = render
        spaces = {
            within(tool["name"], inner["name"]): (tool["name"], inner["name"])
            for tool in told["tools"]
            if tool["type"] == "namespace"
            for inner in tool["tools"]
        }
        tools = render.reply.tools if render.reply else None
        custom = tools.custom if tools else frozenset()
        self._output = Output(lambda number: render.call(0, number), spaces, custom)
        self._parser = Parser(render.parts) if render.parts is not None else None
        self._scores = Scores(render.parts, render.lookup) if render.parts and render.scored else None
        self._calls = 0
        self.response["output"] = self._output.items

    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """The response of its one choice."""
        (choice,) = choices
        assert choice.finish_reason is not None
        self.take(choice.text, choice.logprobs, choice.finish_reason, whole)
        self.finish(choice.finish_reason, usage)
        return self.response

    def take(
        self,
        text: str,
        logprobs: Sequence[Logprob],
        finish_reason: str | None,
        read: Callable[[Parser | None, str, str | None], list[Piece]] = pieces,
    ) -> list[Json]:
        """Events of news."""
        visible = self._render.visible(logprobs, finish_reason) if self._render.scored else ()
        if self._parser is None:
            entries = self._render.entries(visible)
            return self._output.take(Content(text), entries) if text or entries else []
        if self._scores is not None:
            self._scores.feed(visible)
            if finish_reason is not None:
                self._scores.finish()
        events: list[Json] = []
        for piece in read(self._parser, text, finish_reason):
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
        self.response |= {"status": status, "usage": usage(counts)}
        if whole:
            self.response["completed_at"] = int(time.time())
        else:
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*events, self.told(f"response.{status}")]

    def stop(self, status: str, error: ApiError | None = None) -> list[Json]:
        """Events of an end before its time: `failed` or `cancelled`."""
        events = self._output.close("incomplete")
        self.response["status"] = status
        if error is not None:
            code = "rate_limit_exceeded" if error.status == 429 else "server_error"
            self.response["error"] = {"code": code, "message": as_chat.renamed(error).message}
        return [*events, self.told(f"response.{status}")]

    def told(self, kind: str) -> Json:
        """An event that has the response as it is now."""
        return {"type": kind, "response": {**self.response, "output": list(self.response["output"])}}


class Events(sse.Events):
    """The stream of a response."""

    def __init__(self, generation: Generation, answer: Answer, keep: Keep) -> None:
        """`keep` is called at the end, before the client sees it."""
        super().__init__(generation)
        self._answer = answer
        self._keep = keep
        self._number = 0
        self._reason = ""

    async def events(self, deltas: list[Delta]) -> AsyncIterator[bytes]:
        """The response as it begins, and all that follows."""
        yield self._told([self._answer.told(f"response.{kind}") for kind in ("created", "in_progress")])
        async for data in super().events(deltas):
            if self._answer.response["status"] != "in_progress":
                await self._keep(self._answer)
            yield data

    def chunks(self, deltas: Sequence[Delta]) -> bytes:
        """The events of items."""
        events: list[Json] = []
        for delta in deltas:
            events += self._answer.take(delta.text, delta.logprobs, delta.finish_reason)
            self._reason = delta.finish_reason or self._reason
        return self._told(events)

    def closing(self) -> bytes:
        """The response at its end."""
        return self._told(self._answer.finish(self._reason, sse.usage_of(self._generation)))

    def failed(self, error: ApiError) -> bytes:
        """The response as it has failed."""
        return self._told(self._answer.stop("failed", error))

    def _told(self, events: Sequence[Json]) -> bytes:
        told = []
        for event in events:
            told.append(sse.typed({**event, "sequence_number": self._number}))
            self._number += 1
        return b"".join(told)


async def kept(put: Callable[[], Awaitable[object]]) -> None:
    """Keeps a response. Where that fails the client has its answer all the same, and the log says why."""
    try:
        await put()
    except sqlite3.Error:
        log.exception("a response could not be kept")
