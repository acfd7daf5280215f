"""What llama.cpp calls the parts of a Hugging Face model, and how their numbers differ."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gguf import GGUFWriter, RopeScalingType

from llgtrt.build.checkpoint import Checkpoint, Floats
from llgtrt.settings import StartError

log = logging.getLogger(__name__)

_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_QKV_BIASES = {f"self_attn.{x}_proj.bias": f"attn_{x}.bias" for x in "qkv"}
_HEAD_NORMS = {f"self_attn.{x}_norm.weight": f"attn_{x}_norm.weight" for x in "qk"}
_FOUR_NORMS = _LAYER | {
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}
_OTHER_BIASES = {
    "self_attn.o_proj.bias": "attn_output.bias",
    "mlp.gate_proj.bias": "ffn_gate.bias",
    "mlp.up_proj.bias": "ffn_up.bias",
    "mlp.down_proj.bias": "ffn_down.bias",
}


@dataclass(frozen=True)
class Family:
    """One architecture. `layer` and `optional`: names of a layer's tensors there, and in a GGUF file."""

    arch: str
    layer: Mapping[str, str] = field(default_factory=lambda: _LAYER)
    optional: Mapping[str, str] = field(default_factory=dict)
    activations: tuple[str, ...] = ("silu",)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What transformers assumes where `config.json` says nothing."""
    pairs: bool = False
    """Rotary pairs of q and k become neighbours."""
    gemma: bool = False
    """Norms are stored less 1, and the embedding is the output matrix."""
    alternating: int = 0
    """Every so many layers one sees all tokens, the others a window; 0 = all see all."""
    part: str | None = None
    """Where `config.json` has the text model of one that sees images too; these parts are left out."""


_GEMMA = {"head_dim": 256, "tie_word_embeddings": True}
_GELU = ("gelu_pytorch_tanh",)
_SOFTCAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
_LLAMA = Family("llama", optional=_QKV_BIASES | _OTHER_BIASES, pairs=True)
_GEMMA3 = Family(
    "gemma3",
    layer=_FOUR_NORMS | _HEAD_NORMS,
    activations=_GELU,
    defaults=_GEMMA
    | {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
        "query_pre_attn_scalar": 256,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
    },
    gemma=True,
    alternating=6,
)

FAMILIES = {
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _LLAMA,
    "Qwen2ForCausalLM": Family("qwen2", layer=_LAYER | _QKV_BIASES),
    "Qwen3ForCausalLM": Family("qwen3", layer=_LAYER | _HEAD_NORMS, defaults={"head_dim": 128}),
    # Gemma 1 was published with "gelu", and computes the other one all the same.
    "GemmaForCausalLM": Family("gemma", activations=("gelu", *_GELU), defaults=_GEMMA, gemma=True),
    "Gemma2ForCausalLM": Family(
        "gemma2",
        layer=_FOUR_NORMS,
        activations=_GELU,
        defaults=_GEMMA | _SOFTCAPS | {"sliding_window": 4096, "query_pre_attn_scalar": 256},
        gemma=True,
        alternating=2,
    ),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": dataclasses.replace(_GEMMA3, part="text_config"),
}


@dataclass(frozen=True)
class Tensor:
    """A tensor of the GGUF file: its shape, and what gives its values."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], Floats]


