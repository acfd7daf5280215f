"""From a sequence to a response."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.results import (
    KvCacheMetrics,
    RequestPerfMetrics,
    Response,
    Result,
    SpeculativeDecodingMetrics,
    TimingMetrics,
)
from tensorrt_llm._fake.sequence import Sequence


def response(sequence: Sequence, iteration: int) -> Response:
    """What is new of a sequence; all of it where it does not stream."""
    request = sequence.request
    if sequence.error is not None:
        return Response(sequence.id, sequence.error, request.client_id)
    result = Result()
    result.is_final = result.is_sequence_final = sequence.done
    result.output_token_ids = [_tokens(sequence)]
    result.finish_reasons = [sequence.reason if sequence.done else FinishReason.NOT_FINISHED]
    result.decoding_iter = sequence.iterations
    result.avg_decoded_tokens_per_iter = sequence.generated / max(1, sequence.iterations)
    if request.output_config.return_log_probs:
        result.log_probs = [list(sequence.log_probs)]  # all of them, also where tokens are the new ones only
        result.cum_log_probs = [float(sum(sequence.log_probs))]
    if request.output_config.return_generation_logits and (request.streaming or sequence.done):
        result.generation_logits = _logits(sequence)
    if request.output_config.return_perf_metrics and sequence.done:
        result.request_perf_metrics = _metrics(sequence, iteration)
    sequence.sent = sequence.generated
    return Response(sequence.id, result, request.client_id)


def _tokens(sequence: Sequence) -> list[int]:
    request = sequence.request
    if request.streaming and not request.return_all_generated_tokens:
        return sequence.tokens[sequence.prompt + sequence.sent :]
    begin = sequence.prompt if request.streaming or request.output_config.exclude_input_from_output else 0
    return sequence.tokens[begin:]


def _logits(sequence: Sequence) -> Any:
    if not sequence.logits:
        return None
    rows = np.array(sequence.logits[sequence.sent :] if sequence.request.streaming else sequence.logits)
    if sequence.request.streaming:
        return torch.from_numpy(rows[:, None, :])
    whole = np.zeros((1, sequence.request.max_tokens, rows.shape[1]), rows.dtype)
    whole[0, : len(rows)] = rows
    return torch.from_numpy(whole)


def _metrics(sequence: Sequence, iteration: int) -> RequestPerfMetrics:
    usage, drafted = sequence.usage, len(sequence.drafted)
    return RequestPerfMetrics(
        timing_metrics=TimingMetrics(),
        kv_cache_metrics=KvCacheMetrics(
            num_total_allocated_blocks=usage.reused + usage.missed,
            num_new_allocated_blocks=usage.missed,
            num_reused_blocks=usage.reused,
            num_missed_blocks=usage.missed,
            kv_cache_hit_rate=usage.rate,
        ),
        speculative_decoding=SpeculativeDecodingMetrics(
            acceptance_rate=sequence.accepted / max(1, drafted),
            total_accepted_draft_tokens=sequence.accepted,
            total_draft_tokens=drafted,
        ),
        first_iter=sequence.first,
        last_iter=iteration,
        iter=iteration,
    )
