"""Muon for the matrices of the layers, Adam for the embedding and the norms, both without weight decay."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from demo.model import rounded

Array: TypeAlias = jax.Array
Tree: TypeAlias = Any

BETA1, BETA2, EPS, MOMENTUM = 0.9, 0.98, 1e-8, 0.95


def is_matrix(path: tuple[Any, ...], leaf: Array) -> bool:
    """Whether Muon handles this leaf: the matrices inside the layers, stacked `[n_layer, out, in]`."""
    return leaf.ndim == 3 and str(path[0]) == "['layers']"


def start(params: Tree) -> Tree:
    """Zero moments for each leaf: `m` for both, `v` for Adam only."""
    return {
        "m": jax.tree_util.tree_map(np.zeros_like, params),
        "v": jax.tree_util.tree_map_with_path(
            lambda p, x: np.zeros_like(x[:1, 0, 0] if is_matrix(p, x) else x), params
        ),
    }


def orthogonalise(update: Array) -> Array:
    """Find the nearest semi-orthogonal matrices, roughly: five Newton-Schulz steps (Jordan, Muon, 2024)."""
    tall = update.shape[1] > update.shape[2]
    x = update.swapaxes(1, 2) if tall else update
    x = x / (jnp.linalg.norm(x, axis=(1, 2), keepdims=True) + 1e-7)

    def improve(_: int, x: Array) -> Array:
        gram = rounded(x, x, (2, 2), (0,))
        square = rounded(gram, gram, (2, 1), (0,))
        return 3.4445 * x + rounded(-4.7750 * gram + 2.0315 * square, x, (2, 1), (0,))

    x = jax.lax.fori_loop(0, 5, improve, x)
    return x.swapaxes(1, 2) if tall else x


def step(params: Tree, grads: Tree, state: Tree, count: Array, rate: Array) -> tuple[Tree, Tree]:
    """One update. `rate` scales both parts: 0.005 for Muon and 0.00075 for Adam at 1. `count` starts at 1."""

    def leaf(path: tuple[Any, ...], p: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if is_matrix(path, p):
            m = MOMENTUM * m + (1 - MOMENTUM) * g
            change = orthogonalise((1 - MOMENTUM) * g + MOMENTUM * m)
            scale = max(1.0, p.shape[1] / p.shape[2]) ** 0.5
            return p - 0.005 * rate * scale * change, m, v
        m = BETA1 * m + (1 - BETA1) * g
        v = BETA2 * v + (1 - BETA2) * g * g
        change = m / (1 - BETA1**count) / (jnp.sqrt(v / (1 - BETA2**count)) + EPS)
        return p - 0.00075 * rate * change, m, v

    done = jax.tree_util.tree_map_with_path(leaf, params, grads, state["m"], state["v"])

    def part(i: int) -> Tree:
        return jax.tree_util.tree_map(lambda triple: triple[i], done, is_leaf=lambda x: isinstance(x, tuple))

    return part(0), {"m": part(1), "v": part(2)}
