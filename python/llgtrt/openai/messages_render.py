"""Core events to Anthropic's messages, whole and as typed events."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from llgtrt.engine import Delta, Generation
from llgtrt.openai import messages_errors as errors
from llgtrt.openai.errors import ApiError
from llgtrt.openai.parse import Parser, pieces, whole
from llgtrt.openai.pieces import Arguments, Call, Content, Piece, Reasoning
from llgtrt.openai.render import Json, Whole, Writer
from llgtrt.openai.reply import Reply
from llgtrt.openai.sse import Events, typed, usage_of


class Blocks:
    """Parts of an answer as content blocks, which come one after the other."""

    def __init__(self) -> None:
        # For ids of calls: clients may send the same request id many times.
        self._message = uuid.uuid4().hex
        self._begun = 0
        self._open: str | None = None
        self._digest = hashlib.sha256()

    def take(self, piece: Piece) -> Iterator[Json]:
        """The events of a part."""
        match piece:
            case Reasoning(text):
                yield from self._into("thinking", {"thinking": "", "signature": ""})
                self._digest.update(text.encode())
                yield self._delta({"type": "thinking_delta", "thinking": text})
            case Content(text):
                yield from self._into("text", {"text": ""})
                yield self._delta({"type": "text_delta", "text": text})
            case Call(number, name):
                yield from self.close()
                made = hashlib.sha256(f"{self._message}/{number}".encode()).hexdigest()[:24]
                yield from self._into("tool_use", {"id": f"toolu_{made}", "name": name, "input": {}})
            case Arguments(_, text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})

    def _into(self, kind: str, begin: Json) -> Iterator[Json]:
        """Begins a block of this kind, unless one is open."""
        if self._open == kind:
            return
        yield from self.close()
        self._open = kind
        block = {"type": kind, **begin}
        yield {"type": "content_block_start", "index": self._begun, "content_block": block}
        self._begun += 1

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._begun - 1, "delta": delta}

    def close(self) -> Iterator[Json]:
        """Ends the block that is open."""
        if self._open == "thinking":
            yield self._delta({"type": "signature_delta", "signature": self._digest.hexdigest()})
            self._digest = hashlib.sha256()
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._begun - 1}
        self._open = None


def content(events: Iterable[Json]) -> list[Json]:
    """The blocks that a stream's events come to."""
    blocks: list[Json] = []
    written: dict[int, str] = {}
    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(dict(block))
            case {"index": index, "delta": {"partial_json": text}}:
                written[index] = written.get(index, "") + text
            case {"index": index, "delta": delta}:
                block, (_, (name, text)) = blocks[index], delta.items()
                block[name] += text
    for index, text in written.items():
        # As it is written: numbers keep their digits.
        blocks[index]["input"] = msgspec.Raw(text.encode())
    return blocks


def usage(counts: Json) -> Json:
    """Anthropic's `usage`, from OpenAI's."""
    cached = counts["prompt_tokens_details"]["cached_tokens"]
    told = {
        "input_tokens": counts["prompt_tokens"] - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": {
            "thinking_tokens": counts["completion_tokens_details"]["reasoning_tokens"],
        },
    }
    return told | ({"speculative": counts["speculative"]} if "speculative" in counts else {})


class MessageWriter(Writer):
    """One message, either whole or as events."""

    def __init__(self, model: str, reply: Reply, stops: Sequence[str]) -> None:
        """`reply`: what the answer may be; `stops`: the texts that end it, each of which is part of it."""
        self._id = ""
        self._model = model
        self._stops = stops
        self._stop: str | None = None
        """The one that ended it."""
        parts = reply.parts()
        self._parser = Parser(parts) if parts is not None else None
        self._blocks = Blocks()

    def named(self, request: str) -> None:
        """Makes the answer's id from the request's."""
        self._id = f"msg_{request}"

    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """The message."""
        (choice,) = choices
        blocks = content(self._told(choice.text, choice.finish_reason, whole))
        return {**self._envelope(usage), "content": blocks, **self._end(choice.finish_reason)}

    def begin(self, counts: Json) -> Json:
        """The event that the message begins with; `counts`: OpenAI's `usage` so far."""
        return {"type": "message_start", "message": self._envelope(counts)}

    def news(self, delta: Delta, counts: Json) -> Iterator[Json]:
        """The events of some news."""
        yield from self._told(delta.text, delta.finish_reason)
        if delta.finish_reason is not None:
            end = self._end(delta.finish_reason)
            yield {"type": "message_delta", "delta": end, "usage": usage(counts)}
            yield {"type": "message_stop"}

    def _envelope(self, counts: Json) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(counts),
        }

    def _told(
        self,
        text: str,
        reason: str | None,
        read: Callable[[Parser | None, str, str | None], list[Piece]] = pieces,
    ) -> Iterator[Json]:
        """The events of more text; `reason`: why it ends here, if it does."""
        if reason == "stop":
            # What could become one was held back, so all of it comes with the end.
            found = [stop for stop in self._stops if text.endswith(stop)]
            self._stop = max(found, key=len, default=None)
            text = text.removesuffix(self._stop or "")
        for piece in read(self._parser, text, reason):
            yield from self._blocks.take(piece)
        if reason is not None:
            yield from self._blocks.close()

    def _end(self, reason: str | None) -> Json:
        if reason == "length":
            why = "max_tokens"
        elif self._stop is not None:
            why = "stop_sequence"
        else:
            why = "tool_use" if self._parser and self._parser.calls else "end_turn"
        return {"stop_reason": why, "stop_sequence": self._stop}


class MessageEvents(Events):
    """The typed events of a message."""

    silence = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, generation: Generation, writer: MessageWriter) -> None:
        super().__init__(generation)
        self._writer = writer
        self._begun = False

    def chunks(self, deltas: Sequence[Delta]) -> bytes:
        """The events of some news, the message's beginning before the first."""
        counts = usage_of(self._generation)
        events = [] if self._begun else [self._writer.begin(counts)]
        self._begun = True
        for delta in deltas:
            events += self._writer.news(delta, counts)
        return b"".join(map(typed, events))

    def failed(self, error: ApiError) -> bytes:
        """An error in Anthropic's form."""
        return errors.event(error)
