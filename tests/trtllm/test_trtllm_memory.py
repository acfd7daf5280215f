"""The fake's KV cache: what is reused, who gets memory, who has to wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .live import PROMPT, Folder, Live, running, tokens_of, trt

BLOCK = 8
FOLDER = Folder(block=BLOCK)


def kv(**fields: Any) -> dict[str, Any]:
    return {"kv_cache_config": trt.KvCacheConfig(**fields)}


def scheduled(policy: str) -> trt.SchedulerConfig:
    return trt.SchedulerConfig(getattr(trt.CapacitySchedulerPolicy, policy))


def reused(live: Live, tokens: list[int], **fields: Any) -> int:
    metrics = live.ask(tokens, 1, **fields).request_perf_metrics
    assert metrics is not None
    return metrics.kv_cache_metrics.num_reused_blocks


def test_full_blocks_are_reused(tmp_path: Path) -> None:
    with running(tmp_path, FOLDER) as live:
        assert reused(live, PROMPT[:32]) == 0
        assert reused(live, PROMPT[:32]) == 3  # not the block of the last token: its row is wanted
        assert reused(live, PROMPT[:33]) == 4
        assert reused(live, PROMPT[:20] + [1] * 20) == 2
        assert reused(live, [1, *PROMPT[:32]]) == 0
        assert reused(live, PROMPT[:32], cache_salt_id=5) == 0
        assert reused(live, PROMPT[:32], cache_salt_id=5) == 3
        stats = live.executor.get_latest_iteration_stats()[-1].kv_cache_stats
        assert stats is not None
        assert (stats.reused_blocks, stats.tokens_per_block, stats.used_num_blocks) == (12, BLOCK, 5)
        assert live.executor.get_latest_iteration_stats() == []


def test_answers_are_reused_too(tmp_path: Path) -> None:
    with running(tmp_path, FOLDER) as live:
        answer = tokens_of(live.ask(PROMPT[:16], 17))
        assert reused(live, PROMPT[:16] + answer) == 4
        assert tokens_of(live.ask(PROMPT[:16] + answer, 3)) == live.greedy(20, PROMPT[:16])[17:]


def test_nothing_is_reused_where_it_is_off(tmp_path: Path) -> None:
    with running(tmp_path, FOLDER, **kv(enable_block_reuse=False)) as live:
        assert [reused(live, PROMPT), reused(live, PROMPT)] == [0, 0]


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    with running(tmp_path, FOLDER, **kv(max_tokens=6 * BLOCK)) as live:
        one, two = PROMPT[:17], PROMPT[20:37]
        for tokens in (one, two, one):
            live.ask(tokens, 1)
        live.ask(PROMPT[40:73], 1)  # five blocks
        assert (reused(live, one), reused(live, two)) == (1, 0)


def test_rejected_drafts_leave_nothing(tmp_path: Path) -> None:
    with running(tmp_path, Folder(block=BLOCK, draft_len=8)) as live:
        prompt = PROMPT[:16]
        wrong = [(live.greedy(1, prompt)[0] + 1) % 256] * 8
        live.ask(prompt, 9, draft=wrong)
        assert reused(live, [*prompt, *wrong, 1]) == 2


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION"])
def test_requests_share_what_there_is(tmp_path: Path, policy: str) -> None:
    config = {"scheduler_config": scheduled(policy), **kv(max_tokens=10 * BLOCK)}
    with running(tmp_path, FOLDER, **config) as live:
        prompts = [PROMPT[i : i + 12] for i in range(6)]
        numbers = [live.enqueue(prompt, 40) for prompt in prompts]
        for prompt, number in zip(prompts, numbers, strict=True):
            assert tokens_of(live.last(number)) == live.greedy(40, prompt)
        stats = live.executor.get_latest_iteration_stats()
        paused = stats[-1].inflight_batching_stats
        most = max(one.num_active_requests for one in stats)
    assert paused is not None
    if policy == "MAX_UTILIZATION":
        assert paused.num_paused_requests > 0
        assert most > 1
    else:
        assert (paused.num_paused_requests, most) == (0, 1)


def test_what_never_fits_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, FOLDER, **kv(max_tokens=4 * BLOCK)) as live:
        assert "KV cache is too small" in live.error(PROMPT[:30], 30)
        assert tokens_of(live.ask(PROMPT[:16], 16))


def test_executors_take_shares_of_what_is_free(tmp_path: Path) -> None:
    def blocks(live: Live) -> int:
        live.ask(max_tokens=1)
        stats = live.executor.get_latest_iteration_stats()[-1].kv_cache_stats
        assert stats is not None
        found: int = stats.max_num_blocks
        return found

    with running(tmp_path / "one", FOLDER) as one, running(tmp_path / "two", FOLDER) as two:
        assert blocks(one) > 8 * blocks(two)
    with running(tmp_path / "three", FOLDER, **kv(free_gpu_memory_fraction=0.25)) as three:
        assert blocks(three) == (1 << 19) // 4 // BLOCK
