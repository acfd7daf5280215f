"""`/metrics`: the names that dashboards may rely on."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from llgtrt import _core
from llgtrt.engine import AsyncEngine
from llgtrt.metrics import (
    BUCKETS,
    SIZES,
    EngineCollector,
    HttpCounts,
    acceptance,
    efficiency,
    exposition,
    news,
)

from . import fake_core

ROOT = Path(__file__).parents[2]

NAMES = """
llgtrt_accepted_tokens_total llgtrt_cached_tokens_total llgtrt_choices_shortened_total
llgtrt_computed_tokens_total
llgtrt_draft_acceptance_rate llgtrt_draft_accepted_at_total llgtrt_draft_fates_total
llgtrt_draft_kv_used_tokens llgtrt_draft_lengths_total llgtrt_draft_seconds
llgtrt_draft_system_efficiency llgtrt_drafted_tokens_total llgtrt_drafters_failed
llgtrt_end_to_end_seconds llgtrt_engine_info llgtrt_engine_restarts_total llgtrt_engine_threads
llgtrt_generated_tokens_total
llgtrt_grammar_cache_entries llgtrt_grammar_cache_hits_total llgtrt_grammar_cache_misses_total
llgtrt_grammar_compile_seconds llgtrt_http_requests_total llgtrt_inter_token_seconds
llgtrt_kv_kept_tokens llgtrt_kv_resident_tokens llgtrt_kv_returned_tokens_total
llgtrt_kv_total_tokens llgtrt_kv_used_tokens llgtrt_mask_seconds
llgtrt_preemptions_total llgtrt_prompt_tokens_total llgtrt_queue_seconds llgtrt_ready
llgtrt_requests_total llgtrt_running_choices llgtrt_stalled llgtrt_step_seconds llgtrt_steps_total
llgtrt_time_to_first_token_seconds
llgtrt_verify_seconds llgtrt_waiting_requests
"""


def scrape(ready: bool, *replicas: str | None) -> str:
    replicas = replicas or (None,)

    async def main() -> bytes:
        core = fake_core.Engine("toy", "{}")
        engine = AsyncEngine(cast("_core.Engine", core))
        while ready and engine.state()[0] == "loading":
            await engine.change()
        counts = HttpCounts()
        counts.count("/health", "200")
        metrics = list(EngineCollector(engine, counts, 'a "quoted" name').collect())
        text = exposition(dict.fromkeys(replicas, metrics))
        core.close()
        return text

    return asyncio.run(main()).decode()


def test_replicas_share_names_and_have_a_label() -> None:
    alone, both = scrape(True), scrape(True, "a", "b")
    assert "replica=" not in alone
    assert [line for line in both.splitlines() if line[0] == "#"] == [
        line for line in alone.splitlines() if line[0] == "#"
    ]
    for name in "ab":
        assert f'llgtrt_ready{{replica="{name}"}} 1.0' in both
        assert f'llgtrt_queue_seconds_count{{replica="{name}"}}' in both
    assert len(both.splitlines()) > len(alone.splitlines())


def test_names() -> None:
    assert sorted(re.findall(r"^# TYPE (\w+)", scrape(True), re.M)) == NAMES.split()


def test_while_loading() -> None:
    text = scrape(False)
    assert "llgtrt_ready 0.0" in text
    assert "llgtrt_engine_info{" not in text


def test_labels() -> None:
    text = scrape(True)
    assert 'llgtrt_http_requests_total{outcome="200",path="/health"} 1.0' in text
    assert 'promise="exact: bit-identical"' in text
    assert r'model="a \"quoted\" name"' in text
    for outcome in ("stop", "length", "cancelled", "refused", "failed"):
        assert f'llgtrt_requests_total{{outcome="{outcome}"}} 0.0' in text


def test_buckets_end_with_everything() -> None:
    bounds = re.findall(r'llgtrt_mask_seconds_bucket\{le="([^"]+)"\}', scrape(True))
    assert bounds == [*(str(b) for b in BUCKETS), "+Inf"]


def totals(**done: Any) -> dict[str, Any]:
    """Those of an engine that did nothing but this."""
    core = fake_core.Engine("toy", "{}")
    all_totals: dict[str, Any] = json.loads(core.metrics())["totals"]
    core.close()
    return all_totals | done


def test_acceptance_and_efficiency() -> None:
    assert acceptance(totals()) is None
    assert efficiency(totals()) is None
    # Three steps without a draft, two with one of four tokens, of which three and none are accepted.
    lengths = {"sources": {}, "accepted_at": [0] * 17, "lengths": [3, 0, 0, 0, 2, *[0] * 12]}
    done = totals(drafted_tokens=8, accepted_tokens=3, drafting=lengths)
    assert acceptance(done) == 3 / 8
    assert efficiency(done) == (3 + 2) / (8 + 2)


def test_draft_seconds_by_the_number_of_sequences() -> None:
    assert re.findall(r'llgtrt_draft_seconds_count\{sequences="([^"]+)"\} 0.0', scrape(True)) == list(SIZES)


def test_a_line_about_what_was_done() -> None:
    gauges = {"running": 2, "waiting": 1, "kv_used": 50, "kv_total": 200}
    idle = gauges | {"running": 0, "waiting": 0}
    before = {"totals": totals(), "gauges": idle}
    assert news(before, before, 10) is None
    done = totals(
        computed_tokens=130, generated_tokens=25, prompt_tokens=100, requests_stop=3, drafted_tokens=4
    )
    line = news(before, {"totals": done, "gauges": gauges}, 10)
    said = "2 choices running, 1 requests waiting, 3 ended; 2.5 tokens/s, prompts 10.0; KV 25%"
    assert line == said + "; drafts accepted 0%"


@pytest.mark.parametrize(
    "file",
    [
        "launch/grafana.json",
        "launch/prometheus-rules.yml",
        "docs/operation.md",
        "docs/speculation.md",
        "docs/scaling.md",
    ],
)
def test_dashboard_alerts_and_documentation_name_metrics_that_there_are(file: str) -> None:
    named = set(re.findall(r"\bllgtrt_[a-z_]+[a-z]", (ROOT / file).read_text()))
    written = set(re.findall(r"^(?:# TYPE )?(\w+)[{ ]", scrape(True), re.M))
    assert named - written == set()
