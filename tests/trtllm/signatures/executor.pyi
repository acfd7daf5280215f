# Facts-only signature list for `tensorrt_llm.bindings.executor` (TensorRT engine backend),
# plus the LLM-API classes a >=1.2 adapter needs (bottom, nested under `_mod_*`).
#
# Reading rules (file parses with `ast`; no runtime import needed):
#   * a bare `*` in a signature  = everything after it is keyword-only in the binding
#   * a literal default          = the default in the binding (NOT the C++ header; they differ at places)
#   * `= ...`                    = has a default whose value was not read
#   * `# RO` / `# RW`            = read-only / read-write property
#   * `# ctor-only`              = accepted by the constructor, but no property exists
#   * Tensor means torch.Tensor in Python (custom caster: torch.Tensor only; CPU or CUDA view, no numpy)
#   * Duration means datetime.timedelta or float SECONDS (C++ side: std::chrono::milliseconds)
#
# Sources (NVIDIA/TensorRT-LLM, commits where known):
#   pybind    executor.cpp | executorConfig.cpp 05843b0a | request.cpp 007a7508
#   nanobind  executor.cpp | executor.h 6b0153bb | executorConfig.cpp c40f1157
#             request.cpp | bindings.cpp a35c38f3
#   C++       include/tensorrt_llm/executor/executor.h, types.h
# Classes exist in 0.18 .. 1.2.x. `Executor` was REMOVED from main about July 2026 (PR 16369).
# Not in the bindings at all: is_participant (C++ `Executor::isParticipant` only).

from typing import Any, Callable, ClassVar, Mapping, Optional, Sequence, Union
import datetime
import torch
from torch import Tensor

Duration = Union[datetime.timedelta, float]
IdType = int  # uint64
SizeType32 = int  # int32
RetentionPriority = int
PathLike = Any

# (req_id, logits[rows, 1, vocab_padded], tokens[beam][pos], cuda_stream_ptr, client_id) -> None, edits logits in place
LogitsPostProcessor = Callable[[int, Tensor, list[list[int]], int, Optional[int]], None]
# parallel lists, one item per request of the step that asked for the batched processor
LogitsPostProcessorBatched = Callable[
    [list[int], list[Tensor], list[list[list[int]]], int, list[Optional[int]]], None
]
LogitsPostProcessorMap = dict[str, LogitsPostProcessor]

__version__: str

# ----------------------------------------------------------------------------- enums
class ModelType:
    DECODER_ONLY: ClassVar["ModelType"]
    ENCODER_ONLY: ClassVar["ModelType"]
    ENCODER_DECODER: ClassVar["ModelType"]

class BatchingType:
    STATIC: ClassVar["BatchingType"]
    INFLIGHT: ClassVar["BatchingType"]

class CapacitySchedulerPolicy:
    MAX_UTILIZATION: ClassVar["CapacitySchedulerPolicy"]
    GUARANTEED_NO_EVICT: ClassVar["CapacitySchedulerPolicy"]
    STATIC_BATCH: ClassVar["CapacitySchedulerPolicy"]

class ContextChunkingPolicy:
    EQUAL_PROGRESS: ClassVar["ContextChunkingPolicy"]
    FIRST_COME_FIRST_SERVED: ClassVar["ContextChunkingPolicy"]

class CommunicationType:
    MPI: ClassVar["CommunicationType"]

class CommunicationMode:
    LEADER: ClassVar["CommunicationMode"]
    ORCHESTRATOR: ClassVar["CommunicationMode"]

class RequestType:
    REQUEST_TYPE_CONTEXT_AND_GENERATION: ClassVar["RequestType"]
    REQUEST_TYPE_CONTEXT_ONLY: ClassVar["RequestType"]
    REQUEST_TYPE_GENERATION_ONLY: ClassVar["RequestType"]

class FinishReason:
    NOT_FINISHED: ClassVar["FinishReason"]
    END_ID: ClassVar["FinishReason"]
    STOP_WORDS: ClassVar["FinishReason"]
    LENGTH: ClassVar["FinishReason"]
    TIMED_OUT: ClassVar["FinishReason"]
    CANCELLED: ClassVar["FinishReason"]

class RequestStage:
    QUEUED: ClassVar["RequestStage"]
    ENCODER_IN_PROGRESS: ClassVar["RequestStage"]
    CONTEXT_IN_PROGRESS: ClassVar["RequestStage"]
    GENERATION_IN_PROGRESS: ClassVar["RequestStage"]
    GENERATION_COMPLETE: ClassVar["RequestStage"]

