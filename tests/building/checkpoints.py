"""Tiny random Hugging Face folders of each family."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .reference import Floats

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}
_WINDOWS = {"sliding_window": 12, "query_pre_attn_scalar": 32, "hidden_activation": "gelu_pytorch_tanh"}
_GEMMA = {"tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh"}
CASES: dict[str, dict[str, Any]] = {
    "llama3": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        "vocabulary": LLAMA3,
    },
    "llama2": {
        "architectures": ["LlamaForCausalLM"],
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "vocabulary": "prefix",
    },
    "mistral": {"architectures": ["MistralForCausalLM"], "head_dim": 16, "vocabulary": "prefix"},
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "head_dim": 16,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        "vocabulary": QWEN2,
    },
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "rope_theta": 1e6, "vocabulary": QWEN2},
    "gemma": {"architectures": ["GemmaForCausalLM"], **_GEMMA, "vocabulary": "plain"},
    "gemma2": {
        "architectures": ["Gemma2ForCausalLM"],
        **_GEMMA,
        **_WINDOWS,
        "layer_types": ["sliding_attention", "full_attention"],
        "attn_logit_softcapping": 3.0,
        "final_logit_softcapping": 2.0,
        "vocabulary": "plain",
    },
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        **_GEMMA,
        **_WINDOWS,
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "vocabulary": "plain",
    },
}


def make(
    folder: Path, case: str, kind: str = "BF16", shards: int = 1, **changes: Any
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Writes a folder; its `config.json`, and its weights as they were stored, in F32."""
    folder.mkdir(parents=True, exist_ok=True)
    config = _SIZES | CASES[case] | changes
    config["vocab_size"] = vocabulary(folder, config.pop("vocabulary")) + 3  # more rows than tokens
    (folder / "config.json").write_text(json.dumps(config))
    weights = {name: stored(values, kind) for name, values in random_weights(config).items()}
    names = list(weights)
    files: dict[str, str] = {}
    for shard in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        safetensors(folder / file, {name: weights[name] for name in part}, kind)
        files |= dict.fromkeys(part, file)
    if shards > 1:
        index = {"metadata": {}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return config, weights


def random_weights(config: dict[str, Any]) -> dict[str, Floats]:
    """Every tensor that the published model has."""
    random = np.random.default_rng(7)
    width, inner = config["hidden_size"], config["intermediate_size"]
    q, kv = (config[f"num_{name}_heads"] * config["head_dim"] for name in ("attention", "key_value"))
    family = config["architectures"][0]
    gemma, four = family.startswith("Gemma"), family.startswith(("Gemma2", "Gemma3"))
    weights: dict[str, Floats] = {}

    def matrix(name: str, rows: int, columns: int, bias: bool = False) -> None:
        weights[name + ".weight"] = (random.normal(size=(rows, columns)) / columns**0.5).astype(np.float32)
        if bias:
            weights[name + ".bias"] = random.normal(size=rows).astype(np.float32) * np.float32(0.3)

    def norm(name: str, size: int) -> None:
        values = random.normal(size=size) * 0.3 + (0 if gemma else 1)
        weights[name + ".weight"] = values.astype(np.float32)

    matrix("model.embed_tokens", config["vocab_size"], width)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}."
        norm(layer + "input_layernorm", width)
        norm(layer + "post_attention_layernorm", width)
        if four:
            norm(layer + "pre_feedforward_layernorm", width)
            norm(layer + "post_feedforward_layernorm", width)
        bias = bool(config.get("attention_bias"))
        for name, rows in {"q": q, "k": kv, "v": kv}.items():
            matrix(f"{layer}self_attn.{name}_proj", rows, width, bias or family.startswith("Qwen2"))
        matrix(layer + "self_attn.o_proj", width, q, bias)
        if family.startswith(("Qwen3", "Gemma3")):
            norm(layer + "self_attn.q_norm", config["head_dim"])
            norm(layer + "self_attn.k_norm", config["head_dim"])
        for name, rows, columns in (("gate", inner, width), ("up", inner, width), ("down", width, inner)):
            matrix(f"{layer}mlp.{name}_proj", rows, columns, bool(config.get("mlp_bias")))
    norm("model.norm", width)
    if not config["tie_word_embeddings"]:
        matrix("lm_head", config["vocab_size"], width)
    return weights


