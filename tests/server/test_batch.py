"""Batches without a server: answers as over HTTP, each request once, also after a batch was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .serving import COMMAND, PATIENCE, ROOT, Server, until

CHAT = "/v1/chat/completions"


def request(name: str, url: str = CHAT, **fields: Any) -> dict[str, Any]:
    said = {"prompt": "hi"} if url != CHAT else {"messages": [{"role": "user", "content": "hi"}]}
    return {"custom_id": name, "method": "POST", "url": url, "body": {**said, "max_tokens": 8, **fields}}


def write(file: Path, requests: Sequence[Any]) -> Path:
    file.write_text("".join(json.dumps(r) + "\n" for r in requests))
    return file


def start(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, *COMMAND, "batch", *map(str, arguments)]
    path = {"PYTHONPATH": str(ROOT / "python"), "LLGTRT_API_KEY": "of the server, not of the batch"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | path, **more)


def run(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and what it said."""
    with start(*arguments) as process:
        said = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, said


def answers(file: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({line["custom_id"] for line in lines}) == len(lines)
    assert all(line["error"] is None and line["id"].startswith("batch_req_") for line in lines)
    return {line["custom_id"]: line["response"] for line in lines}


def test_answers_are_those_of_the_server(toy: Server, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    requests = [request(f"r{n}", seed=n, max_tokens=30) for n in range(40)]
    requests += [
        request("text", "/v1/completions", seed=1, echo=True, n=2),
        request("json", seed=2, response_format={"type": "json_schema", "json_schema": {"schema": schema}}),
        request("count", "/tokenize"),
        request("wrong", temperature="hot"),
        request("stream", stream=True),
        request("other", model="another"),
    ]
    extra: dict[str, dict[str, Any]] = {"response": {}, "background": {"background": True}}
    for name, fields in extra.items():
        body = {"input": "hi", "max_output_tokens": 8, **fields}
        requests.append({"custom_id": name, "method": "POST", "url": "/v1/responses", "body": body})
    source, out = write(tmp_path / "in.jsonl", requests), tmp_path / "out.jsonl"
    code, said = run(source, out, "toy")
    assert code == 1, said
    assert f"48 of 48 requests are in {out}" in said
    assert "4 of them with an error" in said
    told = answers(out)
    assert len(told) == 48
    for one in requests:
        if one["custom_id"] in ("stream", "response", "background"):
            continue
        over_http = toy.http.post(one["url"], json=one["body"])
        response = told[one["custom_id"]]
        assert response["status_code"] == over_http.status_code
        for key in ("choices", "tokens", "error"):
            assert response["body"].get(key) == over_http.json().get(key)
    for name in "stream", "background":
        assert (told[name]["status_code"], told[name]["body"]["error"]["param"]) == (400, name)
    assert told["response"]["body"]["output"][0]["type"] == "message"


def test_a_stopped_batch_goes_on_where_it_was(tmp_path: Path) -> None:
    requests = [request(f"r{n}", seed=n, ignore_eos=True, max_tokens=40) for n in range(120)]
    source, out = write(tmp_path / "in.jsonl", requests), tmp_path / "out.jsonl"
    slow = ["toy:step_us=20000", "--max-num-seqs", "4"]
    with start(source, out, *slow) as process:
        for _ in until():
            if out.exists() and out.read_bytes().count(b"\n") >= 12:
                break
        process.send_signal(signal.SIGKILL)
    before = out.read_bytes()
    done = before.count(b"\n")
    assert 12 <= done < 120
    # As if it had been stopped while it wrote, and had met a server that could not answer.
    failed = {"custom_id": "r119", "response": {"status_code": 500, "body": {}}, "error": None}
    with out.open("ab") as file:
        file.write(json.dumps(failed).encode() + b"\n" + before.splitlines()[0][:50])
    code, said = run(source, out, "toy")
    assert code == 0, said
    assert out.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    told = answers(out)
    assert set(told) == {r["custom_id"] for r in requests}
    assert {r["status_code"] for r in told.values()} == {200}
    whole = out.read_bytes()
    assert run(source, out, "toy")[0] == 0
    assert out.read_bytes() == whole


def test_an_interrupt_leaves_what_is_done(tmp_path: Path) -> None:
    requests = [request(f"r{n}", ignore_eos=True, max_tokens=100) for n in range(100)]
    source, out = write(tmp_path / "in.jsonl", requests), tmp_path / "out.jsonl"
    with start(source, out, "toy:step_us=20000", "--max-num-seqs", "2") as process:
        for _ in until():
            if out.exists() and out.read_bytes().count(b"\n") >= 2:
                break
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    assert f"{len(answers(out))} of 100 requests are in" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no request"),
        ("{", "line 1: not a request"),
        (json.dumps(request("a")) + "\n\n" + json.dumps({"custom_id": "b"}), "line 3: not a request"),
        (json.dumps(request("a")) + "\n" + json.dumps(request("a")), "line 2: custom_id: a is another"),
        (json.dumps(request("a", "/v1/embeddings")), "line 1: url: POST /v1/embeddings is not one of"),
        (json.dumps({**request("a"), "method": "GET"}), "line 1: url: GET"),
    ],
)
def test_a_file_that_is_wrong_is_refused_before_anything_is_done(
    tmp_path: Path, text: str, said: str
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(text)
    code, told = run(source, out, "toy")
    assert (code, said in told) == (2, True), told
    assert not out.exists()


def test_files_and_targets_that_cannot_be_used(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", [request("a")]), tmp_path / "out.jsonl"
    assert run(tmp_path / "none.jsonl", out, "toy")[0] == 2
    assert run(source, tmp_path / "no" / "folder", "toy")[0] == 2
    assert run(source, out, "no-such-model")[0] == 2
    out.write_text(json.dumps({"custom_id": "b", "response": {"status_code": 200}}) + "\n")
    code, said = run(source, out, "toy")
    assert (code, "of another batch" in said) == (2, True)
    assert out.read_text().count("\n") == 1
    assert run(source, tmp_path / "new.jsonl", "toy", "--port", "1")[0] == 2
