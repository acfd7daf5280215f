"""A forward pass in NumPy, F32, on the tensors of a Hugging Face folder as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


def logprobs(config: Mapping[str, Any], weights: Mapping[str, Floats], tokens: list[int]) -> Floats:
    """Natural logarithms of the probabilities after each token, `[tokens, vocabulary]`."""
    gemma = config["architectures"][0].startswith("Gemma")
    embedding = weights["model.embed_tokens.weight"]
    x = embedding[tokens].astype(np.float32)
    if gemma:
        x *= np.float32(math.sqrt(config["hidden_size"]))
    for number in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{number}."
        layer = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        attended = _attention(config, layer, number, _norm(config, x, layer["input_layernorm.weight"]))
        four = "pre_feedforward_layernorm.weight" in layer
        if four:
            attended = _norm(config, attended, layer["post_attention_layernorm.weight"])
        x = x + attended
        before = "pre_feedforward_layernorm.weight" if four else "post_attention_layernorm.weight"
        grown = _feed_forward(layer, _norm(config, x, layer[before]), gemma)
        if four:
            grown = _norm(config, grown, layer["post_feedforward_layernorm.weight"])
        x = x + grown
    x = _norm(config, x, weights["model.norm.weight"])
    logits = x @ (embedding if config["tie_word_embeddings"] else weights["lm_head.weight"]).T
    cap = config.get("final_logit_softcapping")
    if cap:
        logits = cap * np.tanh(logits / cap)
    top = logits.max(axis=-1, keepdims=True)
    result: Floats = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return result


def _norm(config: Mapping[str, Any], x: Floats, weight: Floats) -> Floats:
    scaled = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + config["rms_norm_eps"])
    gemma = config["architectures"][0].startswith("Gemma")
    result: Floats = scaled * (1 + weight if gemma else weight)
    return result


def _feed_forward(layer: Mapping[str, Floats], x: Floats, gelu: bool) -> Floats:
    gate = x @ layer["mlp.gate_proj.weight"].T + layer.get("mlp.gate_proj.bias", 0)
    up = x @ layer["mlp.up_proj.weight"].T + layer.get("mlp.up_proj.bias", 0)
    if gelu:
        gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    else:
        gate = gate / (1 + np.exp(-gate))
    result: Floats = (gate * up) @ layer["mlp.down_proj.weight"].T + layer.get("mlp.down_proj.bias", 0)
    return result


def _attention(config: Mapping[str, Any], layer: Mapping[str, Floats], number: int, x: Floats) -> Floats:
    heads, kv, head = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    count = len(x)

    def part(name: str, n: int) -> Floats:
        made = x @ layer[f"self_attn.{name}_proj.weight"].T + layer.get(f"self_attn.{name}_proj.bias", 0)
        result: Floats = made.reshape(count, n, head).swapaxes(0, 1)
        return result

    q, k, v = part("q", heads), part("k", kv), part("v", kv)
    if "self_attn.q_norm.weight" in layer:
        q, k = (
            _norm(config, q, layer["self_attn.q_norm.weight"]),
            _norm(config, k, layer["self_attn.k_norm.weight"]),
        )
    windowed = config.get("layer_types", ["full_attention"] * (number + 1))[number] == "sliding_attention"
    turn = _turns(config, count, windowed)
    q, k = _turned(q, *turn), _turned(k, *turn)
    k, v = np.repeat(k, heads // kv, axis=0), np.repeat(v, heads // kv, axis=0)
    scores: Floats = q @ k.swapaxes(1, 2) / math.sqrt(config.get("query_pre_attn_scalar", head))
    cap = config.get("attn_logit_softcapping")
    if cap:
        scores = cap * np.tanh(scores / cap)
    back = np.arange(count)[:, None] - np.arange(count)[None, :]
    seen = (back >= 0) & (back < (config["sliding_window"] if windowed else count))
    scores = np.where(seen, scores, np.float32(-np.inf))
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (odds / odds.sum(axis=-1, keepdims=True)) @ v
    joined = mixed.swapaxes(0, 1).reshape(count, heads * head)
    result: Floats = joined @ layer["self_attn.o_proj.weight"].T + layer.get("self_attn.o_proj.bias", 0)
    return result


def _turned(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Rotates: the first half of a head's values is paired with the second."""
    first, second = np.split(x, 2, axis=-1)
    turned = x * cos + np.concatenate([-second, first], axis=-1) * sin
    return turned.astype(np.float32)


def _turns(config: Mapping[str, Any], count: int, windowed: bool) -> tuple[Floats, Floats]:
    """Cosines and sines `[tokens, head]`."""
    head, rope = config["head_dim"], config.get("rope_scaling") or {}
    theta = (
        config["rope_local_base_freq"]
        if windowed and "rope_local_base_freq" in config
        else config["rope_theta"]
    )
    rate = theta ** -(np.arange(0, head, 2) / head)
    scale = 1.0
    kind = None if windowed else rope.get("rope_type")
    if kind == "linear":
        rate = rate / rope["factor"]
    if kind == "llama3":
        rate = np.array([_llama3(one, rope) for one in rate])
    if kind == "yarn":
        original = rope["original_max_position_embeddings"]

        def dimension(turns: float) -> float:
            return float(head * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta)))

        low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), head - 1)
        ramp = np.clip((np.arange(head // 2) - low) / max(high - low, 0.001), 0, 1)
        rate = rate / rope["factor"] * ramp + rate * (1 - ramp)
        scale = rope.get("attention_factor") or 0.1 * math.log(rope["factor"]) + 1
    angles = np.arange(count)[:, None] * np.concatenate([rate, rate])[None, :]
    return (np.cos(angles) * scale).astype(np.float32), (np.sin(angles) * scale).astype(np.float32)


def _llama3(rate: float, rope: Mapping[str, Any]) -> float:
    wave, original = 2 * math.pi / rate, rope["original_max_position_embeddings"]
    if wave < original / rope["high_freq_factor"]:
        return float(rate)
    if wave > original / rope["low_freq_factor"]:
        return float(rate / rope["factor"])
    smooth = (original / wave - rope["low_freq_factor"]) / (
        rope["high_freq_factor"] - rope["low_freq_factor"]
    )
    return float((1 - smooth) * rate / rope["factor"] + smooth * rate)
