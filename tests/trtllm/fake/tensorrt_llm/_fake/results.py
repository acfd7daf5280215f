"""What an Executor answers."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import torch
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.requests import ContextPhaseParams
from torch import Tensor


class SpeculativeDecodingFastLogitsInfo:
    """Where a target finds the logits of a draft: the draft's request and the rank of its leader."""

    def __init__(self) -> None:
        self.draft_request_id = 0
        self.draft_participant_id = 0

    def to_tensor(self) -> Tensor:
        """The two numbers as bytes that the target's request carries in place of logits."""
        packed = np.array([self.draft_request_id, self.draft_participant_id], "<u8")
        return torch.frombuffer(bytearray(packed.tobytes()), dtype=torch.uint8)


def fast_logits_info(tensor: Tensor) -> SpeculativeDecodingFastLogitsInfo:
    """What `to_tensor` has packed."""
    found = SpeculativeDecodingFastLogitsInfo()
    packed = np.frombuffer(tensor.cpu().numpy().tobytes(), "<u8")
    found.draft_request_id, found.draft_participant_id = int(packed[0]), int(packed[1])
    return found


class AdditionalOutput:
    def __init__(self, name: str, output: Tensor, /) -> None:
        self.name, self.output = name, output


class _Record:
    """Numbers that are counted, by name."""

    def __init__(self, **values: Any) -> None:
        for kind in reversed(type(self).__mro__):
            for name, hint in inspect.get_annotations(kind).items():
                plain: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "str": ""}
                setattr(self, name, plain.get(hint))
        for name, value in values.items():
            setattr(self, name, value)

    def to_json_str(self) -> str:
        return json.dumps(self.__dict__, default=lambda value: getattr(value, "__dict__", str(value)))


class TimingMetrics(_Record):
    arrival_time: Any
    first_scheduled_time: Any
    first_token_time: Any
    last_token_time: Any
    kv_cache_transfer_start: Any
    kv_cache_transfer_end: Any
    kv_cache_size: int


class KvCacheMetrics(_Record):
    num_total_allocated_blocks: int
    num_new_allocated_blocks: int
    num_reused_blocks: int
    num_missed_blocks: int
    kv_cache_hit_rate: float


class SpeculativeDecodingMetrics(_Record):
    acceptance_rate: float
    total_accepted_draft_tokens: int
    total_draft_tokens: int


class RequestPerfMetrics(_Record):
    timing_metrics: TimingMetrics
    kv_cache_metrics: KvCacheMetrics
    speculative_decoding: SpeculativeDecodingMetrics
    first_iter: int | None
    last_iter: int | None
    iter: int | None


class Result:
    """A part of an answer; lists have one item for each beam."""

    def __init__(self) -> None:
        self.is_final = False
        self.output_token_ids: list[list[int]] = []
        self.cum_log_probs: list[float] | None = None
        self.log_probs: list[list[float]] | None = None
        self.context_logits: Tensor | None = None
        self.generation_logits: Tensor | None = None
        self.spec_dec_fast_logits_info: SpeculativeDecodingFastLogitsInfo | None = None
        self.encoder_output: Tensor | None = None
        self.finish_reasons: list[FinishReason] = []
        self.sequence_index = 0
        self.is_sequence_final = False
        self.decoding_iter = 0
        self.avg_decoded_tokens_per_iter = 0.0
        self.context_phase_params: ContextPhaseParams | None = None
        self.request_perf_metrics: RequestPerfMetrics | None = None
        self.additional_outputs: list[AdditionalOutput] = []


class Response:
    """A result, or why there is none."""

    def __init__(self, request_id: int, result: Result | str, client_id: int | None = None) -> None:
        self._request_id, self._client_id, self._content = request_id, client_id, result

    @property
    def request_id(self) -> int:
        return self._request_id

    @property
    def client_id(self) -> int | None:
        return self._client_id

    def has_error(self) -> bool:
        return isinstance(self._content, str)

    @property
    def error_msg(self) -> str:
        if not isinstance(self._content, str):
            raise RuntimeError(
                "Response: there is no error; error_msg is only there where has_error() is true"
            )
        return self._content

    @property
    def result(self) -> Result:
        if isinstance(self._content, str):
            raise RuntimeError(f"Response: there is no result, but an error: {self._content}")
        return self._content

    def clear_context_logits(self) -> None:
        self.result.context_logits = None

    def clear_generation_logits(self) -> None:
        self.result.generation_logits = None


class KvCacheStats(_Record):
    max_num_blocks: int
    free_num_blocks: int
    used_num_blocks: int
    tokens_per_block: int
    alloc_total_blocks: int
    alloc_new_blocks: int
    reused_blocks: int
    missed_blocks: int
    cache_hit_rate: float


class StaticBatchingStats(_Record):
    num_scheduled_requests: int
    num_context_requests: int
    num_ctx_tokens: int
    num_gen_tokens: int
    empty_gen_slots: int


class InflightBatchingStats(_Record):
    num_scheduled_requests: int
    num_context_requests: int
    num_gen_requests: int
    num_paused_requests: int
    num_ctx_tokens: int
    micro_batch_id: int
    avg_num_decoded_tokens_per_iter: float


class SpecDecodingStats(_Record):
    num_draft_tokens: int
    num_accepted_tokens: int
    num_requests_with_draft_tokens: int
    acceptance_length: float
    iter_latency_ms: float
    draft_overhead: float


class IterationStats(_Record):
    timestamp: str
    iter: int
    iter_latency_ms: float
    new_active_requests_queue_latency_ms: float
    num_new_active_requests: int
    num_active_requests: int
    num_queued_requests: int
    num_completed_requests: int
    max_num_active_requests: int
    gpu_mem_usage: int
    cpu_mem_usage: int
    pinned_mem_usage: int
    kv_cache_stats: KvCacheStats | None
    cross_kv_cache_stats: KvCacheStats | None
    static_batching_stats: StaticBatchingStats | None
    inflight_batching_stats: InflightBatchingStats | None
    specdec_stats: SpecDecodingStats | None


class DisServingRequestStats(_Record):
    kv_cache_transfer_ms: float
    kv_cache_size: int


class RequestStats(_Record):
    id: int
    stage: Any
    context_prefill_position: int
    num_generated_tokens: int
    avg_num_decoded_tokens_per_iter: float
    scheduled: bool
    paused: bool
    dis_serving_stats: DisServingRequestStats | None
    alloc_total_blocks_per_request: int
    alloc_new_blocks_per_request: int
    reused_blocks_per_request: int
    missed_blocks_per_request: int
    kv_cache_hit_rate_per_request: float


class RequestStatsPerIteration(_Record):
    iter: int
    request_stats: list[RequestStats]


class DebugTensorsPerIteration(_Record):
    iter: int
    debug_tensors: dict[str, Tensor]