class KvCacheTransferMode:
    DRAM: ClassVar["KvCacheTransferMode"]
    GDS: ClassVar["KvCacheTransferMode"]
    POSIX_DEBUG_FALLBACK: ClassVar["KvCacheTransferMode"]

class CacheTransceiverBackendType:
    DEFAULT: ClassVar["CacheTransceiverBackendType"]
    MPI: ClassVar["CacheTransceiverBackendType"]
    UCX: ClassVar["CacheTransceiverBackendType"]
    NIXL: ClassVar["CacheTransceiverBackendType"]

class DecodingMode:
    # factory methods, no args
    @staticmethod
    def Auto() -> "DecodingMode": ...
    @staticmethod
    def TopK() -> "DecodingMode": ...
    @staticmethod
    def TopP() -> "DecodingMode": ...
    @staticmethod
    def TopKTopP() -> "DecodingMode": ...
    @staticmethod
    def BeamSearch() -> "DecodingMode": ...
    @staticmethod
    def Medusa() -> "DecodingMode": ...
    @staticmethod
    def Lookahead() -> "DecodingMode": ...
    @staticmethod
    def ExplicitDraftTokens() -> "DecodingMode": ...
    @staticmethod
    def Eagle() -> "DecodingMode": ...
    name: str  # RO
    # there is no public DecodingMode for external draft tokens: the ENGINE's speculative_decoding_mode selects it

# ----------------------------------------------------------------------------- executor
class Executor:
    # overload 1
    def __init__(
        self, model_path: PathLike, model_type: ModelType, executor_config: "ExecutorConfig"
    ) -> None: ...
    # overload 2: (encoder_model_path, decoder_model_path, model_type, executor_config)
    # overload 3: (engine_buffer, json_config_str, model_type, executor_config, managed_weights={})
    #             engine_buffer: any buffer (pybind) | bytes (later nanobind) | numpy uint8 array (an early nanobind snapshot)
    # overload 4: (encoder_engine_buffer, encoder_json_config_str, decoder_engine_buffer,
    #              decoder_json_config_str, model_type, executor_config)
    def shutdown(self) -> None: ...  # releases the GIL
    def __enter__(self) -> "Executor": ...
    def __exit__(self, type: Any, value: Any, traceback: Any) -> None: ...  # shutdown() then drops the object
    def enqueue_request(self, request: "Request") -> IdType: ...  # keeps the GIL
    def enqueue_requests(self, requests: Sequence["Request"]) -> list[IdType]: ...  # keeps the GIL
    # await_responses has three overloads, resolved by type; all release the GIL while blocked:
    def await_responses(self, timeout: Optional[Duration] = None) -> list["Response"]: ...
    # await_responses(id: int, timeout: Optional[Duration] = None) -> list[Response]
    # await_responses(ids: list[int], timeout: Optional[Duration] = None) -> list[list[Response]]
    def get_num_responses_ready(self, id: Optional[IdType] = None) -> int: ...
    def cancel_request(
        self, id: IdType = None
    ) -> None: ...  # default None is declared, but the C++ arg is a plain id
    def get_latest_iteration_stats(self) -> Sequence["IterationStats"]: ...  # drains a deque
    def get_latest_request_stats(self) -> Sequence["RequestStatsPerIteration"]: ...
    def get_latest_debug_tensors(self) -> Sequence["DebugTensorsPerIteration"]: ...
    def can_enqueue_requests(self) -> bool: ...  # True only on the leader/orchestrator process
    def get_kv_cache_event_manager(self) -> Optional["KVCacheEventManager"]: ...

class KVCacheEventManager:  # module path: bindings.executor.kv_cache
    def get_latest_events(self, timeout_ms: Optional[float] = None) -> Sequence[Any]: ...

