"""The weights that training starts from: random, but with circuits for copying and for looking up laid out.

Copying heads otherwise take a large part of so short a training to appear. In the spirit of mimetic
initialisation (Trockman and Kolter, 2023); the circuit is the induction head of Olsson et al., 2022.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from demo.model import Shape

Floats: TypeAlias = NDArray[np.float32]


def init(shape: Shape, rng: np.random.Generator, tokens: list[str]) -> dict[str, Any]:
    """Make float32 weights: normal with deviation 1/sqrt(fan-in); what a block adds starts at zero.

    The weights of a kind are stacked over the layers, `[n_layer, out, in]`. `tokens` are the texts by id,
    in the printable form of byte-level BPE.
    """
    q_width, kv_width = shape.n_head * shape.head, shape.n_kv * shape.head
    sizes = {
        "q": (q_width, shape.n_embd),
        "k": (kv_width, shape.n_embd),
        "v": (kv_width, shape.n_embd),
        "o": (shape.n_embd, q_width),
        "gate": (shape.n_ff, shape.n_embd),
        "up": (shape.n_ff, shape.n_embd),
        "down": (shape.n_embd, shape.n_ff),
    }
    norms = ("attn_norm", "ffn_norm")
    layers: dict[str, Floats] = {name: np.ones((shape.n_layer, shape.n_embd), np.float32) for name in norms}
    for name, size in sizes.items():
        scale = 0.0 if name in ("o", "down") else size[1] ** -0.5
        layers[name] = (rng.standard_normal((shape.n_layer, *size)) * scale).astype(np.float32)
    embed = (rng.standard_normal((shape.vocab, shape.n_embd)) * shape.n_embd**-0.5).astype(np.float32)
    tie_variants(embed, tokens)
    embed[:, 0] = 0.5
    lay_circuits(layers, shape, rng)
    return {"embed": embed, "norm": np.ones(shape.n_embd, np.float32), "layers": layers}


def tie_variants(embed: Floats, tokens: list[str]) -> None:
    """Let a word with a space before it, and one with a capital, begin near the plain word (cosine 0.8)."""
    ids = {token: number for number, token in enumerate(tokens)}
    for number, token in enumerate(tokens):
        plain = ids.get(token.removeprefix("\u0120").lower())
        if plain is not None and plain != number and len(token) > 2:
            embed[number] = 0.8 * embed[plain] + 0.6 * embed[number]


def kernel(shape: Shape, distance: float, first: int, strength: float) -> Floats:
    """Make a query that looks `distance` tokens back, the more sharply the lower `first` is.

    It meets keys that are 1 in the first half of the head: the score at distance d is the sum of
    `strength * cos(angle * (d - distance))` over the rotary pairs from `first` to `head / 8`.
    """
    half = np.arange(shape.head // 2)
    angle = shape.rope_theta ** (-2 * half / shape.head) * distance
    used = ((half >= first) & (half < shape.head // 8)) * strength
    return np.concatenate([np.cos(angle) * used, -np.sin(angle) * used]).astype(np.float32)


def lay_circuits(layers: dict[str, Floats], shape: Shape, rng: np.random.Generator) -> None:
    """Write the circuits into layers 0 and 1. The first entry of every embedding must be the same.

    Layer 0: the heads of the first key head see the previous token, those of the second a blend of about
    five tokens before. Layer 1: the first go to places whose previous token is the present one, the second
    to places with a like blend before them, but not to the nearest; both copy what stands there. Only slow
    rotary pairs match, so that distance hardly matters.
    """
    head, group, wide = shape.head, shape.n_head // shape.n_kv, shape.n_embd
    half = np.arange(head // 2)
    scale = (256 / wide) ** 0.5
    slow = np.tile(half >= head // 4, 2)[:, None] * scale**0.5
    here = np.concatenate([(half < head // 8) * 1.1, half * 0]) * scale
    looks = (kernel(shape, 1.0, 0, 1.1 * scale), kernel(shape, 3.5, 2, 0.3 * scale))
    for kv in range(2):
        see, write, copy = (np.linalg.qr(rng.standard_normal((wide, head)))[0].T for _ in range(3))
        see[:, 0] = copy[:, 0] = write[:, 0] = 0.0
        rows = slice(kv * head, (kv + 1) * head)
        layers["k"][0, rows] *= 0.1
        layers["k"][0, rows, 0] = here
        layers["k"][1, rows] = slow * write * (2.0, 4.0)[kv]
        layers["k"][1, rows, 0] = here * kv
        layers["v"][0, rows], layers["v"][1, rows] = see, copy
        for number in range(kv * group, (kv + 1) * group):
            part = slice(number * head, (number + 1) * head)
            layers["q"][0, part] *= 0.1
            layers["q"][0, part, 0] = looks[kv]
            layers["q"][1, part] = slow * (see * 2.0 if kv == 0 else write * 4.0)
            layers["q"][1, part, 0] = -kernel(shape, 0.0, 3, 0.9 * scale) * kv
            layers["o"][0, :, part] = write.T * (0.06, 0.1)[kv] / group
            layers["o"][1, :, part] = copy.T * 0.25 / group
