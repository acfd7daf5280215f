"""Models split over ranks, on the demo pair: the same text, and what becomes of ranks that die or hang."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import COMMAND, PATIENCE, ROOT, Server, serving, until

TARGET, DRAFT = ROOT / "demo" / "target", ROOT / "demo" / "draft"
CONFIG: dict[str, Any] = {
    "max_batch_size": 16,
    "kv_cache_max_tokens": 16 * 512,
    "engine": {"context": 512},
    # Texts are compared by tokens of their own, which those with white space of a model's are not.
    "grammar": {"whitespace": "compact"},
}
END = "<|im_end|>"
NEAR = 0.1
"""Nats between two tokens of which either may be drawn."""
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
BEGINNINGS = ("Tom is 31 years old", "One, two,", "The red house", "In the garden", "Name: Ada. Age:")
ENDINGS = (" and", " was", "", " of", ", but", " with a dog", " at night", " now", " when", ".", " she said")


@contextlib.contextmanager
def demo(*flags: str, config: dict[str, Any] | None = None) -> Iterator[Server]:
    """The demo pair with these flags, ready."""
    settings = (
        CONFIG
        | {"speculative": {"draft_model": str(DRAFT), "adaptive": False, "max_draft_len": 4}}
        | (config or {})
    )
    with serving(str(TARGET), "--served-model-name", "demo", *flags, config=settings) as server:
        yield server.wait_ready()


def prompts() -> list[dict[str, Any]]:
    """Greedy completions with scores, streamed or not; every other one under a schema."""
    texts = [begin + end for begin, end in itertools.product(BEGINNINGS, ENDINGS)]
    fields = {"model": "demo", "temperature": 0, "max_tokens": 16, "logprobs": 2}
    shape = {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}}
    free = [{**fields, "prompt": text, "stream": bool(n % 2)} for n, text in enumerate(texts)]
    return free + [{**body, **shape} for body in free]


def answer(server: Server, body: dict[str, Any]) -> list[tuple[str, float, dict[str, float]]]:
    """Of each token its text, its log-probability, and those of the likeliest."""
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        text = response.read().decode()
    assert response.status_code == 200, text
    lines = re.findall(r"^data: (\{.*\})$", text, re.M) if body["stream"] else [text]
    tokens: list[tuple[str, float, dict[str, float]]] = []
    for line in lines:
        for choice in json.loads(line)["choices"]:
            scores = choice["logprobs"] or {"tokens": [], "token_logprobs": [], "top_logprobs": []}
            tokens += zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"], strict=True)
    return tokens


def answers(server: Server) -> list[list[tuple[str, float, dict[str, float]]]]:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda body: answer(server, body), prompts()))


def score(server: Server, text: str, token: str) -> float:
    """The log-probability of a token after a text."""
    body = {"model": "demo", "prompt": text + token, "max_tokens": 1, "echo": True, "logprobs": 0}
    scores = server.http.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
    found = dict(
        zip(scores["text_offset"], zip(scores["tokens"], scores["token_logprobs"], strict=True), strict=True)
    )
    assert found[len(text)][0] == token, (text, token, scores["tokens"])
    return float(found[len(text)][1])


def parted(server: Server, prompt: str, one: list[Any], other: list[Any]) -> float | None:
    """How far apart the server's scores are of the tokens at which texts part; None = they are the same."""
    text = prompt
    # The token that ends a text is not told.
    for (token, *_), (there, *_) in itertools.zip_longest(one, other, fillvalue=(END,)):
        if token != there:
            return abs(score(server, text, token) - score(server, text, there))
        text += token
    return None


def test_texts_are_the_same_on_any_number_of_ranks() -> None:
    with demo() as single:
        wanted = answers(single)
        assert len(wanted) >= 100
        assert not ranks(single)
        for flags, shards in (
            (["--tp", "2"], 4),
            (["-tp", "2", "--speculative-draft-tensor-parallel-size", "1"], 2),
        ):
            with demo(*flags) as server:
                found = answers(server)
                assert len(ranks(server)) == 2
                assert server.fates("draft_model")["accepted"] > 100
                promise = server.http.get("/ready").json()["promise"]
                table = re.search(r"rank +device +target shard +draft shard +memory\n.*\n.*", server.log())
            assert table, server.log()
            assert table[0].count("1/2 of") == shards, table[0]
            pairs = zip((body["prompt"] for body in prompts()), wanted, found, strict=True)
            gaps = [gap for pair in pairs if (gap := parted(single, *pair)) is not None]
            print(f"{' '.join(flags)}: {len(gaps)} of {len(wanted)} texts part, at {gaps} nats; {promise}")
            assert len(gaps) <= 0.03 * len(wanted), gaps
            assert all(gap < NEAR for gap in gaps), gaps


