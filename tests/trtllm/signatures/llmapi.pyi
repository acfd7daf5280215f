# The third part: the LLM API. How to read it: executor.pyi.

# =============================================================================
# LLM API (PyTorch backend). Versions differ; the tag in brackets is what was read.
#   [A] llm_args (~1.0)  [B] llm_args (~1.1/1.2)  [C] llm_args (~1.3rc)
# =============================================================================
class _mod_tensorrt_llm_llmapi:
    class DecodingBaseConfig:
        # [A] max_draft_len, speculative_model_dir only
        # [B] adds max_total_draft_tokens, max_concurrency, load_format, acceptance_window, acceptance_length_threshold
        # [C] `speculative_model` is the field, `speculative_model_dir` still accepted as alias; adds draft_len_schedule, allow_advanced_sampling
        def __init__(
            self,
            *,
            max_draft_len: Optional[int] = None,
            max_total_draft_tokens: Optional[int] = None,
            speculative_model: Optional[PathLike] = None,
            max_concurrency: Optional[int] = None,
            draft_len_schedule: Optional[dict[int, int]] = None,
            load_format: Optional[str] = None,
            acceptance_window: Optional[int] = None,
            acceptance_length_threshold: Optional[float] = None,
            allow_advanced_sampling: bool = False,
        ) -> None: ...

    class DraftTargetDecodingConfig(DecodingBaseConfig):
        # [C] validator: max_draft_len > 0 and speculative_model both required; max_total_draft_tokens := max_draft_len
        decoding_type: ClassVar[str] = (
            "Draft_Target"  # [A] "Draft_Target" too; oldest snapshots "DraftTarget"
        )

    class UserProvidedDecodingConfig(DecodingBaseConfig):
        decoding_type: ClassVar[str] = "User_Provided"
        drafter: object  # a tensorrt_llm._torch.speculative.drafter.Drafter (prepare_draft_tokens)
        resource_manager: object

    class NGramDecodingConfig(DecodingBaseConfig):
        decoding_type: ClassVar[str] = "NGram"
        max_matching_ngram_size: int = 2  # [C]; [A],[B]: 0
        is_keep_all: bool = True
        is_use_oldest: bool = True
        is_public_pool: bool = True

    class BaseLlmArgs:  # keyword args of LLM(...); [C]
        tensor_parallel_size: int = 1
        dtype: str = "auto"
        revision: Optional[str] = None
        tokenizer_revision: Optional[str] = None
        pipeline_parallel_size: int = 1
        context_parallel_size: int = 1
        load_format: str = "auto"  # "auto" | "dummy" on the base class
        enable_lora: bool = False
        lora_config: Optional[Any] = None
        kv_cache_config: Any = ...  # llmapi.KvCacheConfig()
        enable_chunked_prefill: bool = False
        guided_decoding_backend: Optional[str] = (
            None  # "xgrammar" | "llguidance" (llguidance: PyTorch backend only)
        )
        batched_logits_processor: Optional[object] = None
        iter_stats_max_iterations: Optional[int] = None
        request_stats_max_iterations: Optional[int] = None
        peft_cache_config: Optional[Any] = None
        scheduler_config: Any = ...  # llmapi.SchedulerConfig()
        cache_transceiver_config: Optional[Any] = None
        speculative_config: Optional[Any] = None
        max_batch_size: Optional[int] = 2048
        max_input_len: Optional[int] = 1024
        max_seq_len: Optional[int] = None
        max_beam_width: Optional[int] = 1
        max_num_tokens: Optional[int] = 8192
        gather_generation_logits: bool = False
        num_postprocess_workers: int = 0
        postprocess_tokenizer_dir: Optional[str] = None
        reasoning_parser: Optional[str] = None
        backend: Optional[str] = None  # deprecated; after the TRT removal "tensorrt" raises ValueError
        return_perf_metrics: bool = False
        perf_metrics_max_requests: int = 0
        orchestrator_type: Optional[str] = None  # "rpc" | "ray" | None (= MPI)
        env_overrides: Optional[dict[str, str]] = None

    class LLM:
        # first args (model, tokenizer, ...) not read verbatim; the rest are BaseLlmArgs / TorchLlmArgs fields
        def __init__(self, model: PathLike, tokenizer: Optional[Any] = None, **kwargs: Any) -> None: ...
        # ~1.0/1.1 read: (inputs, sampling_params, lora_request, prompt_adapter_request, streaming, kv_cache_retention_config,
        #                 disaggregated_params, _postproc_params, scheduling_params, cache_salt)
        # mid-2026 read: same plus trace_headers, conversation_params, priority
        def generate_async(
            self,
            inputs: Any,  # str | list[int] | {"prompt": ..} | {"prompt_token_ids": ..}
            sampling_params: Optional["_mod_tensorrt_llm_sampling_params.SamplingParams"] = None,
            lora_request: Optional[Any] = None,
            prompt_adapter_request: Optional[Any] = None,
            streaming: bool = False,
            kv_cache_retention_config: Optional[KvCacheRetentionConfig] = None,
            disaggregated_params: Optional[Any] = None,
            _postproc_params: Optional[Any] = None,
            scheduling_params: Optional[Any] = None,
            cache_salt: Optional[str] = None,
        ) -> "RequestOutput": ...
        def get_stats(self, timeout: Optional[float] = 2) -> list[dict]: ...
        def get_stats_async(self, timeout: Optional[float] = 2) -> Any: ...
        def get_kv_cache_events(self, timeout: Optional[float] = 2) -> list[dict]: ...
        def get_kv_cache_events_async(self, timeout: Optional[float] = 2) -> Any: ...

    class CompletionOutput:
        index: int
        text: str = ""
        token_ids: Optional[list[int]]
        cumulative_logprob: Optional[float] = None
        logprobs: Optional[list[dict[int, Any]]]
        prompt_logprobs: Optional[list[dict[int, Any]]]
        finish_reason: Optional[str] = None  # "stop" | "length" | "timeout" | "cancelled"
        stop_reason: Optional[Union[int, str]] = None
        generation_logits: Optional[Tensor] = None
        disaggregated_params: Optional[Any] = None
        length: int  # RO
        token_ids_diff: list[int]  # RO, new since the previous chunk
        logprobs_diff: list[dict[int, Any]]  # RO
        text_diff: str  # RO

    class RequestOutput:
        outputs: list["CompletionOutput"]
        context_logits: Optional[Tensor]
        decoding_iter: int
        # awaitable (final result) and async-iterable when streaming=True; also .result(timeout) / .abort() -- last two not re-read

