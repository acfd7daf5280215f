"""Answers: whole ones and streams, of both APIs, from events that are given."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any, cast

import pytest

from llgtrt import _core
from llgtrt.engine import Delta, Generation, Logprob
from llgtrt.openai import sse
from llgtrt.openai.render import CompletionRender, Render
from llgtrt.openai.render_chat import ChatRender
from llgtrt.openai.schema import StreamOptions
from llgtrt.prompt import Vocabulary

from . import fake_core

CORE = cast("_core.Engine", fake_core.Engine("toy", "{}"))
VOCABULARY = Vocabulary(CORE)


class Script(Generation):
    """A generation whose events are known."""

    def __init__(self, n: int, steps: Sequence[list[fake_core.Event]]) -> None:
        super().__init__(CORE, {}, n)
        self.add(1)
        self._steps = list(steps)

    async def next(self) -> list[Delta]:
        for event in self._steps.pop(0) if self._steps else []:
            self.push(cast("_core.Event", event))
        return await super().next()


def news(text: str = "", choice: int = 0, finish: str | None = None, **fields: Any) -> fake_core.Event:
    counts = {"prompt_tokens": 5, "cached_tokens": 3, "completion_tokens": fields.pop("completion", 1)}
    counts["reasoning_tokens"] = fields.pop("reasoning", 0)
    counts["shortened"] = fields.pop("shortened", 0)
    drafts = fields.pop("drafts", {})
    given = {
        "text": text,
        "tokens": [],
        "logprobs": [],
        "finish_reason": finish,
        "error": None,
        "queue_seconds": 0.0,
        "compile_seconds": 0.0,
        "allowed": [],
        "prompt_logprobs": [],
        "origins": [],
        "narrowed": [],
        "successors": [],
        **counts,
        **fields,
    }
    return fake_core.Event(request=1, choice=choice, drafts=drafts, **given)


def logprob(token: int, *top: tuple[int, float]) -> Logprob:
    return token, -1.0, list(top)


def chat(logprobs: int | None = None) -> ChatRender:
    return ChatRender("m", "fp", VOCABULARY, logprobs)


def whole(script: Script, render: Render) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await sse.whole(script, render))
        return body

    return asyncio.run(main())


def stream(script: Script, render: Render, options: StreamOptions | None = None) -> list[Any]:
    async def main() -> bytes:
        events = sse.Stream(script, render, options).events(await script.next())
        return b"".join([e async for e in events])

    lines = asyncio.run(main()).decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    return [line[6:] if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def test_a_chat_in_one_piece() -> None:
    script = Script(
        2, [[news("a"), news("x", 1)], [news("b", finish="length", completion=2), news("", 1, "stop")]]
    )
    body = whole(script, chat())
    assert body.pop("id").startswith("chatcmpl-")
    assert body.pop("created") > 0
    shared = {"logprobs": None}
    assert body == {
        "object": "chat.completion",
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [
            {"index": 0, "message": message("ab"), "finish_reason": "length", **shared},
            {"index": 1, "message": message("x"), "finish_reason": "stop", **shared},
        ],
        "usage": USAGE,
    }


def message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "refusal": None}


def test_a_streamed_chat() -> None:
    chunks = stream(Script(1, [[news("a")], [news()], [news("b", finish="stop")]]), chat())
    assert chunks.pop() == "[DONE]"
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({c["id"] for c in chunks}) == 1
    assert all("usage" not in c for c in chunks)
    deltas = [(c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks]
    opening = {"role": "assistant", "content": "", "refusal": None}
    assert deltas == [(opening, None), ({"content": "a"}, None), ({"content": "b"}, None), ({}, "stop")]


def test_usage_in_a_stream() -> None:
    def script() -> Script:
        return Script(1, [[news("a")], [news("b", finish="stop", completion=3)]])

    *chunks, last, done = stream(script(), chat(), StreamOptions(include_usage=True))
    assert done == "[DONE]"
    assert all(c["usage"] is None and c["choices"] for c in chunks)
    assert (last["choices"], last["usage"]) == ([], USAGE)
    *chunks, last, _ = stream(
        script(), chat(), StreamOptions(include_usage=True, continuous_usage_stats=True)
    )
    assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 1, 3, 3]
    assert last["usage"] == USAGE


def test_an_error_ends_a_stream() -> None:
    failure = news(error=_core.EngineError("gone"))
    *chunks, last = stream(Script(1, [[news("a")], [failure]]), chat())
    assert len(chunks) == 2
    assert last == {
        "error": {"message": "gone", "type": "server_error", "param": None, "code": "engine_error"}
    }


def test_logprobs_of_a_chat() -> None:
    e_acute = logprob(ord("é"), (ord("e"), -1.0), (ord("é"), -math.inf))
    end = logprob(fake_core.END)
    body = whole(Script(1, [[news("é", logprobs=[e_acute])], [news(finish="stop", logprobs=[end])]]), chat(2))
    top = [
        {"token": "e", "logprob": -1.0, "bytes": [101]},
        {"token": "é", "logprob": -9999.0, "bytes": [195, 169]},
    ]
    entry = {"token": "é", "logprob": -1.0, "bytes": [195, 169], "top_logprobs": top}
    assert body["choices"][0]["logprobs"] == {"content": [entry], "refusal": None}


def test_streamed_logprobs_come_without_text_too() -> None:
    script = Script(1, [[news(logprobs=[logprob(97)])], [news("a", finish="length", logprobs=[logprob(98)])]])
    chunks = stream(script, chat(0))
    shown = [e["token"] for c in chunks[:-1] for e in (c["choices"][0]["logprobs"] or {}).get("content", [])]
    assert shown == ["a", "b"]


def test_logprobs_of_a_completion() -> None:
    steps = [[news("hé", logprobs=[logprob(104), logprob(233, (104, -0.5))])], [news("!", finish="length")]]
    body = whole(Script(1, steps), CompletionRender("m", "fp", VOCABULARY, 1))
    assert body["object"] == "text_completion"
    assert body["choices"][0]["logprobs"] == {
        "tokens": ["h", "é"],
        "token_logprobs": [-1.0, -1.0],
        "top_logprobs": [{"h": -1.0}, {"h": -0.5, "é": -1.0}],
        "text_offset": [0, 1],
    }


def test_text_offsets_go_on_in_a_stream() -> None:
    script = Script(
        1, [[news("a", logprobs=[logprob(97)])], [news("b", finish="length", logprobs=[logprob(98)])]]
    )
    chunks = stream(script, CompletionRender("m", "fp", VOCABULARY, 0))
    offsets = [c["choices"][0]["logprobs"]["text_offset"] for c in chunks[:-2]]
    assert offsets == [[0], [1]]


def test_echo() -> None:
    render = CompletionRender("m", "fp", VOCABULARY, None)
    render.echo(["p"], [[112]], 2)
    script = Script(2, [[news("a", finish="stop"), news("b", 1, "stop")]])
    assert [c["text"] for c in whole(script, render)["choices"]] == ["pa", "pb"]
    render.echo(["p"], [[112]], 1)
    chunks = stream(Script(1, [[news("a")], [news("b", finish="stop")]]), render)
    assert [c["choices"][0]["text"] for c in chunks[:-1]] == ["p", "a", "b", ""]


def test_a_stream_that_begins_late_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.01)

    async def main() -> list[bytes]:
        script = Script(1, [])
        late = cast("_core.Event", news("a", finish="stop"))
        asyncio.get_running_loop().call_later(0.1, script.push, late)
        events = sse.Stream(script, chat(), None).events([])
        return [event async for event in events]

    events = asyncio.run(main())
    comments = [event for event in events if event == b": keep-alive\n\n"]
    assert len(comments) > 1
    assert events[: len(comments)] == comments
    assert events[-1] == b"data: [DONE]\n\n"