def ranks(server: Server) -> list[int]:
    """Process ids of the engine's ranks."""
    found = []
    for engine in server.children():
        with contextlib.suppress(FileNotFoundError):
            threads = Path(f"/proc/{engine}/task").iterdir()
            found += [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
    return found


def gone(processes: list[int]) -> bool:
    """Whether none of them is there any more; one that nobody has waited for yet is not."""

    def is_there(pid: int) -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
        return False

    return not any(is_there(pid) for pid in processes)


def stream(server: Server, begun: threading.Event | None = None) -> str:
    """All of a long streamed answer."""
    body = {"model": "demo", "prompt": "One, two,", "max_tokens": 400, "ignore_eos": True, "stream": True}
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        text = ""
        for piece in response.iter_text():
            text += piece
            if begun is not None:
                begun.set()
    return text


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGKILL, "it lost a rank"), (signal.SIGSTOP, "its ranks did not answer")]
)
def test_a_rank_dies_or_hangs(number: int, why: str) -> None:
    slots = {"max_batch_size": 2, "kv_cache_max_tokens": 1024, "parallel": {"hang_seconds": 2}}
    with demo("--tp", "2", config=slots) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        begun = [threading.Event(), threading.Event()]
        running = [pool.submit(stream, server, event) for event in begun]
        for event in begun:
            assert event.wait(PATIENCE)
        waiting = [pool.submit(stream, server) for _ in range(2)]
        server.wait_metric("llgtrt_waiting_requests", 2)
        before = ranks(server)
        os.kill(before[1], number)
        server.wait_away()
        errors = [answer.result(PATIENCE) for answer in running]
        # One may have ended before: what is told to those that ran.
        assert all(why in text or "[DONE]" in text for text in errors)
        assert any(why in text for text in errors)
        # Those that waited are served by the next engine.
        assert all(
            answer.result(PATIENCE).endswith("data: [DONE]\n\n") and why not in answer.result()
            for answer in waiting
        )
        assert gone(before)
        assert len(ranks(server.wait_ready())) == 2
        assert server.metric("llgtrt_engine_restarts_total") == 1
        said = f"rank 1 ({before[1]}) " + (
            "was killed by SIGKILL" if number == signal.SIGKILL else "is stopped"
        )
        assert said in server.log()


def test_no_process_outlives_what_was_killed() -> None:
    with demo("--tp", "2") as server:
        (engine,), workers = server.children(), ranks(server)
        os.kill(engine, signal.SIGKILL)
        assert any(gone([engine, *workers]) for _ in until())
        server.wait_away()
        (engine,), workers = server.wait_ready().children(), ranks(server)
        # A rank that is stopped takes no part in its own end.
        os.kill(workers[0], signal.SIGSTOP)
        server.stop(signal.SIGKILL)
        assert any(gone([engine, *workers]) for _ in until())


def test_no_process_outlives_an_orderly_end() -> None:
    with demo("--tp", "2") as server:
        processes = [*server.children(), *ranks(server)]
        assert [host for pid in ranks(server) for host, _ in listeners(pid)] == ["127.0.0.1"] * 2
        assert len(processes) == 3
        assert server.stop() == 0
        assert any(gone(processes) for _ in until())


def listeners(pid: int) -> list[tuple[str, int]]:
    """Addresses and ports on which a process listens."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            own.add(str(link.readlink()))
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            address, port = fields[1].split(":")
            found.append((".".join(str(byte) for byte in bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


@contextlib.contextmanager
def rank_running() -> Iterator[tuple[int, str]]:
    """A rank that nobody has started for a server: its process, and where it listens."""
    command = [sys.executable, *COMMAND, "rank", "--threads", "1"]
    path = {"PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | path)
    try:
        for _ in until():
            assert process.poll() is None
            if found := listeners(process.pid):
                break
        ((host, port),) = found
        assert host == "127.0.0.1"
        yield process.pid, f"{host}:{port}"
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == -signal.SIGTERM


def test_ranks_that_run_already() -> None:
    body = {"model": "demo", "prompt": "Tom is", "max_tokens": 8, "temperature": 0}
    with rank_running() as (one, here), rank_running() as (_, there):
        flags = ["--rank-endpoint", here, "--rank-endpoint", there]
        texts = []
        # They serve one engine after the other.
        for _ in range(2):
            with demo(*flags) as server:
                assert not ranks(server)
                assert "neither authenticated nor encrypted" in server.log()
                texts.append(server.http.post("/v1/completions", json=body).json()["choices"][0]["text"])
        assert texts[0] == texts[1] != ""
        with demo(*flags, config={"speculative": {"sources": []}}) as server:
            os.kill(one, signal.SIGSTOP)
            # It neither answers nor ends: an engine that is started again says so.
            (engine,) = server.children()
            os.kill(engine, signal.SIGKILL)
            for _ in until():
                if "does not answer: it serves another engine, or hangs" in server.log():
                    break
            os.kill(one, signal.SIGCONT)
            server.wait_ready()
