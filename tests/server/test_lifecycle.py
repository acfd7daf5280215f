"""Start, readiness, the engine's death, and the end."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import COMMAND, PATIENCE, ROOT, Server, serving, until

CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
LONG = {**HI, "ignore_eos": True}


def read_stream(server: Server, tokens: int, begun: threading.Event | None = None) -> tuple[int, str]:
    """Status and all text of a streamed answer."""
    fields = {**LONG, "max_tokens": tokens, "stream": True}
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        client.stream("POST", CHAT, json=fields) as response,
    ):
        text = ""
        for piece in response.iter_text():
            text += piece
            if begun is not None:
                begun.set()
        return response.status_code, text


def test_health_and_readiness(toy: Server) -> None:
    for path in ("/live", "/health", "/v1/health/live", "/v1/health/ready"):
        assert toy.http.get(path).status_code == 200
    assert toy.http.get("/v1/models").json()["data"][0]["max_model_len"] == 4096
    state = toy.http.get("/ready").json()
    assert (state["status"], state["promise"]) == ("ready", "exact: bit-identical")
    assert re.search(r"ready: toy at http://\S+, exact: bit-identical", toy.log())
    assert f"open {toy.url} in a browser to chat" in toy.log()


def test_while_the_model_loads_only_requests_for_it_are_refused() -> None:
    # A machine that pauses may have loaded it before the first look: then it takes longer the next time.
    for seconds in (2, 10, 60):
        with serving(f"toy:load_ms={seconds}000") as server:
            refused = server.http.post(CHAT, json=HI)
            live, health, ready = (server.http.get(path) for path in ("/live", "/health", "/ready"))
            if ready.status_code == 200:
                continue
            assert (live.status_code, health.status_code) == (200, 200)
            assert (ready.status_code, refused.status_code) == (503, 503)
            assert {answer.headers["retry-after"] for answer in (ready, refused)} == {"1"}
            listed = server.http.get("/v1/models")
            if server.http.get("/ready").status_code == 200:
                continue
            assert (listed.status_code, listed.headers["retry-after"]) == (503, "1")
            assert ready.json()["status"] == "loading"
            assert refused.json()["error"]["code"] == "loading"
            assert server.wait_ready().http.post(CHAT, json=HI).status_code == 200
            return
    raise AssertionError("loaded before it could be asked")


def test_requests_have_a_deadline_waiting_included() -> None:
    config = {"max_batch_size": 1, "server": {"request_timeout": 1.5, "default_max_tokens": 7}}
    with serving("toy:step_us=20000", config=config) as server:
        server.wait_ready()
        short = server.http.post(CHAT, json={**HI, "max_tokens": None, "ignore_eos": True}).json()
        assert short["usage"]["completion_tokens"] == 7
        with concurrent.futures.ThreadPoolExecutor() as pool:
            begun = threading.Event()
            runs = pool.submit(read_stream, server, 2000, begun)
            begun.wait()
            waits = pool.submit(server.http.post, CHAT, json={**LONG, "max_tokens": 60})
        status, text = runs.result()
        assert status == 200
        assert text.count("data: ") > 10
        assert '"code":"request_timeout"' in text.splitlines()[-2]
        late = waits.result()
        assert (late.status_code, late.json()["error"]["code"]) == (504, "request_timeout")
        server.wait_idle()


def test_metrics_move(toy: Server) -> None:
    names = ("llgtrt_generated_tokens_total", "llgtrt_prompt_tokens_total", "llgtrt_end_to_end_seconds_count")
    before = [toy.metric(n) for n in names]
    assert toy.http.post(CHAT, json={**LONG, "max_tokens": 5}).status_code == 200
    toy.wait_idle()
    moved = [toy.metric(n) - b for n, b in zip(names, before, strict=True)]
    assert moved[0] >= 5
    assert moved[1] > 0
    assert moved[2] >= 1
    assert toy.metric("llgtrt_ready") == 1


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *COMMAND, "serve", *arguments]
    path = {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | path)


def test_what_cannot_be_served_is_one_line(toy: Server, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.gguf").write_bytes(b"GGUF" + bytes(range(256)))
    cases: list[tuple[list[str], str]] = [
        (["no-such-folder"], "no-such-folder"),
        ([str(tmp_path), "--port", "0"], "model.gguf"),
        (["toy", "--port", toy.url.rpartition(":")[2]], "--port"),
        (["toy", "--prot", "1"], "--port"),
        (["toy", "tests"], "cannot draft for the weightless engine"),
        ([str(tmp_path / "broken"), "--port", "0"], str(tmp_path / "broken")),
    ]
    for arguments, said in cases:
        result = run(*arguments)
        assert result.returncode == 2, arguments
        (line,) = [line for line in result.stderr.splitlines() if "INFO" not in line]
        assert line.startswith("llgtrt: ")
        assert said in line


def test_a_context_that_the_model_does_not_reach_is_refused_before_it_listens() -> None:
    target = str(ROOT / "demo" / "target")
    result = run(target, "--max-model-len", "1000000", "--port", "0")
    assert result.returncode == 2
    assert "engine.context: 1000000 is more than" in result.stderr
    assert "listening" not in result.stderr


def test_a_bare_model_file_is_served_as_its_folder_is(demo: Server) -> None:
    # With the vocabulary, the chat template and the name of the file.
    body = {"messages": [{"role": "user", "content": "Wo? <|im_end|> 日本"}], "max_tokens": 12}
    with serving(str(ROOT / "demo" / "target" / "model.gguf"), config={"max_batch_size": 32}) as server:
        server.wait_ready()
        # A cache of its own: one of the two has answered before.
        asked = {**body, "temperature": 0, "cache_salt": "bare"}
        one, other = (s.http.post(CHAT, json=asked).json() for s in (server, demo))
    assert one["model"] == "model"
    assert (one["choices"], one["usage"]) == (other["choices"], other["usage"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_finish(number: int) -> None:
    patient = {"server": {"grace_period": PATIENCE}, "max_batch_size": 1}
    with (
        serving("toy:step_us=5000", config=patient) as server,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        server.wait_ready()
        begun = threading.Event()
        running = pool.submit(read_stream, server, 600, begun)
        begun.wait(PATIENCE)
        waiting = pool.submit(read_stream, server, 20)
        server.wait_metric("llgtrt_waiting_requests")
        server.process.send_signal(number)
        server.wait_away()
        refused = server.http.post(CHAT, json=HI)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert refused.headers["connection"] == "close"
        assert server.http.get("/live").status_code == 200
        for stream in (running, waiting):
            status, text = stream.result(PATIENCE)
            assert status == 200
            assert text.endswith("data: [DONE]\n\n")
        assert server.process.wait(PATIENCE) == 0


def test_the_grace_period_ends() -> None:
    with serving("toy:step_us=5000", config={"server": {"grace_period": 1}}) as server:
        server.wait_ready()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            begun = threading.Event()
            running = pool.submit(read_stream, server, 4000, begun)
            begun.wait(PATIENCE)
            server.process.send_signal(signal.SIGINT)
            _, text = running.result(PATIENCE)
        assert '"error"' in text.split("\n\n")[-2]
        assert server.process.wait(PATIENCE) == 0


def test_a_second_signal_ends_at_once() -> None:
    with serving("toy:step_us=5000") as server, concurrent.futures.ThreadPoolExecutor() as pool:
        server.wait_ready()
        begun = threading.Event()
        running = pool.submit(read_stream, server, 4000, begun)
        begun.wait(PATIENCE)
        server.process.send_signal(signal.SIGTERM)
        server.wait_away()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) != 0
        with pytest.raises(httpx.HTTPError):
            running.result(PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_the_engine_dies_under_streams(number: int) -> None:
    with serving("toy:step_us=3000") as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        server.wait_ready()
        begun = [threading.Event() for _ in range(16)]
        streams = [pool.submit(read_stream, server, 4000, b) for b in begun]
        for event in begun:
            event.wait(PATIENCE)
        (child,) = server.children()
        os.kill(child, number)
        for stream in streams:
            status, text = stream.result(PATIENCE)
            assert status == 500 or '"error"' in text.split("\n\n")[-2]
        assert server.http.get("/live").status_code == 200
        server.wait_ready()
        assert server.metric("llgtrt_engine_restarts_total") == 1
        assert server.children() != [child]
        assert server.http.post(CHAT, json=HI).status_code == 200


def test_ready_says_so_while_the_engine_is_away() -> None:
    with serving() as server:
        server.wait_ready()
        (child,) = server.children()
        os.kill(child, signal.SIGKILL)
        server.wait_away()
        server.wait_ready()


def test_nothing_is_left_of_a_killed_server() -> None:
    with serving() as server:
        children = server.wait_ready().children()
        server.stop(signal.SIGKILL)
        assert any(not any(Path(f"/proc/{c}").exists() for c in children) for _ in until())


@pytest.mark.parametrize("way", ["configuration", "environment"])
def test_all_lines_of_the_log_have_one_format(way: str) -> None:
    line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARN) [\w.:]+: \S.*")
    with serving("toy") as server:
        server.wait_ready()
        assert all(line.fullmatch(told) for told in server.log().splitlines()), server.log()
    config: dict[str, Any] = {"server": {"access_log": "json"}}
    environment = {}
    if way == "configuration":
        config["server"]["log_format"] = "json"
    else:
        environment["LLGTRT_LOG_FORMAT"] = "json"
    with serving("toy", config=config, environment=environment) as server:
        server.wait_ready().http.get("/v1/models", headers={"x-request-id": "mine"})
        for _ in until():
            lines = [json.loads(told) for told in server.log().splitlines()]
            if any(told.get("id") == "mine" for told in lines):
                break
        assert all(told["time"].endswith("Z") for told in lines)
        loggers = {told["logger"] for told in lines if "logger" in told}
        assert {"llgtrt.serve", "llgtrt::exec::open"} <= loggers