class ExecutorConfig:  # has a Python __dict__ (dynamic attributes allowed)
    # all args positional-or-keyword, this order; every one also a RW property of the same name
    def __init__(
        self,
        max_beam_width: int = 1,
        scheduler_config: "SchedulerConfig" = ...,  # SchedulerConfig()
        kv_cache_config: "KvCacheConfig" = ...,  # KvCacheConfig()
        enable_chunked_context: bool = False,  # C++ header default: True
        normalize_log_probs: bool = True,
        iter_stats_max_iterations: int = 1000,
        request_stats_max_iterations: int = 0,
        batching_type: BatchingType = BatchingType.INFLIGHT,
        max_batch_size: Optional[int] = None,
        max_num_tokens: Optional[int] = None,
        parallel_config: Optional["ParallelConfig"] = None,
        peft_cache_config: "PeftCacheConfig" = ...,  # PeftCacheConfig()
        logits_post_processor_config: Optional["LogitsPostProcessorConfig"] = None,
        decoding_config: Optional["DecodingConfig"] = None,
        use_gpu_direct_storage: bool = False,
        gpu_weights_percent: float = 1.0,
        max_queue_size: Optional[int] = None,
        extended_runtime_perf_knob_config: "ExtendedRuntimePerfKnobConfig" = ...,
        debug_config: Optional["DebugConfig"] = None,
        recv_poll_period_ms: int = 0,
        max_seq_idle_microseconds: int = 180000000,  # 3 minutes
        spec_dec_config: Optional["SpeculativeDecodingConfig"] = None,
        guided_decoding_config: Optional["GuidedDecodingConfig"] = None,
        additional_model_outputs: Optional[list["AdditionalModelOutput"]] = None,
        cache_transceiver_config: Optional["CacheTransceiverConfig"] = None,
        gather_generation_logits: bool = False,
        mm_embedding_offloading: bool = False,
        enable_trt_overlap: bool = False,
        fail_fast_on_attention_window_too_large: bool = False,
    ) -> None: ...

class KvCacheConfig:
    def __init__(
        self,
        enable_block_reuse: bool = True,  # older releases: False -> always pass it
        max_tokens: Optional[int] = None,
        max_attention_window: Optional[list[int]] = None,
        sink_token_length: Optional[int] = None,
        free_gpu_memory_fraction: Optional[float] = None,  # None -> runtime uses 0.9
        host_cache_size: Optional[int] = None,  # bytes
        onboard_blocks: bool = True,
        cross_kv_cache_fraction: Optional[float] = None,
        secondary_offload_min_priority: Optional[RetentionPriority] = None,
        event_buffer_max_size: int = 0,
        *,
        enable_partial_reuse: bool = True,
        copy_on_partial_reuse: bool = True,
        use_uvm: bool = False,
        attention_dp_events_gather_period_ms: int = 5,
        runtime_defaults: Optional["RuntimeDefaults"] = None,  # ctor-only
        max_gpu_total_bytes: int = 0,  # nanobind c40f1157 and later only
    ) -> None: ...
    def fill_empty_fields_from_runtime_defaults(self, runtime_defaults: "RuntimeDefaults") -> None: ...
    # everything else above is a RW property

class RuntimeDefaults:
    def __init__(
        self, max_attention_window: Optional[list[int]] = None, sink_token_length: Optional[int] = None
    ) -> None: ...  # both RO

class SchedulerConfig:  # all RO after construction
    def __init__(
        self,
        capacity_scheduler_policy: CapacitySchedulerPolicy = CapacitySchedulerPolicy.GUARANTEED_NO_EVICT,
        context_chunking_policy: Optional[ContextChunkingPolicy] = None,
        dynamic_batch_config: Optional["DynamicBatchConfig"] = None,
    ) -> None: ...

class DynamicBatchConfig:  # all RO; NO Python defaults -> all three must be passed (C++ defaults: False, False, 128)
    def __init__(
        self,
        enable_batch_size_tuning: bool,
        enable_max_num_tokens_tuning: bool,
        dynamic_batch_moving_average_window: int,
    ) -> None: ...

class ParallelConfig:  # all RW
    def __init__(
        self,
        communication_type: CommunicationType = CommunicationType.MPI,
        communication_mode: CommunicationMode = CommunicationMode.LEADER,
        device_ids: Optional[list[int]] = None,
        participant_ids: Optional[list[int]] = None,  # MPI world ranks; first one is the leader
        orchestrator_config: Optional["OrchestratorConfig"] = None,
        num_nodes: Optional[int] = None,
    ) -> None: ...

class OrchestratorConfig:  # all RW
    def __init__(
        self,
        is_orchestrator: bool = True,
        worker_executable_path: str = "",  # package's bin/executorWorker when spawn_processes=True
        orch_leader_comm: Optional[Any] = None,  # MpiComm
        spawn_processes: bool = True,  # False needed for fast logits
    ) -> None: ...

class PeftCacheConfig:  # all RO
    def __init__(
        self,
        num_host_module_layer: int = 0,
        num_device_module_layer: int = 0,
        optimal_adapter_size: int = 8,
        max_adapter_size: int = 64,
        num_put_workers: int = 1,
        num_ensure_workers: int = 1,
        num_copy_streams: int = 1,
        max_pages_per_block_host: int = 24,
        max_pages_per_block_device: int = 8,
        device_cache_percent: Optional[float] = None,
        host_cache_size: Optional[int] = None,
        lora_prefetch_dir: Optional[str] = None,
    ) -> None: ...