class Model:
    """A checkpoint as llama.cpp sees it."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Looks at the configuration.

        Raises:
            StartError: llama.cpp, or this module, does not know such a model; the message says what to do.
        """
        self._checkpoint = checkpoint
        names = checkpoint.config.get("architectures") or ["(none named)"]
        family = FAMILIES.get(names[0])
        if family is None:
            raise StartError(
                f"{checkpoint.folder}: {names[0]} is not converted here; only {', '.join(FAMILIES)} are. "
                "llama.cpp's own convert_hf_to_gguf.py may know it: `llgtrt serve` takes its .gguf files"
            )
        self.family = family
        self.config: dict[str, Any] = {"rms_norm_eps": 1e-6} | dict(family.defaults) | checkpoint.config
        self._stored = {name: name for name in checkpoint.tensors}
        if family.part is not None:
            log.warning("%s: only the text model is built: images are not served", checkpoint.folder)
            self.config |= checkpoint.config.get(family.part, {})
            found = ((_text_name(name), name) for name in checkpoint.tensors)
            self._stored = {text: name for text, name in found if text is not None}
        heads, width = self._number("num_attention_heads"), self._number("hidden_size")
        self.head = int(self.config.get("head_dim") or width // heads)
        self.heads = (heads, int(self.config.get("num_key_value_heads") or heads))
        self.rows = self._number("vocab_size")
        self.layers = self._number("num_hidden_layers")
        self._rope, self._rope_local = self._ropes()
        self._check()

    def _number(self, key: str) -> int:
        value = self.config.get(key)
        if not isinstance(value, int) or value < 1:
            raise StartError(f"{self._checkpoint.folder}/config.json: {key} is missing, or no number above 0")
        return value

    def _ropes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rotary parameters of layers that see all tokens, and of those that see a window."""
        stored = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        every = {"rope_theta": self.config.get("rope_theta", 10000.0)} | stored.get("full_attention", stored)
        local = {"rope_theta": self.config.get("rope_local_base_freq", every["rope_theta"])}
        return every, local | stored.get("sliding_attention", {})

    def _check(self) -> None:
        """What llama.cpp would compute in another way is refused."""
        config, file = self.config, f"{self._checkpoint.folder}/config.json"
        activation = (
            config.get("hidden_activation") or config.get("hidden_act") or self.family.activations[-1]
        )
        if activation not in self.family.activations:
            raise StartError(
                f"{file}: hidden_act {activation} is not what {self.family.arch} of llama.cpp computes"
            )
        scalar = config.get("query_pre_attn_scalar", self.head)
        large = {"gemma2": 46, "gemma3": 62}.get(self.family.arch) == self.layers
        if scalar != (config["hidden_size"] // self.heads[0] if large else self.head):
            raise StartError(
                f"{file}: query_pre_attn_scalar {scalar} is not what llama.cpp assumes for this size"
            )
        if config.get("partial_rotary_factor", 1) != 1 or self._rope.get("partial_rotary_factor", 1) != 1:
            raise StartError(f"{file}: partial_rotary_factor is not supported")
        if self.family.arch == "qwen2" and self.head * self.heads[0] != config["hidden_size"]:
            raise StartError(
                f"{file}: head_dim must be hidden_size / num_attention_heads for llama.cpp's qwen2"
            )
        self._check_rope(file)
        tied = config.get("tie_word_embeddings", False)
        if self.family.gemma and not tied:
            raise StartError(
                f"{file}: tie_word_embeddings must be true: llama.cpp's {self.family.arch} has one matrix"
            )

    def _context(self) -> int:
        """Longest context in tokens."""
        trained = self._number("max_position_embeddings")
        if self._rope_type() == "yarn":
            original = self._rope.get("original_max_position_embeddings") or trained
            trained = max(trained, int(original * self._rope["factor"]))
        window = self.config.get("sliding_window")
        if (
            not self.family.alternating
            and window
            and self.config.get("use_sliding_window", True)
            and window < trained
        ):
            log.warning(
                "the context ends at %d tokens: llama.cpp has no sliding window for this model", window
            )
            return int(window)
        return trained

    def describe(self, writer: GGUFWriter) -> None:
        """Writes the sizes."""
        config = self.config
        writer.add_context_length(self._context())
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(self.layers)
        writer.add_feed_forward_length(self._number("intermediate_size"))
        writer.add_head_count(self.heads[0])
        writer.add_head_count_kv(self.heads[1])
        writer.add_key_length(self.head)
        writer.add_value_length(self.head)
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_vocab_size(self.rows)
        writer.add_rope_dimension_count(self.head)
        writer.add_rope_freq_base(self._rope["rope_theta"])
        self._scale_rope(writer)
        if self.family.alternating:
            writer.add_sliding_window(config["sliding_window"])
            writer.add_sliding_window_pattern(self._windowed())
            if self.family.arch == "gemma3":
                writer.add_rope_freq_base_swa(self._rope_local["rope_theta"])
        if config.get("attn_logit_softcapping"):
            writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        if config.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])

    def _windowed(self) -> list[bool]:
        """Whether each layer sees a window only."""
        kinds = self.config.get("layer_types")
        if kinds:
            return [kind == "sliding_attention" for kind in kinds]
        every = self.config.get("sliding_window_pattern", self.family.alternating)
        return [(number + 1) % every != 0 for number in range(self.layers)]

    def _rope_type(self) -> str:
        return str(self._rope.get("rope_type") or self._rope.get("type") or "default")

    def _check_rope(self, file: str) -> None:
        kind, rope = self._rope_type(), self._rope
        known = ["default", "linear", "yarn", *(["llama3"] if self.family.arch == "llama" else [])]
        other: list[str] = [key for key in ("mscale", "mscale_all_dim") if key in rope]
        other += ["truncate"] if rope.get("truncate", True) is not True else []
        if kind not in known or other:
            raise StartError(
                f"{file}: rope scaling {other[0] if kind in known else kind} is not converted here; "
                f"only {', '.join(known[1:])} of this architecture"
            )
        if kind != "default" and not isinstance(rope.get("factor"), (int, float)):
            raise StartError(f"{file}: rope scaling {kind} needs a number as its factor")

    def _scale_rope(self, writer: GGUFWriter) -> None:
        kind, rope = self._rope_type(), self._rope
        if kind in ("linear", "yarn"):
            writer.add_rope_scaling_type(RopeScalingType(kind))
            writer.add_rope_scaling_factor(rope["factor"])
        if kind == "yarn":
            trained = self._number("max_position_embeddings")
            writer.add_rope_scaling_orig_ctx_len(rope.get("original_max_position_embeddings") or trained)
            writer.add_rope_scaling_yarn_beta_fast(rope.get("beta_fast") or 32.0)
            writer.add_rope_scaling_yarn_beta_slow(rope.get("beta_slow") or 1.0)
            if rope.get("attention_factor"):
                # llama.cpp multiplies what it computes itself.
                own = 1 + 0.1 * math.log(rope["factor"])
                writer.add_rope_scaling_attn_factors(rope["attention_factor"] / own)

    def tensors(self) -> list[Tensor]:
        """All tensors, in the order in which llama.cpp's converter writes them.

        Raises:
            StartError: the checkpoint lacks one, or has one that llama.cpp would not read.
        """
        names = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
        if not self.config.get("tie_word_embeddings", False):
            names["lm_head.weight"] = "output.weight"
        stored = self._stored
        for number in range(self.layers):
            optional = {key: name for key, name in self.family.optional.items() if _of(number, key) in stored}
            layer = {**self.family.layer, **optional}
            names |= {_of(number, key): f"blk.{number}.{name}" for key, name in layer.items()}
        unread = (
            name for name in stored if not name.endswith("rotary_emb.inv_freq") and name != "lm_head.weight"
        )
        strange = min((name for name in unread if name not in names), default=None)
        if strange is not None:
            raise StartError(
                f"{self._checkpoint.folder}: {strange} is not part of a {self.family.arch} model"
            )
        tensors = [self._tensor(key, name) for key, name in names.items()]
        if self._rope_type() == "llama3":
            factors = self._rope_factors()
            tensors.append(Tensor("rope_freqs.weight", factors.shape, lambda: factors))
        return tensors

    def _tensor(self, key: str, name: str) -> Tensor:
        if key not in self._stored:
            raise StartError(
                f"{self._checkpoint.folder}: {key} is missing; the model is damaged, or not whole"
            )
        stored = self._checkpoint.tensors[self._stored[key]]
        if key == "model.embed_tokens.weight" and stored.shape != (self.rows, self.config["hidden_size"]):
            raise StartError(
                f"{self._checkpoint.folder}: {key} is of {stored.shape}, which config.json does not say"
            )
        return Tensor(name, stored.shape, lambda: self._values(key, name))

    def _values(self, key: str, name: str) -> Floats:
        values = self._checkpoint.read(self._stored[key])
        if self.family.pairs and ".attn_q." in name:
            return paired(values, self.heads[0])
        if self.family.pairs and ".attn_k." in name:
            return paired(values, self.heads[1])
        return values + np.float32(1) if self.family.gemma and name.endswith("norm.weight") else values

    def _rope_factors(self) -> Floats:
        """What each rotary frequency is divided by, `[head / 2]`: slow turns are stretched."""
        rope = self._rope
        turns = self._number("max_position_embeddings")
        original = rope.get("original_max_position_embeddings") or turns
        slow, fast = rope.get("low_freq_factor", 1.0), rope.get("high_freq_factor", 4.0)
        frequency = float(rope["rope_theta"]) ** -(np.arange(0, self.head, 2, dtype=np.float64) / self.head)
        wave = 2 * math.pi / frequency
        smooth = np.clip((original / wave - slow) / (fast - slow), 0, 1)
        factors = 1 / ((1 - smooth) / rope["factor"] + smooth)
        return np.asarray(factors, dtype=np.float32)


def _of(number: int, key: str) -> str:
    return f"model.layers.{number}.{key}"


def _text_name(name: str) -> str | None:
    """What the tensor is called in a model that reads text only; None for the others."""
    path = name.removeprefix("model.")
    if path.startswith(("vision_tower.", "multi_modal_projector.")):
        return None
    text = path.removeprefix("language_model.").removeprefix("model.")
    return text if text.startswith("lm_head.") else "model." + text


def paired(values: Floats, heads: int) -> Floats:
    """Rows of q or k, `[heads * head, …]`, with rotary pairs made neighbours, as llama.cpp wants them."""
    rest = values.shape[1:]
    rows: Floats = values.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(values.shape)
    return rows
