"""A Llama-architecture decoder in JAX: RMSNorm, RoPE, SwiGLU, grouped-query attention, tied output matrix.

Weights are stored `[out, in]`, as GGUF lists them, in float32. RoPE turns the two halves of a head against
each other; `export.py` reorders the rows of Q and K for llama.cpp, which turns neighbouring pairs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = jax.Array
Params: TypeAlias = dict[str, Any]

VOCAB_SIZE = 2048
CONTEXT = 4096


@dataclass(frozen=True)
class Shape:
    """Sizes of one model. Widths are multiples of 64, so two ranks each hold whole blocks of 32."""

    n_embd: int
    n_layer: int
    n_head: int
    n_kv: int
    n_ff: int
    head: int = 64
    vocab: int = VOCAB_SIZE
    rope_theta: float = 500000.0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        """Raise `ValueError` for a width that cannot be split over two ranks into blocks of 32."""
        widths = (self.n_embd, self.n_ff, self.n_head * self.head, self.n_kv * self.head, self.vocab)
        if any(width % 64 for width in widths) or self.head % 32 or self.n_kv % 2 or self.n_head % self.n_kv:
            raise ValueError(f"shape does not split over two ranks: {asdict(self)}")


TARGET = Shape(n_embd=256, n_layer=5, n_head=4, n_kv=2, n_ff=512)
DRAFT = Shape(n_embd=128, n_layer=3, n_head=2, n_kv=2, n_ff=192)


def count(params: Params) -> int:
    """Count the weights."""
    return sum(int(leaf.size) for leaf in jax.tree_util.tree_leaves(params))


def rounded(a: Array, b: Array, over: tuple[int, int], batch: tuple[int, ...] = ()) -> Array:
    """Sum products of `a` and `b` over one axis of each, factors rounded to bfloat16, sums in float32.

    CPUs with matrix units (AMX) do it several times faster than in float32. `batch`: leading axes in common.
    """
    dims = (((over[0],), (over[1],)), (batch, batch))
    half = jnp.bfloat16
    out: Array = jax.lax.dot_general(a.astype(half), b.astype(half), dims, preferred_element_type=jnp.float32)
    return out


def _product(x: Array, weight: Array) -> Array:
    return rounded(x, weight, (x.ndim - 1, 1))


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, weight), (x, weight)


def _product_backward(kept: tuple[Array, Array], change: Array) -> tuple[Array, Array]:
    x, weight = kept
    rows = change.reshape(-1, weight.shape[0]), x.reshape(-1, weight.shape[1])
    return rounded(change, weight, (change.ndim - 1, 0)), rows[0].T @ rows[1]


product: Any = jax.custom_vjp(_product)
"""`x [..., in]` times `weight [out, in]`, transposed: `[..., out]`."""
product.defvjp(_product_forward, _product_backward)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """`x [..., n_embd]` scaled to root mean square 1, times `weight [n_embd]`."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rope_table(positions: Array, shape: Shape) -> tuple[Array, Array]:
    """Cosine and sine `[..., 1, head/2]` of the rotary angles at `positions [...]` (Su et al., 2021)."""
    frequency = shape.rope_theta ** (-jnp.arange(0, shape.head, 2) / shape.head)
    angle = positions[..., None, None].astype(jnp.float32) * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rope(x: Array, table: tuple[Array, Array]) -> Array:
    """Rotate `x [batch, time, heads, head]`, first half of each head against its second half."""
    cos, sin = table
    low, high = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def _between(a: Array, b: Array, over: tuple[int, int]) -> Array:
    return rounded(a, b, over, (0, 1))


def _weights(q: Array, k: Array, mask: Array) -> Array:
    """Attention weights `[batch, n_kv, group * queries, keys]`, see `look`."""
    batch, n_kv, group, queries, head = q.shape
    scores = _between(q.reshape(batch, n_kv, -1, head), k, (3, 3))
    scores = scores.reshape(batch, n_kv, group, queries, -1) + mask[:, None, None]
    return jax.nn.softmax(scores, axis=-1).reshape(batch, n_kv, group * queries, -1)


