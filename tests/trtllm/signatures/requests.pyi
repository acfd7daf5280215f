# The second part: what is asked of an Executor, what it answers, and its statistics. How to read it: executor.pyi.

# ----------------------------------------------------------------------------- request
class SamplingConfig:  # all RW
    def __init__(
        self,
        beam_width: int = 1,
        *,
        top_k: Optional[int] = None,
        top_p: Optional[float] = None,
        top_p_min: Optional[float] = None,
        top_p_reset_ids: Optional[int] = None,
        top_p_decay: Optional[float] = None,
        seed: Optional[int] = None,
        temperature: Optional[float] = None,
        min_tokens: Optional[int] = None,
        beam_search_diversity_rate: Optional[float] = None,
        repetition_penalty: Optional[float] = None,
        presence_penalty: Optional[float] = None,
        frequency_penalty: Optional[float] = None,
        prompt_ignore_length: Optional[int] = None,  # newer
        length_penalty: Optional[float] = None,
        early_stopping: Optional[int] = None,
        no_repeat_ngram_size: Optional[int] = None,
        num_return_sequences: Optional[int] = None,
        min_p: Optional[float] = None,
        beam_width_array: Optional[list[int]] = None,  # newer
    ) -> None: ...

class OutputConfig:  # all RW
    def __init__(
        self,
        return_log_probs: bool = False,
        return_context_logits: bool = False,
        return_generation_logits: bool = False,
        exclude_input_from_output: bool = False,
        return_encoder_output: bool = False,
        return_perf_metrics: bool = False,
        additional_model_outputs: Optional[list[AdditionalModelOutput]] = None,
    ) -> None: ...

class ExternalDraftTokensConfig:  # all RO
    # checks: tokens non-empty; logits is 2-D [len(tokens), vocab]; threshold must not be negative (-1.0 is rejected)
    def __init__(
        self,
        tokens: list[int],
        logits: Optional[Tensor] = None,
        acceptance_threshold: Optional[float] = None,  # used only when logits are given
        fast_logits: Optional[bool] = None,  # True: `logits` carries the packed FastLogitsInfo bytes
    ) -> None: ...

class SpeculativeDecodingFastLogitsInfo:
    def __init__(self) -> None: ...
    draft_request_id: int  # RW
    draft_participant_id: int  # RW, MPI world rank of the draft leader
    def to_tensor(self) -> Tensor: ...

class PromptTuningConfig:  # RO
    def __init__(
        self, embedding_table: Tensor, input_token_extra_ids: Optional[list[int]] = None
    ) -> None: ...

class LoraConfig:  # RO
    def __init__(
        self, task_id: int, weights: Optional[Tensor] = None, config: Optional[Tensor] = None
    ) -> None: ...

class MropeConfig:  # RO
    def __init__(self, mrope_rotary_cos_sin: Tensor, mrope_position_deltas: int) -> None: ...

class MultimodalInput:  # RO, newer
    def __init__(
        self,
        multimodal_hashes: list[list[int]],
        multimodal_positions: list[int],
        multimodal_lengths: list[int],
    ) -> None: ...

class ContextPhaseParams:  # positional only in the binding (no arg names)
    def __init__(
        self,
        first_gen_tokens: list[int],
        req_id: int,
        opaque_state: Optional[bytes],
        draft_tokens: Optional[list[int]],
        /,
    ) -> None: ...
    first_gen_tokens: list[int]  # RO
    draft_tokens: Optional[list[int]]  # RO
    req_id: int  # RO
    opaque_state: Optional[bytes]  # RO

class KvCacheRetentionConfig:  # all RO
    # C++ constants: min priority 0, max 100, default 35
    class TokenRangeRetentionConfig:  # all RW
        def __init__(
            self,
            token_start: int,
            token_end: Optional[int],
            priority: RetentionPriority,
            duration_ms: Optional[Duration] = None,
        ) -> None: ...

    def __init__(
        self,
        token_range_retention_configs: list["KvCacheRetentionConfig.TokenRangeRetentionConfig"],
        decode_retention_priority: RetentionPriority = 35,
        decode_duration_ms: Optional[Duration] = None,
        transfer_mode: KvCacheTransferMode = KvCacheTransferMode.DRAM,  # newer
        directory: str = "",  # newer; declared default None on a std::string -> pass "" explicitly
    ) -> None: ...

