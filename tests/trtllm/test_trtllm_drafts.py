"""Requests with external draft tokens: rows, acceptance, and what one verification gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorrt_llm._fake.sampling import softmax

from .live import PROMPT, WIDTH, Folder, Live, never, reason_of, running, tokens_of, trt

DRAFTS = 6


class Rows:
    """A callback that writes down what it is given, and can edit it."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[int, ...], list[int]]] = []
        self.rows: Any = None
        self.forbidden: dict[int, list[int]] = {}
        """Tokens to forbid, by row."""

    def __call__(self, _: Any, logits: Any, texts: Any, stream: int, __: Any) -> None:
        for tensor, text in zip(logits, texts, strict=True):
            self.seen.append((tuple(tensor.shape), text[0]))
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
                for row, tokens in self.forbidden.items():
                    tensor[row, 0, tokens] = float("-inf")
                self.rows = tensor.cpu().numpy().copy()


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def live(tmp_path: Path, rows: Rows) -> Iterator[Live]:
    config = trt.LogitsPostProcessorConfig(processor_batched=rows, replicate=False)
    with running(
        tmp_path, Folder(draft_len=DRAFTS, gathers=True), logits_post_processor_config=config
    ) as live:
        yield live


@pytest.mark.parametrize("right", range(DRAFTS))
def test_accepted_drafts_and_one_more(live: Live, right: int) -> None:
    greedy = live.greedy(DRAFTS + 1)
    wrong = [(token + 1) % 256 for token in greedy]
    draft = greedy[:right] + wrong[right : DRAFTS - 1]
    result = live.ask(draft=draft, max_tokens=len(draft) + 1)
    assert tokens_of(result) == greedy[: min(right, len(draft)) + 1]
    metrics = result.request_perf_metrics
    assert metrics is not None
    assert metrics.speculative_decoding.total_accepted_draft_tokens == min(right, len(draft))
    assert metrics.speculative_decoding.total_draft_tokens == len(draft)
    assert (result.is_final, result.decoding_iter) == (True, 1)


def test_one_verification_is_all(live: Live) -> None:
    greedy = live.greedy(3)
    result = live.ask(draft=greedy[:2], max_tokens=100)
    assert (tokens_of(result), reason_of(result)) == (greedy, "NOT_FINISHED")
    assert len(tokens_of(live.ask(max_tokens=100))) == 100  # without drafts the same engine goes on


def test_old_releases_stop_without_drafts_too(tmp_path: Path) -> None:
    with running(tmp_path, Folder(draft_len=2, faults={"one_step": True})) as live:
        assert tokens_of(live.ask(max_tokens=100)) == live.greedy(1)


def test_rows_are_given_before_acceptance(live: Live, rows: Rows) -> None:
    greedy = live.greedy(3)
    draft = [greedy[0], (greedy[1] + 1) % 256, 65]
    live.ask(draft=draft, max_tokens=4, logits_post_processor_name="batched")
    assert rows.seen == [((4, 1, 272), PROMPT)]  # the text is without drafts
    hashes = [1]
    live.model.extend(hashes, PROMPT + draft)
    assert np.array_equal(rows.rows[:, 0, :WIDTH], live.model.logits(hashes[-4:]))
    assert not rows.rows[:, 0, WIDTH:].any()


def test_masks_decide_at_every_row(live: Live, rows: Rows) -> None:
    greedy = live.greedy(3)
    rows.forbidden = {1: [greedy[1]]}
    result = live.ask(draft=greedy, max_tokens=4, logits_post_processor_name="batched")
    assert tokens_of(result)[0] == greedy[0]
    assert len(tokens_of(result)) == 2
    assert tokens_of(result)[1] != greedy[1]
    rows.forbidden = {3: list(range(WIDTH - 1))}
    result = live.ask(draft=greedy, max_tokens=4, logits_post_processor_name="batched")
    assert tokens_of(result) == [*greedy, WIDTH - 1]


def test_an_accepted_end_is_dropped_and_brings_no_bonus(live: Live) -> None:
    greedy = live.greedy(4)
    result = live.ask(draft=greedy[:3], max_tokens=4, end_id=greedy[1])
    assert (tokens_of(result), reason_of(result)) == (greedy[:1], "END_ID")
    only = live.ask(draft=greedy[:1], max_tokens=4, end_id=greedy[0])
    assert (only.output_token_ids, reason_of(only)) == ([[]], "END_ID")
    corrected = live.ask(draft=[(greedy[0] + 1) % 256], max_tokens=4, end_id=greedy[0])
    assert (tokens_of(corrected), reason_of(corrected)) == ([], "END_ID")


