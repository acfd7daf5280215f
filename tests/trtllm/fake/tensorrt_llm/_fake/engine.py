"""An engine folder as the executor reads it."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from tensorrt_llm._fake.blocks import Blocks
from tensorrt_llm._fake.configs import ExecutorConfig
from tensorrt_llm._fake.enums import BatchingType, CapacitySchedulerPolicy
from tensorrt_llm._fake.faults import Faults
from tensorrt_llm._fake.model import WIDTH, Model
from tensorrt_llm._fake.requests import Request

EXTERNAL_DRAFTS = 2
"""`speculative_decoding_mode` of a target that takes draft tokens from outside."""
DEVICE_TOKENS = 1 << 19
"""KV tokens that the memory of the invented GPU holds."""
_taken = 0
"""KV tokens that executors of this process hold."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """Shapes of an engine, and the model in it."""

    model: Model
    faults: Faults
    world: int
    padded: int
    """Width of a row of logits."""
    half: bool
    """Logits are float16."""
    batch: int
    step_tokens: int
    input_len: int
    seq_len: int
    draft_len: int
    external: bool
    gathers: bool
    paged_context: bool
    block: int

    @staticmethod
    def open(folder: Path, config: ExecutorConfig) -> Engine:
        """Reads `config.json` and the rank's file.

        Raises:
            RuntimeError: a file is missing or damaged, or the configuration asks for more than was built.
        """
        try:
            content: dict[str, Any] = json.loads((folder / "config.json").read_text())
        except (OSError, ValueError) as e:
            raise RuntimeError(f"[TensorRT-LLM][ERROR] Assertion failed: {folder}/config.json: {e}") from e
        pretrained, build = content["pretrained_config"], content["build_config"]
        world, plugins = int(pretrained["mapping"]["world_size"]), build["plugin_config"]
        if pretrained["vocab_size"] != WIDTH:
            raise RuntimeError(f"the fake's model has {WIDTH} tokens, not {pretrained['vocab_size']}")
        file = folder / "rank0.engine"
        if build.get("kv_cache_type") != "PAGED" and config.kv_cache_config.enable_block_reuse:
            raise RuntimeError("[TensorRT-LLM][ERROR] KV cache reuse needs a paged KV cache")
        engine = Engine(
            model=Model.of(file),
            faults=Faults.of(file),
            world=world,
            padded=math.ceil(WIDTH / (8 * world)) * 8 * world,
            half=pretrained.get("logits_dtype") == "float16",
            batch=_least("max_batch_size", config.max_batch_size, build["max_batch_size"]),
            step_tokens=_least("max_num_tokens", config.max_num_tokens, build["max_num_tokens"]),
            input_len=build["max_input_len"],
            seq_len=build["max_seq_len"],
            draft_len=build["max_draft_len"],
            external=build["speculative_decoding_mode"] == EXTERNAL_DRAFTS,
            gathers=bool(build["gather_generation_logits"] or config.gather_generation_logits),
            paged_context=bool(plugins["use_paged_context_fmha"]),
            block=plugins["tokens_per_block"],
        )
        engine._check(config, build["max_beam_width"])
        return engine

    def _check(self, config: ExecutorConfig, beams: int) -> None:
        if config.max_beam_width > beams:
            raise RuntimeError(f"max_beam_width {config.max_beam_width} exceeds the engine's {beams}")
        if config.enable_chunked_context and not self.paged_context:
            raise RuntimeError("enable_chunked_context needs an engine with use_paged_context_fmha")
        if config.kv_cache_config.enable_block_reuse and not self.paged_context:
            raise RuntimeError("enable_block_reuse needs an engine with use_paged_context_fmha")
        static = config.batching_type is BatchingType.STATIC
        if static and config.logits_post_processor_config is not None:
            raise RuntimeError("logits post-processors are not supported with static batching")
        if config.scheduler_config.capacity_scheduler_policy is CapacitySchedulerPolicy.STATIC_BATCH:
            raise RuntimeError("the fake schedules in flight only")

    def blocks(self, config: ExecutorConfig) -> Blocks:
        """Takes its share of the device's memory.

        Raises:
            RuntimeError: that is not one block.
        """
        global _taken
        kv = config.kv_cache_config
        fraction = 0.9 if kv.free_gpu_memory_fraction is None else kv.free_gpu_memory_fraction
        tokens = int((DEVICE_TOKENS - _taken) * fraction)
        if kv.max_tokens is not None:
            tokens = min(tokens, kv.max_tokens)
        if tokens < self.block:
            raise RuntimeError(f"[TensorRT-LLM][ERROR] no memory for the KV cache: {tokens} tokens")
        _taken += tokens // self.block * self.block
        return Blocks(tokens // self.block, self.block, kv.enable_block_reuse)

    def give_back(self, blocks: Blocks) -> None:
        """The memory of an executor that is shut down."""
        global _taken
        _taken -= blocks.count * self.block

    def refusal(self, request: Request, beams: int) -> str | None:
        """Why the executor refuses a request, if it does."""
        prompt, draft = len(request.input_token_ids), request.external_draft_tokens_config
        drafted = len(draft.tokens) if draft else 0
        if prompt > self.input_len:
            return f"Prompt length ({prompt}) exceeds maximum input length ({self.input_len})."
        if drafted > self.draft_len or (drafted and not self.external):
            return (
                f"Number of draft tokens ({drafted}) is larger than maximum number of draft tokens "
                f"({self.draft_len}): exceeds maximum draft length"
            )
        if request.sampling_config.beam_width > beams:
            return f"Requested beam width {request.sampling_config.beam_width} exceeds maximum {beams}"
        if any(not 0 <= token < WIDTH for token in request.input_token_ids):
            return "Token ids are out of range"
        if request.output_config.return_generation_logits and not self.gathers:
            return "Generation logits need an engine built with gather_generation_logits"
        return self._unknown(request)

    @staticmethod
    def _unknown(request: Request) -> str | None:
        """What this fake does not do is an error, not an omission."""
        config, output = request.sampling_config, request.output_config
        if config.beam_width != 1 or (config.num_return_sequences or 1) != 1:
            return "the fake has no beams and no several sequences"
        unknown = ("top_p_min", "top_p_reset_ids", "top_p_decay", "no_repeat_ngram_size", "beam_width_array")
        for name in unknown:
            if getattr(config, name, None) is not None:
                return f"the fake has no {name}"
        if output.return_context_logits or output.return_encoder_output or output.additional_model_outputs:
            return "the fake has no such outputs"
        if request.lora_config or request.prompt_tuning_config or request.guided_decoding_params:
            return "the fake has no LoRA, prompt tuning and guided decoding"
        return None

    def room(self, request: Request) -> int:
        """Tokens that a request may generate: less than it asks for where the sequence would get too long."""
        draft = request.external_draft_tokens_config
        ahead = len(draft.tokens) if draft else self.draft_len
        return min(request.max_tokens, self.seq_len - len(request.input_token_ids) - ahead)


def _least(name: str, wanted: int | None, built: int) -> int:
    if wanted is not None and wanted > built:
        raise RuntimeError(f"Runtime configured {name} ({wanted}) exceeds the engine's ({built})")
    return built if wanted is None else wanted
