"""What an Executor is configured with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tensorrt_llm._fake.checked import binding
from tensorrt_llm._fake.enums import (
    BatchingType,
    CacheTransceiverBackendType,
    CapacitySchedulerPolicy,
    CommunicationMode,
    CommunicationType,
    ContextChunkingPolicy,
    DecodingMode,
)
from tensorrt_llm._fake.guided import GuidedDecodingConfig
from torch import Tensor

LogitsPostProcessor = Callable[[int, Tensor, list[list[int]], int, int | None], None]
LogitsPostProcessorBatched = Callable[
    [list[int], list[Tensor], list[list[list[int]]], int, list[int | None]], None
]
LogitsPostProcessorMap = dict[str, LogitsPostProcessor]


@binding(frozen=True)
class RuntimeDefaults:
    max_attention_window: list[int] | None = None
    sink_token_length: int | None = None


@binding(newer=("max_gpu_total_bytes", "attention_dp_events_gather_period_ms", "use_uvm"))
class KvCacheConfig:
    enable_block_reuse: bool = True
    max_tokens: int | None = None
    max_attention_window: list[int] | None = None
    sink_token_length: int | None = None
    free_gpu_memory_fraction: float | None = None
    host_cache_size: int | None = None
    onboard_blocks: bool = True
    cross_kv_cache_fraction: float | None = None
    secondary_offload_min_priority: int | None = None
    event_buffer_max_size: int = 0
    _: dataclasses.KW_ONLY
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    use_uvm: bool = False
    attention_dp_events_gather_period_ms: int = 5
    runtime_defaults: RuntimeDefaults | None = None
    max_gpu_total_bytes: int = 0

    def __post_init__(self) -> None:
        fraction = self.free_gpu_memory_fraction
        if fraction is not None and not 0 < fraction < 1:
            raise RuntimeError(f"free_gpu_memory_fraction must be in (0, 1), not {fraction}")
        if self.max_tokens is not None and self.max_tokens <= 0:
            raise RuntimeError(f"max_tokens must be positive, not {self.max_tokens}")
        if self.runtime_defaults is not None:
            self.fill_empty_fields_from_runtime_defaults(self.runtime_defaults)

    def fill_empty_fields_from_runtime_defaults(self, runtime_defaults: RuntimeDefaults) -> None:
        if self.max_attention_window is None:
            self.max_attention_window = runtime_defaults.max_attention_window
        if self.sink_token_length is None:
            self.sink_token_length = runtime_defaults.sink_token_length


@binding(frozen=True)
class DynamicBatchConfig:
    enable_batch_size_tuning: bool
    enable_max_num_tokens_tuning: bool
    dynamic_batch_moving_average_window: int


@binding(frozen=True)
class SchedulerConfig:
    capacity_scheduler_policy: CapacitySchedulerPolicy = CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
    context_chunking_policy: ContextChunkingPolicy | None = None
    dynamic_batch_config: DynamicBatchConfig | None = None


@binding()
class OrchestratorConfig:
    is_orchestrator: bool = True
    worker_executable_path: str = ""
    orch_leader_comm: Any | None = None
    spawn_processes: bool = True


@binding()
class ParallelConfig:
    communication_type: CommunicationType = CommunicationType.MPI
    communication_mode: CommunicationMode = CommunicationMode.LEADER
    device_ids: list[int] | None = None
    participant_ids: list[int] | None = None
    orchestrator_config: OrchestratorConfig | None = None
    num_nodes: int | None = None


@binding(frozen=True)
class PeftCacheConfig:
    num_host_module_layer: int = 0
    num_device_module_layer: int = 0
    optimal_adapter_size: int = 8
    max_adapter_size: int = 64
    num_put_workers: int = 1
    num_ensure_workers: int = 1
    num_copy_streams: int = 1
    max_pages_per_block_host: int = 24
    max_pages_per_block_device: int = 8
    device_cache_percent: float | None = None
    host_cache_size: int | None = None
    lora_prefetch_dir: str | None = None


@binding()
class LogitsPostProcessorConfig:
    processor_map: dict[str, Callable[..., None]] | None = None
    processor_batched: Callable[..., None] | None = None
    replicate: bool = True


@binding()
class SpeculativeDecodingConfig:
    fast_logits: bool = False


@binding(frozen=True)
class LookaheadDecodingConfig:
    max_window_size: int
    max_ngram_size: int
    max_verification_set_size: int

    def calculate_speculative_resource(self) -> tuple[int, int, int, int]:
        return self.calculate_speculative_resource_tuple(
            self.max_window_size, self.max_ngram_size, self.max_verification_set_size
        )

    @staticmethod
    def calculate_speculative_resource_tuple(
        window_size: int, ngram_size: int, verification_set_size: int
    ) -> tuple[int, int, int, int]:
        raise NotImplementedError("the fake engine knows no lookahead decoding")

    @staticmethod
    def get_default_lookahead_decoding_window() -> int:
        return 4

    @staticmethod
    def get_default_lookahead_decoding_ngram() -> int:
        return 3

    @staticmethod
    def get_default_lookahead_decoding_verification_set() -> int:
        return 4


@binding(frozen=True)
class EagleConfig:
    eagle_choices: list[list[int]] | None = None
    greedy_sampling: bool = True
    posterior_threshold: float | None = None
    use_dynamic_tree: bool = False
    dynamic_tree_max_topK: int | None = None  # noqa: N815 (the binding's name)


@binding()
class DecodingConfig:
    decoding_mode: DecodingMode | None = None
    lookahead_decoding_config: LookaheadDecodingConfig | None = None
    medusa_choices: list[list[int]] | None = None
    eagle_config: EagleConfig | None = None


@binding()
class ExtendedRuntimePerfKnobConfig:
    multi_block_mode: bool = True
    enable_context_fmha_fp32_acc: bool = False

    def __post_init__(self) -> None:
        self.cuda_graph_mode = False
        self.cuda_graph_cache_size = 0


@binding()
class DebugConfig:
    debug_input_tensors: bool = False
    debug_output_tensors: bool = False
    debug_tensor_names: list[str] = dataclasses.field(default_factory=list)
    debug_tensors_max_iterations: int = 0


@binding(newer=("kv_transfer_timeout_ms",))
class CacheTransceiverConfig:
    backend: CacheTransceiverBackendType | None = None
    max_tokens_in_buffer: int | None = None
    kv_transfer_timeout_ms: int | None = None


@binding()
class AdditionalModelOutput:
    name: str
    gather_context: bool = False


@binding(newer=("mm_embedding_offloading", "enable_trt_overlap", "fail_fast_on_attention_window_too_large"))
class ExecutorConfig:
    max_beam_width: int = 1
    scheduler_config: SchedulerConfig = dataclasses.field(default_factory=SchedulerConfig)
    kv_cache_config: KvCacheConfig = dataclasses.field(default_factory=KvCacheConfig)
    enable_chunked_context: bool = False
    normalize_log_probs: bool = True
    iter_stats_max_iterations: int = 1000
    request_stats_max_iterations: int = 0
    batching_type: BatchingType = BatchingType.INFLIGHT
    max_batch_size: int | None = None
    max_num_tokens: int | None = None
    parallel_config: ParallelConfig | None = None
    peft_cache_config: PeftCacheConfig = dataclasses.field(default_factory=PeftCacheConfig)
    logits_post_processor_config: LogitsPostProcessorConfig | None = None
    decoding_config: DecodingConfig | None = None
    use_gpu_direct_storage: bool = False
    gpu_weights_percent: float = 1.0
    max_queue_size: int | None = None
    extended_runtime_perf_knob_config: ExtendedRuntimePerfKnobConfig = dataclasses.field(
        default_factory=ExtendedRuntimePerfKnobConfig
    )
    debug_config: DebugConfig | None = None
    recv_poll_period_ms: int = 0
    max_seq_idle_microseconds: int = 180_000_000
    spec_dec_config: SpeculativeDecodingConfig | None = None
    guided_decoding_config: GuidedDecodingConfig | None = None
    additional_model_outputs: list[AdditionalModelOutput] | None = None
    cache_transceiver_config: CacheTransceiverConfig | None = None
    gather_generation_logits: bool = False
    mm_embedding_offloading: bool = False
    enable_trt_overlap: bool = False
    fail_fast_on_attention_window_too_large: bool = False
