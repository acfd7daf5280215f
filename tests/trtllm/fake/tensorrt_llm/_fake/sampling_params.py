"""How the LLM API is asked to generate."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorrt_llm._fake.configs import LookaheadDecodingConfig
from torch import Tensor


@dataclasses.dataclass(kw_only=True)
class GuidedDecodingParams:
    json: Any = None
    regex: str | None = None
    grammar: str | None = None
    json_object: bool = False
    structural_tag: str | None = None

    def chosen(self) -> tuple[str, Any]:
        """The one kind that is set, and its value.

        Raises:
            ValueError: none is, or several are.
        """
        kinds = [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]
        found = [(name, value) for name, value in kinds if value not in (None, False)]
        if len(found) != 1:
            raise ValueError("Only one guide can be used for a request, and one must be")
        return found[0]


_UNKNOWN = (
    "bad",
    "logits_processor",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "top_p_min",
    "additional_model_outputs",
    "lookahead_config",
    "no_repeat_ngram_size",
    "embedding_bias",
)
"""What the fake refuses."""


@dataclasses.dataclass(kw_only=True)
class SamplingParams:
    end_id: int | None = None
    pad_id: int | None = None
    max_tokens: int = 32
    bad: Any = None
    bad_token_ids: list[int] | None = None
    stop: Any = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    embedding_bias: Tensor | None = None
    logits_processor: Any = None
    apply_batched_logits_processor: bool = False
    n: int = 1
    best_of: int | None = None
    use_beam_search: bool = False
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
    length_penalty: float | None = None
    early_stopping: int | None = None
    no_repeat_ngram_size: int | None = None
    min_p: float | None = None
    beam_width_array: list[int] | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_context_logits: bool = False
    return_generation_logits: bool = False
    exclude_input_from_output: bool = True
    return_encoder_output: bool = False
    return_perf_metrics: bool = False
    additional_model_outputs: list[Any] | None = None
    lookahead_config: LookaheadDecodingConfig | None = None
    guided_decoding: GuidedDecodingParams | None = None
    ignore_eos: bool = False
    detokenize: bool = True
    add_special_tokens: bool = True
    truncate_prompt_tokens: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True

    def __post_init__(self) -> None:
        """What the fake does not do is an error."""
        for name in _UNKNOWN:
            if getattr(self, name) is not None:
                raise NotImplementedError(f"the fake has no {name}")
        if self.use_beam_search or self.n != 1 or (self.best_of or 1) != 1:
            raise NotImplementedError("the fake has one sequence for each request")