def stored(values: Floats, kind: str) -> Floats:
    """The values that are left where they are stored in this type (BF16: cut off)."""
    if kind == "F16":
        return values.astype(np.float16).astype(np.float32)
    return values if kind == "F32" else (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


def safetensors(file: Path, weights: dict[str, Floats], kind: str) -> None:
    """Writes a file of the format: length of a JSON header, the header, data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in weights.items():
        if kind == "BF16":
            part = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            part = values.astype("<f2" if kind == "F16" else "<f4").tobytes()
        header[name] = {
            "dtype": kind,
            "shape": values.shape,
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def vocabulary(folder: Path, kind: str) -> int:
    """Writes `tokenizer.json` and `tokenizer_config.json`; the number of tokens.

    `kind`: "prefix" or "plain", SentencePiece with and without a space before a text, or the expression that
    a byte-level vocabulary cuts by. One added token is not special.
    """
    spm = kind in ("prefix", "plain")
    words, merges, pipeline = _sentence_pieces(kind) if spm else _byte_level(kind)
    words += ["".join(pair) for pair in merges]
    begin, end = ("<s>", "</s>") if spm else ("<|begin|>", "<|end|>")
    added = [*(["<unk>"] if spm else []), begin, end, "[tool]"]
    texts = [*added, *words] if spm else [*words, *added]
    ids = {text: number for number, text in enumerate(texts)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    first = {"SpecialToken": {"id": begin, "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [first, {"Sequence": {"id": "A", "type_id": 0}}]}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[text], "content": text, "special": text != "[tool]", **flags} for text in added
        ],
        "post_processor": {**template, "pair": [], "special_tokens": {}},
        **pipeline,
        "model": {
            "type": "BPE",
            "unk_token": "<unk>" if spm else None,
            "byte_fallback": spm,
            "fuse_unk": spm,
            "vocab": {text: number for text, number in ids.items() if spm or text not in added},
            "merges": [list(pair) if spm else " ".join(pair) for pair in merges],
        },
    }
    template_text = "{{ messages[0]['content'] }}"
    names = {"bos_token": {"content": begin}, "eos_token": end, "chat_template": template_text}
    if spm:
        names["unk_token"] = "<unk>"
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return len(texts)


Parts: TypeAlias = tuple[list[str], list[tuple[str, str]], dict[str, Any]]
"""Tokens that no merge makes, merges, and the steps before and after the model."""


def _sentence_pieces(kind: str) -> Parts:
    words = [f"<0x{byte:02X}>" for byte in range(256)] + [*"▁abcdehilnorstu"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("r", "e"), ("h", "e"), ("▁", "a"), ("e", "r")]
    steps: list[Any] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    if kind == "prefix":
        steps.insert(0, {"type": "Prepend", "prepend": "▁"})
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    normalizer = {"type": "Sequence", "normalizers": steps}
    return words, merges, {"normalizer": normalizer, "pre_tokenizer": None, "decoder": decoder}


def _byte_level(expression: str) -> Parts:
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "a"), ("1", "2")]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    pre = {"type": "Sequence", "pretokenizers": [split, level]}
    return sorted(byte_letters()), merges, {"normalizer": None, "pre_tokenizer": pre, "decoder": level}


def byte_letters() -> list[str]:
    """The letters by which byte-level vocabularies write bytes."""
    shown = [byte for byte in range(256) if re.match("[!-~¡-¬®-ÿ]", chr(byte))]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + number) for number in range(len(hidden))]