class Request:  # has a Python __dict__
    BATCHED_POST_PROCESSOR_NAME: ClassVar[str]  # "batched"
    def __init__(
        self,
        input_token_ids: list[int],  # RO
        max_tokens: int,  # RO
        *,
        streaming: bool = False,
        sampling_config: SamplingConfig = ...,  # SamplingConfig()
        output_config: OutputConfig = ...,  # OutputConfig()
        end_id: Optional[int] = None,
        pad_id: Optional[int] = None,
        position_ids: Optional[list[int]] = None,
        bad_words: Optional[list[list[int]]] = None,
        stop_words: Optional[list[list[int]]] = None,
        embedding_bias: Optional[Tensor] = None,  # [vocab]
        external_draft_tokens_config: Optional[ExternalDraftTokensConfig] = None,
        prompt_tuning_config: Optional[PromptTuningConfig] = None,
        multimodal_input: Optional[MultimodalInput] = None,  # newer
        multimodal_embedding: Optional[Tensor] = None,  # newer
        mrope_config: Optional[MropeConfig] = None,
        lora_config: Optional[LoraConfig] = None,
        lookahead_config: Optional[LookaheadDecodingConfig] = None,
        kv_cache_retention_config: Optional[KvCacheRetentionConfig] = None,
        logits_post_processor_name: Optional[str] = None,
        logits_post_processor: Optional[LogitsPostProcessor] = None,  # only with replicate=False or no TP
        encoder_input_token_ids: Optional[list[int]] = None,
        client_id: Optional[IdType] = None,
        return_all_generated_tokens: bool = False,
        priority: float = 0.5,  # ctor-only
        type: RequestType = RequestType.REQUEST_TYPE_CONTEXT_AND_GENERATION,  # property name: request_type
        context_phase_params: Optional[ContextPhaseParams] = None,
        encoder_input_features: Optional[Tensor] = None,
        encoder_output_length: Optional[int] = None,  # ctor-only
        cross_attention_mask: Optional[Tensor] = None,
        num_return_sequences: int = 1,  # ctor-only; superseded by SamplingConfig.num_return_sequences
        eagle_config: Optional[EagleConfig] = None,
        skip_cross_attn_blocks: Optional[Tensor] = None,
        guided_decoding_params: Optional[GuidedDecodingParams] = None,
        language_adapter_uid: Optional[int] = None,  # ctor-only
        allotted_time_ms: Optional[Duration] = None,
        cache_salt_id: Optional[int] = None,  # newer
    ) -> None: ...
    request_type: RequestType  # RW
    # all other ctor args are RW properties of the same name

# ----------------------------------------------------------------------------- results
class Result:  # all RW attributes, default-constructible
    def __init__(self) -> None: ...
    is_final: bool
    output_token_ids: list[list[int]]  # [beam][token]
    cum_log_probs: Optional[list[float]]
    log_probs: Optional[list[list[float]]]
    context_logits: Optional[Tensor]  # [prompt_len, vocab_padded]
    generation_logits: Optional[
        Tensor
    ]  # non-streaming [beam, max_tokens, vocab_padded]; streaming [1 or max_tokens, beam, vocab_padded]
    spec_dec_fast_logits_info: Optional[SpeculativeDecodingFastLogitsInfo]
    encoder_output: Optional[Tensor]
    finish_reasons: list[FinishReason]  # one per beam
    sequence_index: int
    is_sequence_final: bool
    decoding_iter: int
    avg_decoded_tokens_per_iter: float
    context_phase_params: Optional[ContextPhaseParams]
    request_perf_metrics: Optional["RequestPerfMetrics"]
    additional_outputs: list["AdditionalOutput"]

