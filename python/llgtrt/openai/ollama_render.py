"""Answers in Ollama's form: one object, or a line of JSON for each event."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from llgtrt.engine import Delta, Generation
from llgtrt.logs import time_of
from llgtrt.openai import ollama_errors as errors
from llgtrt.openai.errors import ApiError
from llgtrt.openai.parse import Grammar, Parser, pieces
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Reasoning
from llgtrt.openai.render import Json, Whole, Writer, timings
from llgtrt.openai.sse import Events

_NANOSECONDS = 10**6
"""In a millisecond."""


class Parts:
    """Splits the text of an answer into reasoning, content and complete calls."""

    def __init__(self, grammar: Grammar | None) -> None:
        self._parser = Parser(grammar) if grammar is not None else None
        self._call = ("", "")
        """Name and arguments of the call that is being written."""

    def take(self, text: str, reason: str | None) -> Iterator[Json]:
        """Members of messages. `reason`: the finish reason, if the answer ends here."""
        for piece in pieces(self._parser, text, reason):
            match piece:
                case Content(more):
                    yield {"content": more}
                case Reasoning(more):
                    yield {"thinking": more}
                case Call(_, name):
                    self._call = name, ""
                case Arguments(_, more):
                    self._call = self._call[0], self._call[1] + more
                case Done(_):
                    name, arguments = self._call
                    yield {"tool_calls": [{"function": {"name": name, "arguments": json.loads(arguments)}}]}


def joined(members: Iterable[Json]) -> Json:
    """Joins members of messages."""
    told: Json = {"content": ""}
    for member in members:
        for name, value in member.items():
            told[name] = told[name] + value if name in told else value
    return told


def as_message(told: Json) -> Json:
    """An answer as `/api/chat` writes it."""
    return {"message": {"role": "assistant", "content": "", **told}}


def as_response(told: Json) -> Json:
    """An answer as `/api/generate` writes it."""
    thinking = {"thinking": told["thinking"]} if "thinking" in told else {}
    return {"response": told.get("content", ""), **thinking}


class OllamaWriter(Writer):
    """One answer, either whole or line by line."""

    def __init__(self, model: str, grammar: Grammar | None, shape: Callable[[Json], Json]) -> None:
        """`shape`: `as_message` or `as_response`."""
        self._model = model
        self._parts = Parts(grammar)
        self._shape = shape

    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """The whole answer."""
        (choice,) = choices
        told = joined(self._parts.take(choice.text, choice.finish_reason))
        return self._line(told) | self._end(choice.finish_reason)

    def news(self, delta: Delta) -> Iterator[Json]:
        """The lines for some events."""
        for member in self._parts.take(delta.text, delta.finish_reason):
            yield self._line(member)
        if delta.finish_reason is not None:
            yield self._line({}) | self._end(delta.finish_reason)

    def _line(self, told: Json) -> Json:
        return {"model": self._model, "created_at": time_of(time.time()), **self._shape(told), "done": False}

    def _end(self, reason: str | None) -> Json:
        assert self.generation is not None
        return {"done": True, "done_reason": reason or "stop", **_durations(self.generation)}


def _durations(generation: Generation) -> Json:
    """Counts of tokens, and times in nanoseconds."""
    told = timings(generation)
    return {
        "total_duration": round((generation.last - generation.begun) * 1e3 * _NANOSECONDS),
        "load_duration": 0,
        "prompt_eval_count": told["prompt_n"] + told["cache_n"],
        "prompt_eval_duration": round(told["prompt_ms"] * _NANOSECONDS),
        "eval_count": told["predicted_n"],
        "eval_duration": round(told["predicted_ms"] * _NANOSECONDS),
    }


class Lines(Events):
    """The lines of a streamed answer."""

    media_type = "application/x-ndjson"
    silence = b""

    def __init__(self, generation: Generation, writer: OllamaWriter) -> None:
        super().__init__(generation)
        self._writer = writer

    def chunks(self, deltas: Sequence[Delta]) -> bytes:
        """The lines for some events."""
        lines = (line for delta in deltas for line in self._writer.news(delta))
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)

    def failed(self, error: ApiError) -> bytes:
        """A line with the error."""
        return errors.event(error)
