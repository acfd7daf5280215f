"""The fake's requests without drafts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .live import PROMPT, WIDTH, Folder, Live, reason_of, running, tokens_of, trt


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("plain"), Folder(gathers=True, seq_len=256, input_len=200)) as live:
        yield live


def test_an_answer_is_the_model_s(live: Live) -> None:
    result = live.ask(max_tokens=12)
    assert (tokens_of(result), reason_of(result)) == (live.greedy(12), "LENGTH")
    assert (result.is_final, result.is_sequence_final, result.sequence_index) == (True, True, 0)
    assert (result.decoding_iter, result.avg_decoded_tokens_per_iter) == (12, 1.0)


def test_the_prompt_comes_along_where_it_is_not_excluded(live: Live) -> None:
    whole = live.ask(max_tokens=3, output={"exclude_input_from_output": False})
    assert tokens_of(whole) == PROMPT + live.greedy(3)


@pytest.mark.parametrize("everything", [False, True])
def test_streams(live: Live, everything: bool) -> None:
    number = live.enqueue(
        max_tokens=5,
        streaming=True,
        return_all_generated_tokens=everything,
        output={"return_log_probs": True},
    )
    found = [response.result for response in live.all_of(number)]
    greedy = live.greedy(5)
    parts = [greedy[: i + 1] if everything else greedy[i : i + 1] for i in range(5)]
    assert [tokens_of(r) for r in found] == parts
    assert [reason_of(r) for r in found] == ["NOT_FINISHED"] * 4 + ["LENGTH"]
    assert [r.is_final for r in found] == [False] * 4 + [True]
    assert [len(r.log_probs[0]) for r in found if r.log_probs] == [1, 2, 3, 4, 5]  # all so far


def test_the_end_token_is_no_part_of_the_answer(live: Live) -> None:
    greedy = live.greedy(8)
    end = greedy[4]
    first = greedy.index(end)
    result = live.ask(end_id=end)
    assert (tokens_of(result), reason_of(result)) == (greedy[:first], "END_ID")
    streamed = live.all_of(live.enqueue(end_id=end, streaming=True))
    assert tokens_of(streamed[-1].result) == []
    assert [token for r in streamed for token in tokens_of(r.result)] == greedy[:first]
    delayed = live.ask(end_id=end, sampling={"min_tokens": first + 2})
    assert tokens_of(delayed)[:first] == greedy[:first]
    assert len(tokens_of(delayed)) > first + 1


def test_stop_words_are_part_of_the_answer(live: Live) -> None:
    greedy = live.greedy(8)
    result = live.ask(stop_words=[[1, 2, 3], greedy[2:4]])
    assert (tokens_of(result), reason_of(result)) == (greedy[:4], "STOP_WORDS")


def test_bad_words_do_not_come(live: Live) -> None:
    greedy = live.greedy(8)
    found = tokens_of(live.ask(bad_words=[greedy[2:4], [greedy[5]]]))
    assert found[:3] == greedy[:3]
    assert found[3] != greedy[3]
    assert greedy[5] not in found


def test_log_probs(tmp_path: Path, live: Live) -> None:
    result = live.ask(max_tokens=3, output={"return_log_probs": True}, sampling={"top_k": 1})
    assert result.log_probs is not None
    assert result.cum_log_probs is not None
    hashes = [1]
    live.model.extend(hashes, PROMPT + tokens_of(result))
    for i, (token, found) in enumerate(zip(tokens_of(result), result.log_probs[0], strict=True)):
        row = live.model.logits([hashes[len(PROMPT) + i]])[0].astype(np.float64)
        assert math.isclose(found, row[token] - np.logaddexp.reduce(row), abs_tol=1e-9)
    assert math.isclose(sum(result.log_probs[0]), result.cum_log_probs[0])
    with running(tmp_path, normalize_log_probs=True) as other:
        cut = other.ask(max_tokens=3, output={"return_log_probs": True}, sampling={"top_k": 1})
        assert cut.log_probs == [[0.0] * 3]  # among one candidate


def test_generation_logits(live: Live) -> None:
    wanted: Any = {"return_generation_logits": True, "exclude_input_from_output": True}
    whole = live.ask(max_tokens=4, output=wanted).generation_logits
    assert whole is not None
    assert tuple(whole.shape) == (1, 4, WIDTH)
    assert whole[0].numpy().argmax(axis=1).tolist() == live.greedy(4)
    streamed = [r.result.generation_logits for r in live.all_of(live.enqueue(output=wanted, streaming=True))]
    assert [tuple(part.shape) for part in streamed if part is not None] == [(1, 1, WIDTH)] * 8


def test_seeds_and_temperatures(live: Live) -> None:
    def drawn(seed: int | None, **more: Any) -> list[int]:
        return tokens_of(live.ask(max_tokens=30, sampling={"seed": seed, "top_p": 1.0, **more}))

    assert drawn(7) == drawn(7)
    assert len({tuple(drawn(seed)) for seed in (1, 2, None, None)}) == 4
    assert drawn(3, temperature=0.0) == drawn(4, top_k=1) == live.greedy(30)
    assert drawn(3, temperature=1e-5) == live.greedy(30)
    assert drawn(3, min_p=1.0) == live.greedy(30)
    likely = {int(t) for t in live.model.logits(hashes_of(live, PROMPT)[-1:])[0].argsort()[-3:]}
    firsts = {tokens_of(live.ask(max_tokens=1, sampling={"seed": s, "top_k": 3}))[0] for s in range(40)}
    assert firsts == likely


def hashes_of(live: Live, tokens: list[int]) -> list[int]:
    hashes = [live.model.seed]
    live.model.extend(hashes, tokens)
    return hashes


def test_penalties(live: Live) -> None:
    def most(**fields: Any) -> int:
        found = tokens_of(live.ask(list(b"aaaa bbbb"), max_tokens=40, sampling=fields))
        return max(found.count(token) for token in found)

    assert most() > 1
    assert most(frequency_penalty=60.0) == most(presence_penalty=60.0) == most(repetition_penalty=1e6) == 1
    (first,) = tokens_of(live.ask(PROMPT, max_tokens=1))
    asked = [*PROMPT, first, first]
    (plain,) = live.greedy(1, asked)
    again = [*asked, plain, *asked]
    (wanted,) = live.greedy(1, again)
    ignored = {"frequency_penalty": 60.0, "prompt_ignore_length": len(again)}
    assert tokens_of(live.ask(again, max_tokens=1, sampling=ignored)) == [wanted]
    counted = tokens_of(live.ask([*again, wanted], max_tokens=1, sampling={"presence_penalty": 60.0}))
    assert counted[0] not in again


def test_an_embedding_bias_is_added(live: Live) -> None:
    import torch

    bias = torch.zeros(WIDTH)
    bias[42] = 1e6
    assert tokens_of(live.ask(max_tokens=3, embedding_bias=bias)) == [42] * 3


def test_what_cannot_be_is_refused(live: Live) -> None:
    assert "Prompt length (201) exceeds maximum input length (200)" in live.error([1] * 201)
    assert "draft tokens" in live.error(draft=[1])
    assert "beam" in live.error(sampling={"beam_width": 2})
    assert "out of range" in live.error([WIDTH])
    assert "no_repeat_ngram_size" in live.error(sampling={"no_repeat_ngram_size": 2})
    result = live.ask([1] * 200, max_tokens=100)  # sequences of 256 tokens
    assert (len(tokens_of(result)), reason_of(result)) == (56, "LENGTH")
    for bad in (
        lambda: live.enqueue(max_tokens=0),
        lambda: live.enqueue(priority=1.5),
        lambda: live.enqueue(sampling={"top_p": 1.5}),
        lambda: trt.Request([], 1),
        lambda: trt.KvCacheConfig(free_gpu_memory_fraction=0.0),
    ):
        with pytest.raises(RuntimeError):
            bad()


def test_an_engine_without_gathered_logits_gives_none(tmp_path: Path) -> None:
    output: Any = {"return_generation_logits": True}
    with running(tmp_path) as live:
        assert "gather_generation_logits" in live.error(output=output)
    with running(tmp_path, gather_generation_logits=True) as live:
        assert live.ask(output=output).generation_logits is not None


def test_half_logits(tmp_path: Path) -> None:
    shapes: list[Any] = []

    def look(_: Any, logits: Any, *__: Any) -> None:
        shapes.extend((str(one.dtype), tuple(one.shape)) for one in logits)

    config = trt.LogitsPostProcessorConfig(processor_batched=look, replicate=False)
    with running(tmp_path, Folder(half=True, tp=1), logits_post_processor_config=config) as live:
        live.ask(max_tokens=1, logits_post_processor_name="batched")
    assert shapes == [("torch.float16", (1, 1, 272))]


@pytest.mark.parametrize(
    ("parts", "config", "why"),
    [
        ({}, {"max_batch_size": 129}, "max_batch_size"),
        ({}, {"max_num_tokens": 9000}, "max_num_tokens"),
        ({}, {"max_beam_width": 2}, "max_beam_width"),
        ({"build_config.plugin_config.use_paged_context_fmha": False}, {}, "use_paged_context_fmha"),
        ({"build_config.kv_cache_type": "CONTINUOUS"}, {}, "paged KV"),
        ({"pretrained_config.mapping.world_size": 2}, {}, "MPI world size"),
        ({}, {"kv_cache_config": trt.KvCacheConfig(max_tokens=3)}, "no memory"),
    ],
)
def test_engines_that_cannot_be(tmp_path: Path, parts: Any, config: Any, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        Live(Folder(config=parts).write(tmp_path), **config)


def test_priorities_come_before_arrival(tmp_path: Path) -> None:
    with running(tmp_path, Folder(batch=1, faults={"iteration_ms": 2.0})) as live:
        first = live.enqueue(max_tokens=60, streaming=True)
        live.executor.await_responses(id=first)
        numbers = [live.enqueue(priority=priority) for priority in (0.5, 0.1, 0.9, 0.5)]
        order: list[int] = []
        while len(order) < 4:
            found = live.executor.await_responses(timeout=5.0)
            order += [r.request_id for r in found if r.request_id != first]
    assert order == [numbers[i] for i in (2, 0, 3, 1)]


def test_time_runs_out(tmp_path: Path) -> None:
    with running(tmp_path, Folder(faults={"iteration_ms": 5.0})) as live:
        result = live.ask(max_tokens=1000, allotted_time_ms=0.05)
    assert reason_of(result) == "TIMED_OUT"
    assert 0 < len(tokens_of(result)) < 200
