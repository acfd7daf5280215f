"""What goes wrong in TensorRT-LLM harms the requests that it happens to, and nothing else."""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path
from typing import Any

import pytest
from server.serving import Server, until

from .live import Folder
from .test_trtllm_serving import BASE, CASES, complete, essence, start

MODES = ("alone", "draft")


def post(server: Server, **fields: Any) -> Any:
    return server.http.post("/v1/completions", json=BASE | fields)


def at_once(server: Server, count: int, **fields: Any) -> list[Any]:
    """Answers to requests that differ in their prompts."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda i: post(server, prompt=f"prompt {i}", **fields), range(count)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", ["error_every", "refuse_every"])
def test_a_request_that_fails_fails_alone(tmp_path: Path, mode: str, fault: str) -> None:
    with start(tmp_path, mode, target={"faults": {fault: 9}}) as server:
        answers = at_once(server.wait_ready(), 12, max_tokens=24)
        codes = [answer.status_code for answer in answers]
        assert {200, 500} == set(codes), codes
        failed = next(answer for answer in answers if answer.status_code == 500)
        assert "TensorRT-LLM" in failed.json()["error"]["message"]
        server.wait_idle()
        assert server.metric("llgtrt_draft_sources_failed") == 0


@pytest.mark.parametrize("fault", ["error_every", "refuse_every"])
def test_a_draft_that_fails_costs_only_the_draft(tmp_path: Path, fault: str) -> None:
    with start(tmp_path, "draft", draft={"faults": {fault: 2}}) as server:
        answers = at_once(server.wait_ready(), 6, max_tokens=24)
        assert [answer.status_code for answer in answers] == [200] * 6
        assert server.fates("draft_model")["accepted"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_late_and_repeated_answers_are_nobodys(tmp_path: Path, mode: str) -> None:
    faults = {"late_ms": 20, "twice": True}
    with start(tmp_path, mode, target={"faults": faults}, draft={"faults": faults}) as server:
        wanted = [complete(server.wait_ready(), **CASES[name]) for name in ("plain", "regex")]
        again = [complete(server, **CASES[name]) for name in ("plain", "regex")]
        assert list(map(essence, again)) == list(map(essence, wanted))
        server.wait_idle()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("silent", [False, True])
def test_a_client_that_leaves_frees_its_place(tmp_path: Path, mode: str, silent: bool) -> None:
    faults = {"iteration_ms": 5, "silent_cancel": silent}
    config = {"max_batch_size": 2}
    with start(tmp_path, mode, target={"faults": faults}, draft={"faults": faults}, config=config) as server:
        server.wait_ready()
        for _ in range(6):
            fields = BASE | {"stream": True, "max_tokens": 3000, "ignore_eos": True}
            with server.http.stream("POST", "/v1/completions", json=fields) as answer:
                next(answer.iter_lines())
        server.wait_idle()
        assert post(server, max_tokens=8).status_code == 200


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_pass_ends_what_ran_and_the_next_request_is_served(tmp_path: Path, mode: str) -> None:
    with start(tmp_path, mode, target={"faults": {"fail_at": 8}}) as server:
        server.wait_ready()
        answer = post(server, max_tokens=200, ignore_eos=True)
        assert answer.status_code == 500, answer.text
        assert post(server, max_tokens=20).status_code == 200


@pytest.mark.parametrize("mode", MODES)
def test_masks_that_cannot_be_written_fail_closed(tmp_path: Path, mode: str) -> None:
    with start(tmp_path, mode, target={"faults": {"broken_logits": 3}}) as server:
        server.wait_ready()
        answer = post(server, **CASES["regex"])
        assert answer.status_code == 500, answer.text
        assert "masks could not be written" in answer.json()["error"]["message"]
        assert post(server, **CASES["regex"]).status_code == 200


def test_an_old_release_that_stops_after_each_token_is_asked_again(tmp_path: Path) -> None:
    with start(tmp_path / "old", "lookup", target={"faults": {"one_step": True}}) as old:
        found = complete(old.wait_ready(), speculative={"enabled": False}, **CASES["plain"])
    with start(tmp_path / "new", "alone") as new:
        assert essence(found) == essence(complete(new.wait_ready(), **CASES["plain"]))


@pytest.mark.parametrize("mode", MODES)
def test_it_ends_while_requests_are_in_flight(tmp_path: Path, mode: str) -> None:
    faults = {"iteration_ms": 10, "enqueue_ms": 5}
    config = {"server": {"grace_period": 0.2}}
    with start(tmp_path, mode, target={"faults": faults}, config=config) as server:
        server.wait_ready()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            fields = {"max_tokens": 3000, "ignore_eos": True, "n": 2}
            answers = [pool.submit(post, server, **fields) for _ in range(4)]
            server.wait_metric("llgtrt_running_choices", 2)
            began = time.monotonic()
            server.process.terminate()
            for _ in until():
                if server.process.poll() is not None:
                    break
            assert server.process.poll() == 0, server.log()
            assert time.monotonic() - began < 30
            for answer in answers:
                # Answered, or the connection went with the server.
                assert answer.exception() is not None or answer.result().status_code in (200, 500, 503)


def test_masks_are_computed_while_requests_are_handed_in(tmp_path: Path) -> None:
    # Handing in keeps the GIL, which the executor's thread wants for each callback.
    faults = {"enqueue_ms": 3}
    with start(tmp_path, "draft", target={"faults": faults}, draft={"faults": faults}) as server:
        answers = at_once(server.wait_ready(), 8, **CASES["regex"])
        assert [answer.status_code for answer in answers] == [200] * 8


def refusal(tmp_path: Path, target: Path | str, config: dict[str, Any], path: list[Path]) -> str:
    """What a server says that does not start."""
    import json
    import os
    import subprocess
    import sys

    from server.serving import ROOT

    file = tmp_path / "own.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "llgtrt", "serve", str(target), "--port", "0", "--config", str(file)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT / "python"]))}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)
    assert done.returncode == 2, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_without_tensorrt_llm_the_extra_and_the_container_are_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, Folder().write(tmp_path / "engine"), {}, [])
    assert "llgtrt[trtllm]" in said
    assert "nvcr.io/nvidia/tensorrt-llm/release" in said


def test_a_release_without_the_executor_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "later" / "tensorrt_llm" / "bindings" / "executor"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    said = refusal(tmp_path, Folder().write(tmp_path / "engine"), {}, [tmp_path / "later"])
    assert "has no Executor" in said
    assert "0.18 to 1.2" in said


def test_mixed_pairs_are_refused(tmp_path: Path) -> None:
    from .conftest import FAKE

    engine = Folder(draft_len=8).write(tmp_path / "engine")
    draft = Folder().write(tmp_path / "draft")
    llama = tmp_path / "llama"
    llama.mkdir()
    (llama / "model.gguf").write_text("")
    said = refusal(tmp_path, engine, {"speculative": {"draft_model": str(llama)}}, [FAKE])
    assert said.startswith("llgtrt: draft: ")
    assert "which the target is" in said
    for target in ("toy", llama):
        said = refusal(tmp_path, target, {"speculative": {"draft_model": str(draft)}}, [FAKE])
        assert "is an engine of TensorRT-LLM, which the target is not" in said


def test_an_engine_that_was_built_otherwise_is_refused_with_the_flag(tmp_path: Path) -> None:
    from .conftest import FAKE

    engine, draft = Folder().write(tmp_path / "engine"), Folder().write(tmp_path / "draft")
    config = {"speculative": {"draft_model": str(draft), "max_draft_len": 6}}
    said = refusal(tmp_path, engine, config, [FAKE])
    assert "--speculative_decoding_mode=draft_tokens_external --max_draft_len=6" in said