def test_lengths_and_stop_words_cut(live: Live) -> None:
    greedy = live.greedy(5)
    assert tokens_of(live.ask(draft=greedy[:1], max_tokens=1)) == greedy[:1]
    cut = live.ask(draft=greedy[:4], max_tokens=3)
    assert (tokens_of(cut), reason_of(cut)) == (greedy[:3], "LENGTH")
    stopped = live.ask(draft=greedy[:4], max_tokens=5, stop_words=[[greedy[1]]])
    assert (tokens_of(stopped), reason_of(stopped)) == (greedy[:2], "STOP_WORDS")


def test_penalties_see_the_drafts_before(live: Live) -> None:
    draft = live.greedy(1) * 3
    found = tokens_of(live.ask(draft=draft, max_tokens=4, sampling={"presence_penalty": 60.0}))
    assert len(found) < 3 or len(set(found)) == len(found)
    assert draft[0] not in found[1:]


def test_what_cannot_be_is_refused(live: Live, tmp_path: Path) -> None:
    assert f"draft tokens ({DRAFTS + 1}) is larger" in live.error(draft=[1] * (DRAFTS + 1))
    with running(tmp_path / "plain") as plain:
        assert "exceeds maximum draft length" in plain.error(draft=[1])
    refused: list[dict[str, Any]] = [
        {"tokens": []},
        {"tokens": [1], "acceptance_threshold": -1.0},
        {"tokens": [1, 2], "logits": torch.zeros(1, WIDTH)},
        {"tokens": [1], "logits": torch.zeros(1, 1, WIDTH)},
    ]
    for bad in refused:
        with pytest.raises(RuntimeError, match="ExternalDraftTokensConfig"):
            live.enqueue(draft=bad)


def test_sampled_tokens_decide_without_logits(live: Live) -> None:
    sampling = {"top_p": 1.0, "seed": 5}
    (first,) = tokens_of(live.ask(max_tokens=1, sampling=sampling))
    found = tokens_of(live.ask(draft=[first], max_tokens=2, sampling=sampling))
    assert (found[0], len(found)) == (first, 2)
    other = (first + 1) % 256
    threshold = {"tokens": [other], "acceptance_threshold": 1e-9}  # without effect
    assert tokens_of(live.ask(draft=threshold, max_tokens=2, sampling=sampling)) == [first]


def test_logits_decide_where_they_are_given(live: Live) -> None:
    hashes = [1]
    live.model.extend(hashes, PROMPT)
    row = live.model.logits(hashes[-1:])
    target = softmax(row[0])
    drafted = int(target.argsort()[-5])
    sure = torch.full((1, WIDTH), -100.0)
    sure[0, drafted] = 100.0
    sampling = {"top_p": 1.0}

    def accepted(config: dict[str, Any], seed: int) -> bool:
        config = {"tokens": [drafted], **config}
        found = tokens_of(live.ask(draft=config, max_tokens=2, sampling={**sampling, "seed": seed}))
        return found[0] == drafted and len(found) == 2

    same = {"logits": torch.from_numpy(row.copy())}
    assert all(accepted(same, seed) for seed in range(20))  # p / q is 1
    low, high = target[drafted] * 0.5, target[drafted] * 2
    assert all(accepted({"logits": sure, "acceptance_threshold": low}, seed) for seed in range(5))
    assert not any(accepted({"logits": sure, "acceptance_threshold": high}, seed) for seed in range(5))
    rate = sum(accepted({"logits": sure}, seed) for seed in range(300)) / 300
    assert abs(rate - target[drafted]) < 0.05


def test_a_draft_model_s_logits_can_be_handed_on(live: Live, tmp_path: Path) -> None:
    output: Any = {"return_generation_logits": True, "exclude_input_from_output": True}
    with running(tmp_path / "draft", Folder(blur=10, gathers=True)) as draft:
        drafted = draft.ask(max_tokens=4, output=output, **never(266, 267))
    assert drafted.generation_logits is not None
    config = {"tokens": tokens_of(drafted), "logits": drafted.generation_logits[0]}
    assert tokens_of(live.ask(draft=config, max_tokens=5, sampling={"top_k": 1}))


def test_a_blurred_model_drafts_well(tmp_path: Path, live: Live) -> None:
    with running(tmp_path / "draft", Folder(blur=5)) as draft:
        tokens = tokens_of(draft.ask(max_tokens=200))
        text, right = list(PROMPT), 0
        for token in tokens[:60]:
            right += live.greedy(1, text) == [token]
            text.append(token)
    assert right > 30