def _look(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return _between(_weights(q, k, mask), v, (3, 2)).reshape(q.shape)


def _look_forward(q: Array, k: Array, v: Array, mask: Array) -> tuple[Array, tuple[Array, ...]]:
    out = _look(q, k, v, mask)
    return out, (q, k, v, mask, out)


def _look_backward(kept: tuple[Array, ...], change: Array) -> tuple[Array, Array, Array, None]:
    q, k, v, mask, out = kept
    weights = _weights(q, k, mask)
    flat = change.reshape(*weights.shape[:3], -1)
    shared = (change * out).sum(axis=-1).reshape(*weights.shape[:3], 1)
    scores = weights * (_between(flat, v, (3, 3)) - shared)
    to_k, to_v = _between(scores, q.reshape(flat.shape), (2, 2)), _between(weights, flat, (2, 2))
    return _between(scores, k, (3, 2)).reshape(q.shape), to_k, to_v, None


look: Any = jax.custom_vjp(_look)
"""What queries gather: `q [batch, n_kv, group, queries, head]`, `k` and `v [batch, n_kv, keys, head]`.

`mask [batch, queries, keys]` is added to the scores. The weights are computed again for the gradient, as in
FlashAttention (Dao et al., 2022): to keep those of all layers in memory took longer."""
look.defvjp(_look_forward, _look_backward)
QUARTERS = 4
"""Parts of a row's queries; each looks at the keys up to its own end only."""


def attention(layer: Params, x: Array, table: tuple[Array, Array], mask: Array, shape: Shape) -> Array:
    """Attend causally over `x [batch, time, n_embd]`; `mask [batch, time, time]` is added to the scores."""
    batch, time, _ = x.shape
    group = shape.n_head // shape.n_kv
    q = rope(product(x, layer["q"]).reshape(batch, time, shape.n_head, shape.head), table) * shape.head**-0.5
    k = rope(product(x, layer["k"]).reshape(batch, time, shape.n_kv, shape.head), table)
    v = product(x, layer["v"]).reshape(batch, time, shape.n_kv, shape.head)
    q = q.reshape(batch, time, shape.n_kv, group, shape.head).transpose(0, 2, 3, 1, 4)
    k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    bounds = [time * part // QUARTERS for part in range(QUARTERS + 1)]
    parts = [look(q[..., a:b, :], k[:, :, :b], v[:, :, :b], mask[:, a:b, :b]) for a, b in pairwise(bounds)]
    out = jnp.concatenate(parts, axis=3).transpose(0, 3, 1, 2, 4)
    mixed: Array = product(out.reshape(batch, time, -1), layer["o"])
    return mixed


def hidden(params: Params, tokens: Array, segments: Array, shape: Shape) -> Array:
    """Compute the final normed states `[batch, time, n_embd]` of packed rows.

    `tokens [batch, time]` are ids; `segments [batch, time]` numbers the conversations of a row, which do
    not see each other. Position is the index in the row: rotary attention depends on distances only.
    """
    time = tokens.shape[1]
    visible = (segments[:, :, None] == segments[:, None, :]) & jnp.tri(time, dtype=bool)[None]
    mask = jnp.where(visible, 0.0, -1e9)
    table = rope_table(jnp.arange(time)[None], shape)

    def block(x: Array, layer: Params) -> tuple[Array, None]:
        x = x + attention(layer, rms_norm(x, layer["attn_norm"], shape.eps), table, mask, shape)
        h = rms_norm(x, layer["ffn_norm"], shape.eps)
        gated = jax.nn.silu(product(h, layer["gate"])) * product(h, layer["up"])
        return x + product(gated, layer["down"]), None

    x, _ = jax.lax.scan(block, params["embed"][tokens], params["layers"])
    return rms_norm(x, params["norm"], shape.eps)


def logits(params: Params, states: Array) -> Array:
    """Logits `[..., vocab]` of normed `states [..., n_embd]`."""
    out: Array = product(states, params["embed"])
    return out