class LogitsPostProcessorConfig:  # all RW
    def __init__(
        self,
        processor_map: Optional[LogitsPostProcessorMap] = None,
        processor_batched: Optional[LogitsPostProcessorBatched] = None,
        replicate: bool = True,  # True: runs on every rank of the (last-PP) TP group; False: TP rank 0 only
    ) -> None: ...

class SpeculativeDecodingConfig:
    def __init__(self, fast_logits: bool = False) -> None: ...  # RW

class DecodingConfig:  # all RW
    def __init__(
        self,
        decoding_mode: Optional[DecodingMode] = None,
        lookahead_decoding_config: Optional["LookaheadDecodingConfig"] = None,
        medusa_choices: Optional[list[list[int]]] = None,
        eagle_config: Optional["EagleConfig"] = None,
    ) -> None: ...

class LookaheadDecodingConfig:  # all RO; no Python defaults (C++ constants 4, 3, 4)
    def __init__(self, max_window_size: int, max_ngram_size: int, max_verification_set_size: int) -> None: ...
    def calculate_speculative_resource(self) -> tuple[int, int, int, int]: ...
    @staticmethod
    def calculate_speculative_resource_tuple(
        window_size: int, ngram_size: int, verification_set_size: int
    ) -> tuple[int, int, int, int]: ...
    @staticmethod
    def get_default_lookahead_decoding_window() -> int: ...
    @staticmethod
    def get_default_lookahead_decoding_ngram() -> int: ...
    @staticmethod
    def get_default_lookahead_decoding_verification_set() -> int: ...

class EagleConfig:  # all RO
    def __init__(
        self,
        eagle_choices: Optional[list[list[int]]] = None,
        greedy_sampling: bool = True,
        posterior_threshold: Optional[float] = None,
        use_dynamic_tree: bool = False,
        dynamic_tree_max_topK: Optional[int] = None,
    ) -> None: ...

class GuidedDecodingConfig:  # all RW
    class GuidedDecodingBackend:
        XGRAMMAR: ClassVar["GuidedDecodingConfig.GuidedDecodingBackend"]
        LLGUIDANCE: ClassVar[
            "GuidedDecodingConfig.GuidedDecodingBackend"
        ]  # C++ runtime raises on it; PyTorch backend only

    def __init__(
        self,
        backend: "GuidedDecodingConfig.GuidedDecodingBackend",
        encoded_vocab: Optional[list[str]] = None,  # tokens sorted by id
        tokenizer_str: Optional[str] = None,  # HF fast tokenizer JSON
        stop_token_ids: Optional[list[int]] = None,
    ) -> None: ...

class GuidedDecodingParams:  # all RO
    class GuideType:
        JSON: ClassVar["GuidedDecodingParams.GuideType"]
        JSON_SCHEMA: ClassVar["GuidedDecodingParams.GuideType"]
        REGEX: ClassVar["GuidedDecodingParams.GuideType"]
        EBNF_GRAMMAR: ClassVar["GuidedDecodingParams.GuideType"]  # Lark text when the backend is llguidance
        STRUCTURAL_TAG: ClassVar["GuidedDecodingParams.GuideType"]  # xgrammar only

    def __init__(self, guide_type: "GuidedDecodingParams.GuideType", guide: Optional[str] = None) -> None: ...

class ExtendedRuntimePerfKnobConfig:  # all RW; last two are properties only
    def __init__(self, multi_block_mode: bool = True, enable_context_fmha_fp32_acc: bool = False) -> None: ...
    cuda_graph_mode: bool
    cuda_graph_cache_size: int

class DebugConfig:  # all RW
    def __init__(
        self,
        debug_input_tensors: bool = False,
        debug_output_tensors: bool = False,
        debug_tensor_names: list[str] = ...,  # declared default is None
        debug_tensors_max_iterations: int = 0,  # declared default is False
    ) -> None: ...

class CacheTransceiverConfig:  # all RW
    def __init__(
        self,
        backend: Optional[CacheTransceiverBackendType] = None,
        max_tokens_in_buffer: Optional[int] = None,
        kv_transfer_timeout_ms: Optional[int] = None,  # nanobind c40f1157 and later
    ) -> None: ...

class AdditionalModelOutput:  # RW
    def __init__(self, name: str, gather_context: bool = False) -> None: ...