class Response:
    # overload (request_id, error_msg, client_id=None) or (request_id, result, client_id=None)
    def __init__(
        self, request_id: IdType, result: Union[Result, str], client_id: Optional[IdType] = None
    ) -> None: ...
    request_id: IdType  # RO
    client_id: Optional[IdType]  # RO
    error_msg: str  # RO, raises if has_error() is False
    result: Result  # RO, raises if has_error() is True
    def has_error(self) -> bool: ...
    def clear_context_logits(self) -> None: ...
    def clear_generation_logits(self) -> None: ...

class AdditionalOutput:
    def __init__(self, name: str, output: Tensor, /) -> None: ...
    name: str
    output: Tensor

class TimingMetrics:
    arrival_time: Any
    first_scheduled_time: Any
    first_token_time: Any
    last_token_time: Any
    kv_cache_transfer_start: Any
    kv_cache_transfer_end: Any
    kv_cache_size: int

class KvCacheMetrics:
    num_total_allocated_blocks: int
    num_new_allocated_blocks: int
    num_reused_blocks: int
    num_missed_blocks: int
    kv_cache_hit_rate: float

class SpeculativeDecodingMetrics:
    acceptance_rate: float
    total_accepted_draft_tokens: int
    total_draft_tokens: int

class RequestPerfMetrics:  # filled when OutputConfig.return_perf_metrics
    timing_metrics: TimingMetrics
    kv_cache_metrics: KvCacheMetrics
    speculative_decoding: SpeculativeDecodingMetrics
    first_iter: Optional[int]
    last_iter: Optional[int]
    iter: Optional[int]

# ----------------------------------------------------------------------------- stats (all RW)
class KvCacheStats:
    max_num_blocks: int
    free_num_blocks: int
    used_num_blocks: int
    tokens_per_block: int
    alloc_total_blocks: int
    alloc_new_blocks: int
    reused_blocks: int
    missed_blocks: int
    cache_hit_rate: float

class StaticBatchingStats:
    num_scheduled_requests: int
    num_context_requests: int
    num_ctx_tokens: int
    num_gen_tokens: int
    empty_gen_slots: int

class InflightBatchingStats:
    num_scheduled_requests: int
    num_context_requests: int
    num_gen_requests: int
    num_paused_requests: int
    num_ctx_tokens: int
    micro_batch_id: int
    avg_num_decoded_tokens_per_iter: float

class SpecDecodingStats:  # newer
    num_draft_tokens: int
    num_accepted_tokens: int
    num_requests_with_draft_tokens: int
    acceptance_length: float
    iter_latency_ms: float
    draft_overhead: float

class IterationStats:
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
    kv_cache_stats: Optional[KvCacheStats]
    cross_kv_cache_stats: Optional[KvCacheStats]
    static_batching_stats: Optional[StaticBatchingStats]
    inflight_batching_stats: Optional[InflightBatchingStats]
    specdec_stats: Optional[SpecDecodingStats]  # newer
    def to_json_str(self) -> str: ...

class DisServingRequestStats:
    kv_cache_transfer_ms: float
    kv_cache_size: int

class RequestStats:
    id: int
    stage: RequestStage
    context_prefill_position: int
    num_generated_tokens: int
    avg_num_decoded_tokens_per_iter: float
    scheduled: bool
    paused: bool
    dis_serving_stats: Optional[DisServingRequestStats]
    alloc_total_blocks_per_request: int
    alloc_new_blocks_per_request: int
    reused_blocks_per_request: int
    missed_blocks_per_request: int
    kv_cache_hit_rate_per_request: float
    def to_json_str(self) -> str: ...

class RequestStatsPerIteration:
    iter: int
    request_stats: list[RequestStats]
    def to_json_str(self) -> str: ...

class DebugTensorsPerIteration:
    iter: int
    debug_tensors: dict[str, Tensor]
