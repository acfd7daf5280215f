"""Replicas behind a Ray of their own, over real sockets: what Ray would change, and dead replicas.

Skipped where Ray is not installed: `pip install -r launch/requirements/ray.txt`, then `pytest tests/cluster`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server.serving import PATIENCE, ROOT, Server, until
from server.test_clients import raw_request

from .processes import alive, family, open_to_others

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")

CHAT = "/v1/chat/completions"
START = [str(ROOT / "launch" / "ray_serve.py")]
SECONDS = 10.0
"""Within which the requests of a replica that dies are answered or fail."""


def body(text: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **fields}


LONG = body(max_tokens=3500, ignore_eos=True)


@contextlib.contextmanager
def serving(target: str, *flags: str, config: dict[str, Any] | None = None) -> Iterator[Server]:
    """A Ray of the test's own, of which nothing is left behind, and which no other machine reaches."""
    server = Server(target, *flags, config=config, start=START)
    started = family(server.process.pid)
    try:
        assert not open_to_others(started), server.log()
        yield server
    finally:
        started |= family(server.process.pid)
        if server.process.poll() is None:
            server.stop()
        server.close()
        assert any(not [pid for pid in started if alive(pid)] for _ in until())


@pytest.fixture(scope="module")
def pair() -> Iterator[Server]:
    """Two replicas of the demo pair."""
    files = [str(ROOT / "demo" / name) for name in ("target", "draft")]
    flags = ["--draft-engine", files[1], "--replicas", "2", "--threads", "1", "--served-model-name", "demo"]
    with serving(
        files[0], *flags, config={"max_batch_size": 16, "server": {"max_body_bytes": 1_000_000}}
    ) as server:
        yield server


def wait(look: Callable[[], Any]) -> Any:
    """The first thing seen; what never comes is a failure."""
    for _ in until():
        if seen := look():
            return seen
    raise AssertionError("waited in vain")


def names(server: Server) -> set[str]:
    """The replicas that take requests."""
    return set(re.findall(r'^llgtrt_ready{replica="(\w+)"} 1.0$', server.http.get("/metrics").text, re.M))


def running(server: Server, name: str) -> float:
    return server.metric(f'llgtrt_running_choices{{replica="{name}"}}')


def process(server: Server, name: str) -> int:
    """The process of a replica, as the log tells it."""
    found = re.search(rf"Replica pid=(\d+)\).*ready: .* at replica {name},", server.log())
    assert found, server.log()
    return int(found[1])


def test_metrics_of_both_replicas_are_visible_and_rays_too(pair: Server) -> None:
    both = wait(lambda: len(names(pair)) == 2 and names(pair))
    text = pair.http.get("/metrics").text
    assert text.count("# TYPE llgtrt_running_choices gauge") == 1
    assert set(re.findall(r'^llgtrt_engine_info{model="demo",.*replica="(\w+)"', text, re.M)) == both
    pair.http.post(CHAT, json=body())
    found = re.search(r"Ray's own metrics: (http://127\.0\.0\.1:\d+)", pair.log())
    assert found
    counter = r'^ray_serve_deployment_request_counter\w*{.*replica="(\w+)".*} \d'
    counted = wait(lambda: re.findall(counter, httpx.get(found[1]).text, re.M))
    assert set(counted) <= both


def test_a_stream_comes_through_as_it_grows(pair: Server) -> None:
    with pair.client() as client:
        stream = client.chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": "hi"}],
            max_tokens=1500,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        begun, arrivals, text, usage = time.monotonic(), [], "", None
        for chunk in stream:
            arrivals.append(time.monotonic() - begun)
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
    assert usage is not None
    assert usage.completion_tokens == 1500
    assert arrivals[0] < arrivals[-1] / 3
    assert len({round(at, 2) for at in arrivals}) > 10
    assert len(text) > 100


def test_headers_and_errors_are_the_apis(pair: Server) -> None:
    fields = body(stream=True)
    answer = pair.http.post(CHAT, json=fields, headers={"x-request-id": "my-name"})
    assert answer.headers.get_list("x-request-id") == ["my-name"]
    assert answer.headers.get_list("content-type") == ["text/event-stream; charset=utf-8"]
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.endswith("data: [DONE]\n\n")
    bad = pair.http.post(CHAT, json=body(temperature="hot"), headers={"x-request-id": "a b\tc"})
    assert (bad.status_code, bad.json()["error"]["param"]) == (400, "temperature")
    (name,) = bad.headers.get_list("x-request-id")
    assert name.isalnum()
    for path, status in (
        ("/live", 200),
        ("/ready", 200),
        ("/v1/models", 200),
        ("/nosuch", 404),
        ("/docs", 200),
    ):
        assert pair.http.get(path).status_code == status
    assert pair.http.get("/nosuch").json()["error"]["code"] == "not_found"
    large = pair.http.post(CHAT, content=b" " * 1_100_000)
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")


