"""What is kept of responses: whose it is, for how long, and what becomes of answers that do not end well."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from .serving import Server, serving
from .test_chat import validate
from .test_responses import URL, events


def test_a_key_sees_its_own_and_a_file_keeps_them_across_a_restart(tmp_path: Path) -> None:
    flags = ("--responses-file", str(tmp_path / "kept.db"))
    config = {"server": {"api_keys": ["ann", "ben"]}}
    headers = {name: {"authorization": f"Bearer {name}"} for name in ("ann", "ben")}
    with serving("toy", *flags, config=config) as server:
        server.wait_ready()
        body = {"input": "hi", "max_output_tokens": 8}
        first = server.http.post(URL, json=body, headers=headers["ann"]).json()
        assert server.http.get(f"{URL}/{first['id']}").status_code == 401
        assert server.http.get(f"{URL}/{first['id']}", headers=headers["ben"]).status_code == 404
        assert server.http.delete(f"{URL}/{first['id']}", headers=headers["ben"]).status_code == 404
        stolen = {**body, "previous_response_id": first["id"]}
        assert server.http.post(URL, json=stolen, headers=headers["ben"]).status_code == 404
        taken = {**body, "input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}
        assert server.http.post(URL, json=taken, headers=headers["ben"]).status_code == 404
        begun = {**body, "background": True, "max_output_tokens": 4000, "ignore_eos": True}
        left = server.http.post(URL, json=begun, headers=headers["ann"]).json()
        server.process.kill()
        server.process.wait()
    with serving("toy", *flags, config=config) as server:
        server.wait_ready()
        assert server.http.get(f"{URL}/{first['id']}", headers=headers["ann"]).json() == first
        again = server.http.post(URL, json=stolen, headers=headers["ann"]).json()
        assert again["usage"]["input_tokens"] > first["usage"]["input_tokens"]
        ended = server.http.get(f"{URL}/{left['id']}", headers=headers["ann"]).json()
        assert (ended["status"], ended["error"]["code"]) == ("failed", "server_error")


def test_what_is_in_the_background_may_end_before_the_server_does(tmp_path: Path) -> None:
    flags = ("--responses-file", str(tmp_path / "kept.db"))
    long = {"input": "hi", "background": True, "max_output_tokens": 200, "ignore_eos": True}
    with serving("toy:step_us=3000", *flags) as server:
        begun = server.wait_ready().http.post(URL, json=long).json()
        assert server.stop() == 0
    with serving("toy", *flags) as server:
        kept = server.wait_ready().http.get(f"{URL}/{begun['id']}").json()
        assert (kept["status"], kept["usage"]["output_tokens"]) == ("incomplete", 200)
        other = server.http.post(URL, json={**long, "max_output_tokens": 3000}).json()
        assert server.http.delete(f"{URL}/{other['id']}").json()["deleted"]
        server.wait_idle()


def test_an_unusable_file_is_told_at_start(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--responses-file"):
        serving("toy", "--responses-file", str(tmp_path)).__enter__()


def test_a_client_that_goes_away_leaves_nothing(demo: Server) -> None:
    body = {"input": "hi", "max_output_tokens": 3000, "ignore_eos": True, "stream": True}
    with demo.http.stream("POST", URL, json=body) as answer:
        line = next(line for line in answer.iter_lines() if line.startswith("data: "))
    begun = json.loads(line.removeprefix("data: "))["response"]["id"]
    demo.wait_idle()
    time.sleep(0.1)
    assert demo.http.get(f"{URL}/{begun}").status_code == 404


def test_an_answer_that_fails_is_told_and_kept(responses_spec: Any) -> None:
    config = {"server": {"request_timeout": 1.0}}
    with serving("toy:step_us=20000", config=config) as server:
        server.wait_ready()
        long = {"max_output_tokens": 2000, "ignore_eos": True}
        told = events(server, **long)
        for event in told:
            validate(responses_spec, "ResponseStreamEvent", event)
        last = told[-1]
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert last["response"]["error"]["code"] == "server_error"
        assert [item["status"] for item in last["response"]["output"]] == ["incomplete"]
        deltas = "".join(e["delta"] for e in told if e["type"] == "response.output_text.delta")
        assert last["response"]["output"][0]["content"][0]["text"] == deltas != ""
        kept = server.http.get(f"{URL}/{last['response']['id']}").json()
        assert kept == last["response"]
        late = server.http.post(URL, json={"input": "hi", **long})
        assert (late.status_code, late.json()["error"]["code"]) == (504, "request_timeout")
        server.wait_idle()


def test_what_is_brought_back_is_bounded_and_at_its_end() -> None:
    with serving("toy", config={"server": {"max_body_bytes": 20_000}}) as server:
        server.wait_ready()
        body = {"input": "x" * 3000, "truncation": "auto", "max_output_tokens": 1}
        made: list[str] = []
        answer = server.http.post(URL, json=body)
        while answer.status_code == 200 and len(made) < 10:
            made.append(answer.json()["id"])
            answer = server.http.post(URL, json={**body, "previous_response_id": made[-1]})
        error = answer.json()["error"]
        assert (error["param"], error["code"]) == ("previous_response_id", "context_length_exceeded")
        assert 3 < len(made) < 7
        (item,) = server.http.get(f"{URL}/{made[0]}/input_items").json()["data"]
        reference = {"type": "item_reference", "id": item["id"]}
        assert server.http.post(URL, json={**body, "input": [reference] * 3}).status_code == 200
        again = server.http.post(URL, json={**body, "input": [reference] * 10})
        assert (again.status_code, again.json()["error"]["param"]) == (400, "input")
        long = {**body, "input": "hi", "background": True, "max_output_tokens": 3000, "ignore_eos": True}
        begun = server.http.post(URL, json=long).json()["id"]
        early = server.http.post(URL, json={**body, "previous_response_id": begun})
        assert (early.status_code, early.json()["error"]["param"]) == (400, "previous_response_id")
        server.http.post(f"{URL}/{begun}/cancel")
        late = server.http.post(URL, json={**body, "input": "go on", "previous_response_id": begun})
        assert late.status_code == 200
