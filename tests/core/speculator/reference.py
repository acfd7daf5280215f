"""What the core's MLP speculator is compared with: plain NumPy on random weights.

`python tests/core/speculator/reference.py` writes one folder per case beside this file: `config.json` and
`model.safetensors` as published models have them, and `expected.json` with states `[n][emb_dim]`, tokens
`[stages][n]` and logits `[stages][n][ids]`. Wants `numpy` and `safetensors`. States are as wide as the
weightless engine's, and ids as many, so that tests can serve it with them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Floats: TypeAlias = NDArray[np.float64]

STAGES, EMB_DIM, INNER, IDS, SEQUENCES = 3, 8, 12, 260, 2


def norm(x: Floats) -> Floats:
    """Divide each row by the root of its mean square."""
    result: Floats = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return result


def gelu(x: Floats) -> Floats:
    """Multiply by the normal distribution's integral."""
    result: Floats = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return result


def forward(
    weights: dict[str, Any], scale_input: bool, state: Floats, tokens: list[list[int]]
) -> list[Floats]:
    """Logits of each stage."""
    state_weight = 0.5 ** (0.5 / STAGES)
    emb_weight = math.sqrt((1 - state_weight**2) * (INNER / 2))
    if scale_input:
        state = norm(state) / math.sqrt(2)
    rows = []
    for stage in range(STAGES):
        part = {name: weights[f"speculator.{name.format(stage)}"].astype(np.float64) for name in names()}
        state = state @ part["proj.{}.weight"].T
        state = state + emb_weight / state_weight * part["emb.{}.weight"][tokens[stage]]
        state = gelu(norm(state) * part["ln.{}.weight"] + part["ln.{}.bias"])
        rows.append(state @ part["head.{}.weight"].T)
    return rows


def names() -> list[str]:
    """Names of a stage's weights."""
    return ["emb.{}.weight", "proj.{}.weight", "head.{}.weight", "ln.{}.weight", "ln.{}.bias"]


def random_weights(rng: np.random.Generator, tied: bool) -> dict[str, Any]:
    """Weights of all stages by their published names; tied ones are equal."""
    shapes = {"emb": (IDS, INNER), "head": (IDS, INNER), "ln": (INNER,)}
    weights: dict[str, Any] = {}
    for stage in range(STAGES):
        for name in names():
            kind = name.split(".")[0]
            shape = shapes.get(kind, (INNER, INNER if stage else EMB_DIM))
            first = 1 if kind == "proj" else 0
            if tied and stage > first:
                weights[f"speculator.{name.format(stage)}"] = weights[f"speculator.{name.format(first)}"]
                continue
            weights[f"speculator.{name.format(stage)}"] = rng.normal(0, 0.5, shape).astype(np.float16)
    return weights


def main() -> None:
    """Write the four cases."""
    rng = np.random.default_rng(5)
    for tied in (True, False):
        for scale_input in (True, False):
            name = f"{'tied' if tied else 'untied'}-{'scaled' if scale_input else 'plain'}"
            folder = Path(__file__).parent / name
            folder.mkdir(exist_ok=True)
            weights = random_weights(rng, tied)
            state = rng.normal(0, 2, (SEQUENCES, EMB_DIM))
            tokens = rng.integers(0, IDS, (STAGES, SEQUENCES)).tolist()
            rows = forward(weights, scale_input, state, tokens)
            kept = weights
            if tied:
                kept = {key: value for key, value in weights.items() if ".2." not in key}
                kept = {key: value for key, value in kept.items() if ".1." not in key or ".proj." in key}
            save_file(kept, str(folder / "model.safetensors"))
            config = {
                "architectures": ["MLPSpeculatorPreTrainedModel"],
                "model_type": "mlp_speculator",
                "n_predict": STAGES,
                "emb_dim": EMB_DIM,
                "inner_dim": INNER,
                "vocab_size": IDS,
                "tie_weights": tied,
                "scale_input": scale_input,
            }
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
            expected = {
                "states": state.round(6).tolist(),
                "tokens": tokens,
                "logits": [row.round(4).tolist() for row in rows],
            }
            (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