def test_a_client_that_goes_away_frees_its_work(pair: Server) -> None:
    cancelled = 'llgtrt_requests_total{{outcome="cancelled",replica="{}"}}'
    both = names(pair)
    before = sum(pair.metric(cancelled.format(name)) for name in both)
    for stream in (False, True):
        with raw_request(pair, {**LONG, "stream": stream, "n": 8}):
            wait(lambda: sum(running(pair, name) for name in both))
        wait(lambda: not sum(running(pair, name) for name in both))
    assert sum(pair.metric(cancelled.format(name)) for name in both) == before + 2


def test_prompts_go_where_their_beginning_is_known(pair: Server) -> None:
    def chat(text: str, **headers: str) -> tuple[str, int]:
        answer = pair.http.post(CHAT, json=body(text), headers=headers)
        cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        return answer.headers["x-llgtrt-replica"], cached

    seen = set()
    for number in range(8):
        begin = f"{number} is the number of this text. " * 20
        first, _ = chat(begin + "What is it?")
        seen.add(first)
        for question in ("Why?", "And then?"):
            replica, cached = chat(begin + question)
            assert replica == first
            assert cached > 100
    assert seen == names(pair)
    assert len({chat(f"hi {n}", **{"x-session-id": "mine"})[0] for n in range(8)}) == 1


@dataclasses.dataclass
class End:
    """How a request ended."""

    replica: str | None
    status: int
    text: str
    at: float

    @property
    def whole(self) -> bool:
        return self.status == 200 and (self.text.endswith("data: [DONE]\n\n") or '"usage"' in self.text)


def ask(server: Server, fields: dict[str, Any]) -> End:
    limits = httpx.Timeout(PATIENCE)
    with (
        httpx.Client(base_url=server.url, timeout=limits) as client,
        client.stream("POST", CHAT, json=fields) as answer,
    ):
        text = answer.read().decode()
        return End(answer.headers.get("x-llgtrt-replica"), answer.status_code, text, time.monotonic())


def test_a_replica_dies_under_its_requests(pair: Server) -> None:
    both = names(pair)
    victim = min(both)
    requests = [{**LONG, "stream": n % 2 == 0, "seed": n} for n in range(28)]
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        asked = [pool.submit(ask, pair, fields) for fields in requests]
        wait(lambda: running(pair, victim) >= 8)
        died = time.monotonic()
        os.kill(process(pair, victim), signal.SIGKILL)
        ends = [one.result(PATIENCE) for one in asked]
        failed = [(fields, end) for fields, end in zip(requests, ends, strict=True) if not end.whole]
        assert len(failed) >= 8
        assert max(end.at for _, end in failed) - died < SECONDS
        for fields, end in failed:
            if fields["stream"] and end.status == 200:
                assert end.replica == victim
                assert json.loads(end.text.split("\n\n")[-2][6:])["error"]["code"] == "engine_error"
            else:
                assert (end.status, json.loads(end.text)["error"]["code"]) == (500, "engine_error")
        again = [pool.submit(ask, pair, {**fields, "max_tokens": 64}) for fields, _ in failed]
        assert all(one.result(PATIENCE).whole for one in again)
    wait(lambda: len(names(pair)) == 2)
    assert victim not in names(pair)


def test_what_runs_may_finish_when_there_are_fewer_replicas_and_at_the_end() -> None:
    scaling = ["--replicas", "2", "--min-replicas", "1", "--downscale-delay", "8"]
    patient = {"server": {"grace_period": PATIENCE}}
    with (
        serving("toy:step_us=15000", *scaling, config=patient) as server,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        both = names(server)
        streams = []
        while not all(running(server, name) for name in both):
            streams.append(pool.submit(ask, server, {**LONG, "stream": True}))
            wait(lambda: sum(running(server, name) for name in both) == len(streams))
        wait(lambda: re.search("replicas: .*1 stopping", server.log()))
        assert not any(stream.done() for stream in streams)
        ends = [stream.result(PATIENCE) for stream in streams]
        assert {end.replica for end in ends} == both
        assert all(end.whole for end in ends)
        wait(lambda: re.search("replicas: 1 running$", server.log(), re.M))
        (name,) = names(server)

        stream = pool.submit(ask, server, {**LONG, "max_tokens": 1000, "stream": True})
        wait(lambda: running(server, name))
        server.process.send_signal(signal.SIGTERM)
        refused: httpx.Response = wait(lambda: refusal(server))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert not stream.done()
        assert stream.result(PATIENCE).whole
        assert server.process.wait(PATIENCE) == 0


def refusal(server: Server) -> httpx.Response | None:
    answer = server.http.post(CHAT, json=body())
    return None if answer.status_code == 200 else answer


def test_nothing_is_left_of_a_killed_one() -> None:
    with serving("toy") as server:
        assert len(names(server)) == 1
        server.process.kill()
        server.process.wait()


def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(range(256)))
    cases = [
        ([str(tmp_path)], "model.gguf"),
        (["toy", "--replicas", "0"], "--replicas"),
        (["toy", "--min-replicas", "2"], "must rise"),
        (["no-such-folder"], "no-such-folder"),
    ]
    for arguments, said in cases:
        command = [sys.executable, *START, *arguments, "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 2, done.stderr
        line = done.stderr.strip().splitlines()[-1]
        assert line.startswith("llgtrt: ")
        assert said in line
