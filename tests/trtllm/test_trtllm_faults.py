"""What goes wrong in TensorRT-LLM harms those that it happens to, says so, and lets nothing hang."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .served import CHAT, TEXT, Folder, Server, ask_all, over_fake, serving

PLAIN = Folder()
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


def error(answer: httpx.Response) -> str:
    assert answer.status_code >= 500, answer.text
    found: str = answer.json()["error"]["message"]
    return found


def test_errors_of_some_requests(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, Folder(faults={"error_every": 3})) as server:
        bodies = asked(9)
        found = [server.http.post(TEXT, json=body) for body in bodies]
        wanted = ask_all(embedded, bodies)
        assert [a.status_code for a in found] == [200, 200, 500] * 3
        for mine, theirs in zip(found, wanted, strict=True):
            if mine.status_code == 200:
                assert text(mine) == text(theirs)
            else:
                assert "a fault was asked for" in error(mine)
        server.wait_idle()
        assert server.metric("llgtrt_restarts_total") == 0


def test_an_error_within_a_stream_is_an_event(tmp_path: Path) -> None:
    with over_fake(tmp_path, Folder(faults={"fail_at": 12})) as server:
        (body,) = asked(1, max_tokens=200, stream=True)
        lines = server.http.post(TEXT, json=body).text.split("\n\n")
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        assert len([e for e in events if "choices" in e]) > 3
        assert "forwardAsync" in events[-1]["error"]["message"]


def test_a_failed_pass_ends_what_runs_and_no_more(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, Folder(faults={"fail_at": 5})) as server:
        found = ask_all(server, asked(4, max_tokens=60))
        failed = [answer for answer in found if answer.status_code != 200]
        assert failed
        assert all("forwardAsync" in error(answer) for answer in failed)
        good(server, embedded)


@pytest.mark.parametrize(
    "faults",
    [{"late_ms": 30}, {"late_ms": 20, "twice": True}, {"silent_cancel": True}, {"one_step": True}],
    ids=str,
)
@pytest.mark.parametrize("drafting", [False, True])
def test_answers_may_come_late_twice_or_after_one_token(
    tmp_path: Path, embedded: Server, faults: dict[str, Any], drafting: bool
) -> None:
    target, draft, config = (TARGET, DRAFT, DRAFTING) if drafting else (TARGET, None, {"speculative": {"sources": []}})
    with over_fake(tmp_path, target, draft, config, **faults) as server:
        good(server, embedded, 6)
        good(server, embedded, 2, response_format=REGEX)
        with server.client() as client:
            stream = client.completions.create(model="toy", prompt="hi", max_tokens=900, stream=True)
            next(iter(stream))
            stream.close()
        server.wait_idle()
        good(server, embedded, 2)


def test_masks_that_cannot_be_written(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, Folder(faults={"broken_logits": 4})) as server:
        (body,) = asked(1, response_format=REGEX, max_tokens=60)
        answer = server.http.post(TEXT, json=body)
        assert "mask" in error(answer).lower() or "logits" in error(answer).lower()
        good(server, embedded, response_format=REGEX)


@pytest.mark.parametrize("faults", [{"error_every": 2}, {"refuse_every": 3}, {"fail_at": 3}], ids=str)
def test_a_draft_that_fails_costs_speed_alone(tmp_path: Path, embedded: Server, faults: Any) -> None:
    with over_fake(tmp_path, TARGET, Folder(blur=10.0, faults=faults), DRAFTING) as server:
        good(server, embedded, 8)
        good(server, embedded, 2, response_format=REGEX)
        assert server.fates("draft_model")["accepted"] > 0


def test_an_executor_that_ends_is_replaced(tmp_path: Path, embedded: Server) -> None:
    with over_fake(tmp_path, Folder(faults={"stop_after": 60})) as server:
        found = ask_all(server, asked(4, max_tokens=100))
        assert all("shut itself down" in error(answer) for answer in found), [a.text for a in found]
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


def test_an_old_release_serves_too(tmp_path: Path, embedded: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRTLLM_RELEASE", "0.18")
    with over_fake(tmp_path, TARGET, DRAFT, DRAFTING) as server:
        good(server, embedded, 4)
        refused = server.http.post(CHAT, json={"messages": [{"role": "user", "content": "x"}], "cache_salt": "a"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "cache_salt")


@pytest.mark.parametrize(
    ("target", "draft", "why"),
    [
        (Folder(config={"build_config.kv_cache_type": "CONTINUOUS"}), None, "--kv_cache_type=paged"),
        (Folder(batch=8), None, "max_batch_size of 8"),
        (Folder(config={"build_config.speculative_decoding_mode": "DRAFT_TOKENS_EXTERNAL"}), None, "not a number"),
        (Folder(), DRAFT, "--speculative_decoding_mode=draft_tokens_external"),
        (Folder(draft_len=6, config={"build_config.max_input_len": 99}), DRAFT, "--max_input_len"),
        (Folder(draft_len=6), Folder(config={"pretrained_config.vocab_size": 300}), "vocabulary of 300"),
    ],
)
def test_engines_that_cannot_serve_are_refused_with_the_flag(
    tmp_path: Path, target: Folder, draft: Folder | None, why: str
) -> None:
    with pytest.raises(AssertionError) as refused, over_fake(tmp_path, target, draft):
        pass
    assert why in str(refused.value)
