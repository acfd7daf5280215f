"""Programs that measure servers, for a few requests: nothing fails, and what was sent is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .programs import TOKENIZER, command, run
from .recorder import Recorder

REQUESTS, STREAMS, TOKENS = 6, 2, 12


@pytest.fixture
def aiperf() -> str:
    return command("aiperf")


@pytest.fixture
def guidellm() -> str:
    pytest.importorskip("torch", reason="guidellm does not start without torch")
    return command("guidellm")


@pytest.mark.parametrize(
    ("kind", "page"),
    [("chat", "/v1/chat/completions"), ("completions", "/v1/completions"), ("responses", "/v1/responses")],
)
def test_aiperf(aiperf: str, demo: Recorder, tmp_path: Path, kind: str, page: str) -> None:
    flags = [
        *("profile", "--model", "demo", "--url", demo.url, "--endpoint-type", kind, "--streaming"),
        *("--tokenizer", TOKENIZER, "--request-count", str(REQUESTS), "--concurrency", str(STREAMS)),
        *("--synthetic-input-tokens-mean", "40", "--synthetic-input-tokens-stddev", "0"),
        *("--output-tokens-mean", str(TOKENS), "--ui", "none", "--no-gpu-telemetry"),
        *("--extra-inputs", "ignore_eos:true", "--output-artifact-dir", str(tmp_path / "out")),
    ]
    if (
        kind != "responses"
    ):  # There it looks for the count in `response.completed`, not in `response.incomplete`.
        flags.append("--use-server-token-count")
    run(tmp_path, aiperf, *flags)
    told = json.loads((tmp_path / "out" / "profile_export_aiperf.json").read_text())
    assert told["request_count"]["avg"] == REQUESTS
    assert (told["request_error_rate"]["avg"], told["error_summary"]) == (0, [])
    sent = demo.on(page)
    assert [each.status for each in sent] == [200] * REQUESTS
    if kind != "responses":
        assert told["output_sequence_length"]["avg"] == TOKENS


def test_guidellm(guidellm: str, demo: Recorder, tmp_path: Path) -> None:
    run(
        tmp_path, guidellm, "run", "--disable-console-interactive",
        "--backend", f"kind=openai_http,target={demo.url},model=demo",
        "--profile", f"kind=concurrent,streams={STREAMS}",
        "--constraint", f"kind=max_requests,count={REQUESTS}",
        "--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}",
        "--data", f"kind=synthetic_text,prompt_tokens=40,output_tokens={TOKENS}",
        "--output", "kind=json,path=out.json",
    )  # fmt: skip
    (benchmark,) = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    assert (totals["successful"], totals["errored"], totals["total"]) == (REQUESTS, 0, REQUESTS)
    assert {each["output_tokens"] for each in benchmark["requests"]["successful"]} == {TOKENS}
    assert len(demo.on("/v1/chat/completions")) >= REQUESTS
