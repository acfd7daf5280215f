"""Reads a `model.gguf` back and runs it in NumPy: a second implementation, independent of the trainer.

Rotary pairs are neighbours here, as in llama.cpp, so a wrong row order at export shows up as wrong answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Sizes:
    """What the metadata says about a model."""

    n_layer: int
    n_head: int
    n_kv: int
    head: int
    theta: float
    eps: float


class Model:
    """The weights of one GGUF file, dequantised, keyed by tensor name."""

    def __init__(self, path: Path) -> None:
        """Read `path`; raises `KeyError` if a metadata key is missing."""
        reader = gguf.GGUFReader(str(path))
        fields = {name.removeprefix("llama."): field for name, field in reader.fields.items()}

        def read(name: str) -> Any:
            return fields[name].contents()

        self.sizes = Sizes(
            read("block_count"),
            read("attention.head_count"),
            read("attention.head_count_kv"),
            read("attention.key_length"),
            read("rope.freq_base"),
            read("attention.layer_norm_rms_epsilon"),
        )
        self.weights: dict[str, Floats] = {
            tensor.name: np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            for tensor in reader.tensors
        }


class Session:
    """One sequence: keys and values of what has been read so far."""

    def __init__(self, model: Model) -> None:
        """Start empty."""
        self.model = model
        sizes = model.sizes
        empty = np.zeros((sizes.n_kv, 0, sizes.head), np.float32)
        self.past: list[tuple[Floats, Floats]] = [(empty, empty)] * sizes.n_layer
        self.length = 0

    def read(self, tokens: list[int]) -> Floats:
        """Append `tokens`; logits `[len(tokens), vocab]`."""
        w, sizes = self.model.weights, self.model.sizes
        positions = np.arange(self.length, self.length + len(tokens))
        angle = positions[:, None] * sizes.theta ** (-np.arange(0, sizes.head, 2) / sizes.head)
        turn = (np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32))
        x = w["token_embd.weight"][tokens]
        for number in range(sizes.n_layer):
            x = x + self._attend(number, _norm(x, w[f"blk.{number}.attn_norm.weight"], sizes.eps), turn)
            h = _norm(x, w[f"blk.{number}.ffn_norm.weight"], sizes.eps)
            gate = h @ w[f"blk.{number}.ffn_gate.weight"].T
            up = h @ w[f"blk.{number}.ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"blk.{number}.ffn_down.weight"].T
        self.length += len(tokens)
        out: Floats = _norm(x, w["output_norm.weight"], sizes.eps) @ w["token_embd.weight"].T
        return out

    def keep(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self.past = [(k[:, :length], v[:, :length]) for k, v in self.past]
        self.length = length

    def _attend(self, number: int, x: Floats, turn: tuple[Floats, Floats]) -> Floats:
        w, sizes, time = self.model.weights, self.model.sizes, len(x)

        def heads(name: str) -> Floats:
            flat = x @ w[f"blk.{number}.attn_{name}.weight"].T
            return flat.reshape(time, -1, sizes.head).transpose(1, 0, 2)

        q, k, v = _rotate(heads("q"), turn), _rotate(heads("k"), turn), heads("v")
        k = np.concatenate([self.past[number][0], k], axis=1)
        v = np.concatenate([self.past[number][1], v], axis=1)
        self.past[number] = (k, v)
        group = sizes.n_head // sizes.n_kv
        scores = q @ np.repeat(k, group, axis=0).transpose(0, 2, 1) / np.sqrt(sizes.head)
        hidden = np.triu(np.full((time, k.shape[1]), -np.inf, np.float32), k=k.shape[1] - time + 1)
        scores = np.exp(scores + hidden - scores.max(axis=-1, keepdims=True))
        weights = scores / scores.sum(axis=-1, keepdims=True)
        out = (weights @ np.repeat(v, group, axis=0)).transpose(1, 0, 2).reshape(time, -1)
        result: Floats = (out @ w[f"blk.{number}.attn_output.weight"].T).astype(np.float32)
        return result


def _norm(x: Floats, weight: Floats, eps: float) -> Floats:
    out: Floats = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(eps)) * weight
    return out


def _rotate(x: Floats, turn: tuple[Floats, Floats]) -> Floats:
    """Rotate neighbouring pairs of `x [heads, time, head]`."""
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * turn[0] - odd * turn[1]
    out[..., 1::2] = odd * turn[0] + even * turn[1]
    return out
