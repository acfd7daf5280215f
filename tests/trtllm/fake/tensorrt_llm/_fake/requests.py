"""What is asked of an Executor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from tensorrt_llm._fake.checked import Duration, binding
from tensorrt_llm._fake.configs import AdditionalModelOutput, EagleConfig, LookaheadDecodingConfig
from tensorrt_llm._fake.enums import KvCacheTransferMode, RequestType
from tensorrt_llm._fake.guided import GuidedDecodingParams
from torch import Tensor


@binding(newer=("prompt_ignore_length", "beam_width_array"))
class SamplingConfig:
    beam_width: int = 1
    _: dataclasses.KW_ONLY
    top_k: int | None = None
    top_p: float | None = None
    top_p_min: float | None = None
    top_p_reset_ids: int | None = None
    top_p_decay: float | None = None
    seed: int | None = None
    temperature: float | None = None
    min_tokens: int | None = None
    beam_search_diversity_rate: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    prompt_ignore_length: int | None = None
    length_penalty: float | None = None
    early_stopping: int | None = None
    no_repeat_ngram_size: int | None = None
    num_return_sequences: int | None = None
    min_p: float | None = None
    beam_width_array: list[int] | None = None

    def __post_init__(self) -> None:
        """The checks of the C++ constructor."""
        ranges = {
            "beam_width": (1, None),
            "top_k": (0, None),
            "top_p": (0.0, 1.0),
            "temperature": (0.0, None),
            "min_tokens": (0, None),
            "repetition_penalty": (0.0, None),
            "prompt_ignore_length": (0, None),
            "num_return_sequences": (1, None),
            "min_p": (0.0, 1.0),
        }
        for name, (least, most) in ranges.items():
            value = getattr(self, name, None)
            if value is not None and (value < least or (most is not None and value > most)):
                raise RuntimeError(f"SamplingConfig: {name} = {value} is out of range")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise TypeError(
                f"SamplingConfig(): incompatible function arguments: seed {self.seed} is no uint64"
            )
        if self.repetition_penalty == 0:
            raise RuntimeError("SamplingConfig: repetition_penalty = 0 is out of range")


@binding()
class OutputConfig:
    return_log_probs: bool = False
    return_context_logits: bool = False
    return_generation_logits: bool = False
    exclude_input_from_output: bool = False
    return_encoder_output: bool = False
    return_perf_metrics: bool = False
    additional_model_outputs: list[AdditionalModelOutput] | None = None


@binding(frozen=True)
class ExternalDraftTokensConfig:
    tokens: list[int]
    logits: Tensor | None = None
    acceptance_threshold: float | None = None
    fast_logits: bool | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise RuntimeError("ExternalDraftTokensConfig: tokens must not be empty")
        if self.acceptance_threshold is not None and self.acceptance_threshold < 0:
            raise RuntimeError("ExternalDraftTokensConfig: acceptance_threshold must not be negative")
        if self.logits is not None and not self.fast_logits:
            shape = tuple(self.logits.shape)
            if len(shape) != 2 or shape[0] != len(self.tokens):
                wanted = f"[{len(self.tokens)}, vocab]"
                raise RuntimeError(f"ExternalDraftTokensConfig: logits must be {wanted}, not {list(shape)}")


@binding(frozen=True)
class PromptTuningConfig:
    embedding_table: Tensor
    input_token_extra_ids: list[int] | None = None


@binding(frozen=True)
class LoraConfig:
    task_id: int
    weights: Tensor | None = None
    config: Tensor | None = None


@binding(frozen=True)
class MropeConfig:
    mrope_rotary_cos_sin: Tensor
    mrope_position_deltas: int


@binding(frozen=True)
class MultimodalInput:
    multimodal_hashes: list[list[int]]
    multimodal_positions: list[int]
    multimodal_lengths: list[int]


class ContextPhaseParams:
    def __init__(
        self,
        first_gen_tokens: list[int],
        req_id: int,
        opaque_state: bytes | None,
        draft_tokens: list[int] | None,
        /,
    ) -> None:
        self.first_gen_tokens, self.req_id = first_gen_tokens, req_id
        self.opaque_state, self.draft_tokens = opaque_state, draft_tokens


@binding()
class _TokenRangeRetentionConfig:
    token_start: int
    token_end: int | None
    priority: int
    duration_ms: Duration | None = None


@binding(frozen=True, newer=("transfer_mode", "directory"))
class KvCacheRetentionConfig:
    token_range_retention_configs: list[_TokenRangeRetentionConfig]
    decode_retention_priority: int = 35
    decode_duration_ms: Duration | None = None
    transfer_mode: KvCacheTransferMode = KvCacheTransferMode.DRAM
    directory: str = ""


KvCacheRetentionConfig.TokenRangeRetentionConfig = _TokenRangeRetentionConfig  # type: ignore[attr-defined] # nested


@binding(newer=("multimodal_input", "multimodal_embedding", "cache_salt_id"))
class Request:
    BATCHED_POST_PROCESSOR_NAME: ClassVar[str] = "batched"

    input_token_ids: list[int]
    max_tokens: int
    _: dataclasses.KW_ONLY
    streaming: bool = False
    sampling_config: SamplingConfig = dataclasses.field(default_factory=SamplingConfig)
    output_config: OutputConfig = dataclasses.field(default_factory=OutputConfig)
    end_id: int | None = None
    pad_id: int | None = None
    position_ids: list[int] | None = None
    bad_words: list[list[int]] | None = None
    stop_words: list[list[int]] | None = None
    embedding_bias: Tensor | None = None
    external_draft_tokens_config: ExternalDraftTokensConfig | None = None
    prompt_tuning_config: PromptTuningConfig | None = None
    multimodal_input: MultimodalInput | None = None
    multimodal_embedding: Tensor | None = None
    mrope_config: MropeConfig | None = None
    lora_config: LoraConfig | None = None
    lookahead_config: LookaheadDecodingConfig | None = None
    kv_cache_retention_config: KvCacheRetentionConfig | None = None
    logits_post_processor_name: str | None = None
    logits_post_processor: Callable[..., None] | None = None
    encoder_input_token_ids: list[int] | None = None
    client_id: int | None = None
    return_all_generated_tokens: bool = False
    priority: float = 0.5
    type: RequestType = RequestType.REQUEST_TYPE_CONTEXT_AND_GENERATION
    context_phase_params: ContextPhaseParams | None = None
    encoder_input_features: Tensor | None = None
    encoder_output_length: int | None = None
    cross_attention_mask: Tensor | None = None
    num_return_sequences: int = 1
    eagle_config: EagleConfig | None = None
    skip_cross_attn_blocks: Tensor | None = None
    guided_decoding_params: GuidedDecodingParams | None = None
    language_adapter_uid: int | None = None
    allotted_time_ms: Duration | None = None
    cache_salt_id: int | None = None

    def __post_init__(self) -> None:
        """The checks of the C++ constructor, and the names that differ from the arguments'."""
        if not self.input_token_ids:
            raise RuntimeError("Request: input_token_ids must not be empty")
        if self.max_tokens <= 0:
            raise RuntimeError("Request: max_tokens must be positive")
        if not 0.0 <= self.priority <= 1.0:
            raise RuntimeError(f"Request: priority {self.priority} is not between 0 and 1")
        if self.logits_post_processor_name is not None and self.logits_post_processor is not None:
            raise RuntimeError("Request: logits_post_processor and its name exclude each other")
        self.request_type = self.type


CONSTRUCTOR_ONLY = (
    "priority",
    "type",
    "encoder_output_length",
    "num_return_sequences",
    "language_adapter_uid",
)
"""Arguments of a request that are no properties of it; the executor reads them by `hidden`."""


def hidden(request: Request, name: str) -> Any:
    """An argument that the request keeps to itself."""
    return request.__dict__[name]


for _name in CONSTRUCTOR_ONLY:
    delattr(Request, _name)
