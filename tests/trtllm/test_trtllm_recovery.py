"""Executors that end or hang, releases that lack something, and errors within a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server.serving import until

from .served import CHAT, TEXT, Folder, Server, ask_all, over_fake, serving

TARGET = Folder(draft_len=6)
DRAFT = Folder(blur=10.0)
DRAFTING: dict[str, Any] = {"speculative": {"max_draft_len": 6, "adaptive": False}}
REGEX = {"type": "regex", "regex": "(ab|cd){9,30}"}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    with serving("toy", config={"speculative": {"sources": []}}) as server:
        yield server.wait_ready()


def asked(count: int, **fields: Any) -> list[dict[str, Any]]:
    base = {"max_tokens": 30, "temperature": 0, "ignore_eos": True}
    return [{**base, "prompt": f"A text to go on with, number {i}", **fields} for i in range(count)]


def text(answer: httpx.Response) -> str:
    found: str = answer.json()["choices"][0]["text"]
    return found


def good(server: Server, embedded: Server, count: int = 3, **fields: Any) -> None:
    """New requests get what the embedded engine says."""
    bodies = asked(count, **fields)
    found, wanted = ask_all(server, bodies), ask_all(embedded, bodies)
    assert [a.status_code for a in found] == [200] * count, [a.text for a in found]
    assert [text(a) for a in found] == [text(a) for a in wanted]


def test_an_error_within_a_stream_is_an_event(tmp_path: Path) -> None:
    with over_fake(tmp_path, Folder(faults={"fail_at": 12})) as server:
        (body,) = asked(1, max_tokens=200, stream=True)
        lines = server.http.post(TEXT, json=body).text.split("\n\n")
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        assert len([e for e in events if "choices" in e]) > 3
        assert "forwardAsync" in events[-1]["error"]["message"]


def test_an_executor_that_ends_is_replaced(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, Folder(faults={"stop_after": 60})) as server:
        found = ask_all(server, asked(4, max_tokens=100))
        assert [answer.status_code for answer in found] == [500] * 4
        assert all("shut itself down" in answer.json()["error"]["message"] for answer in found)
        for _ in until():
            if server.metric("llgtrt_engine_restarts_total") > 0:
                break
        server.wait_ready()
        good(server, embedded, 1)


def test_an_executor_that_hangs_holds_no_request_for_ever(tmp_path: Path) -> None:
    config = {"server": {"request_timeout": 2}}
    with over_fake(tmp_path, Folder(faults={"hang_after": 6}), None, config) as server:
        begin = time.monotonic()
        answer = server.http.post(TEXT, json=asked(1, max_tokens=100)[0])
        assert answer.status_code == 504, answer.text
        assert time.monotonic() - begin < 30
        assert server.stop() == 0
        assert time.monotonic() - begin < 60


def test_a_pair_of_an_early_release(
    tmp_path: Path, embedded: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has fewer arguments, and ends every request on an engine for drafts after one step."""
    monkeypatch.setenv("FAKE_TRTLLM_RELEASE", "0.18")
    with over_fake(tmp_path, TARGET, DRAFT, DRAFTING, one_step=True) as server:
        good(server, embedded, 4)
        good(server, embedded, 2, response_format=REGEX)
        salted = {"messages": [{"role": "user", "content": "x"}], "cache_salt": "a"}
        refused = server.http.post(CHAT, json=salted)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "cache_salt")
        assert server.fates("draft_model")["accepted"] > 0


def test_a_draft_whose_pass_fails_costs_speed_alone(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, TARGET, Folder(blur=10.0, faults={"fail_at": 3}), DRAFTING) as server:
        good(server, embedded, 8)
        assert server.fates("draft_model")["accepted"] > 0