class _mod_tensorrt_llm_sampling_params:
    class GuidedDecodingParams:  # dataclass, kw_only; at most one may be set
        def __init__(
            self,
            *,
            json: Any = None,
            regex: Optional[str] = None,
            grammar: Optional[str] = None,
            json_object: bool = False,
            structural_tag: Optional[str] = None,
        ) -> None: ...

    class LogitsProcessor:  # any callable with this signature is accepted
        def __call__(
            self,
            req_id: int,
            logits: Tensor,
            token_ids: list[list[int]],
            stream_ptr: Optional[int],
            client_id: Optional[int],
        ) -> None: ...
        # PyTorch backend passes stream_ptr=None and client_id=None, logits [beam, 1, vocab]

    class BatchedLogitsProcessor:
        def __call__(
            self,
            req_ids: list[int],
            logits: list[Tensor],
            token_ids: list[list[list[int]]],
            stream_ptr: int,
            client_ids: list[Optional[int]],
        ) -> None: ...

    class SamplingParams:  # dataclass, kw_only  [1.0.0rc4, commit 000a01de]
        def __init__(
            self,
            *,
            end_id: Optional[int] = None, pad_id: Optional[int] = None,
            max_tokens: int = 32,
            bad: Any = None,
            bad_token_ids: Optional[list[int]] = None,
            stop: Any = None,
            stop_token_ids: Optional[list[int]] = None,
            include_stop_str_in_output: bool = False,
            embedding_bias: Optional[Tensor] = None,
            logits_processor: Any = None,  # one LogitsProcessor or a list of them
            apply_batched_logits_processor: bool = False,
            n: int = 1,
            best_of: Optional[int] = None,
            use_beam_search: bool = False,
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
            length_penalty: Optional[float] = None,
            early_stopping: Optional[int] = None,
            no_repeat_ngram_size: Optional[int] = None,
            min_p: Optional[float] = None,
            beam_width_array: Optional[list[int]] = None,
            logprobs: Optional[int] = None,
            prompt_logprobs: Optional[int] = None,
            return_context_logits: bool = False,
            return_generation_logits: bool = False,
            exclude_input_from_output: bool = True,
            return_encoder_output: bool = False,
            return_perf_metrics: bool = False,
            additional_model_outputs: Optional[list[Any]] = None,
            lookahead_config: Optional[LookaheadDecodingConfig] = None,
            guided_decoding: Optional["_mod_tensorrt_llm_sampling_params.GuidedDecodingParams"] = None,
            ignore_eos: bool = False,
            detokenize: bool = True,
            add_special_tokens: bool = True,
            truncate_prompt_tokens: Optional[int] = None,
            skip_special_tokens: bool = True,
            spaces_between_special_tokens: bool = True,
        ) -> None: ...
