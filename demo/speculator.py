"""Trains an MLP speculator for the demo target: `python -m demo.speculator --steps 3000`.

The architecture is IBM's accelerator (Wertheimer et al., "Accelerating Production LLMs with Combined
Token/Embedding Speculators", 2024; `MLPSpeculatorPreTrainedModel`). From the target's last state and the
token that the target drew, stage 1 guesses the token after that one, stage 2 the next, and so on.
`demo.train` trains it with the target; this command goes on for a target that stays as it is, towards the
target's greedy choices. Agreement is measured on the unseen half.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tqdm import tqdm

from demo import optim
from demo.data import Packer
from demo.export import weights_of
from demo.model import TARGET, VOCAB_SIZE, Array, Params, hidden, logits, product

ROWS, TIME = 4, 512
EPS = 1e-6
NAMES = {
    "emb": "emb.0.weight",
    "first": "proj.0.weight",
    "rest": "proj.1.weight",
    "head": "head.0.weight",
    "scale": "ln.0.weight",
    "shift": "ln.0.bias",
}
"""Published names of the weights; those of later stages are tied to them and left out."""


@dataclass(frozen=True)
class Sizes:
    """What `config.json` says of a speculator, under its published names."""

    n_predict: int = 3
    emb_dim: int = TARGET.n_embd
    inner_dim: int = 256
    vocab_size: int = VOCAB_SIZE
    tie_weights: bool = True
    scale_input: bool = True

    @property
    def emb_weight(self) -> float:
        """Weight of the token's embedding beside the state, relative to the state's."""
        state: float = 0.5 ** (0.5 / self.n_predict)
        return math.sqrt((1 - state**2) * (self.inner_dim / 2)) / state


SIZES = Sizes()


def fresh(rng: np.random.Generator, embed: Array) -> Params:
    """Tied weights to start from: the target's own embedding, and random projections."""

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(0, SIZES.inner_dim**-0.5, shape).astype(np.float32)

    return {
        "emb": np.asarray(embed) / SIZES.emb_weight,
        "first": normal(SIZES.inner_dim, SIZES.emb_dim),
        "rest": normal(SIZES.inner_dim, SIZES.inner_dim),
        "head": np.asarray(embed),
        "scale": np.ones(SIZES.inner_dim, np.float32),
        "shift": np.zeros(SIZES.inner_dim, np.float32),
    }


def norm(x: Array) -> Array:
    """`x [..., dim]` scaled to root mean square 1."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS)


def guesses(params: Params, states: Array, tokens: Array) -> Array:
    """Logits `[stages, picks, vocab]` after `states [picks, emb_dim]` and `tokens [stages, picks]`."""
    state = norm(states) / math.sqrt(2.0)
    out = []
    for stage in range(SIZES.n_predict):
        state = product(state, params["first"] if stage == 0 else params["rest"])
        state = state + SIZES.emb_weight * params["emb"][tokens[stage]]
        state = jax.nn.gelu(norm(state) * params["scale"] + params["shift"], approximate=False)
        out.append(product(state, params["head"]))
    return jnp.stack(out)


def lesson(batch: tuple[Array, ...]) -> tuple[Array, Array, Array, Array]:
    """Look ahead of the positions that count: each result is `[stages, picks]`.

    The flat positions whose next token a stage guesses, the token there, the token to guess, and 1 where the
    stage counts: where all tokens up to the one that it guesses belong to one answer.
    """
    tokens, segments, index, _, weight = batch
    room = SIZES.n_predict + 1
    flat, places = (jnp.pad(part.reshape(-1), (0, room)) for part in (tokens, segments))
    counts = jnp.zeros(flat.shape[0]).at[index].max(weight)
    ahead = jnp.stack([index + stage for stage in range(1, room)])
    within = counts[ahead] * (places[ahead] == places[index])
    return ahead, flat[ahead], flat[ahead + 1], weight * jnp.cumprod(within, axis=0)


def losses(params: Params, states: Array, taught: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """Mean nats of the stages, and the share of right guesses of each, after `states [picks, emb_dim]`.

    `taught`: tokens, tokens to guess and weights as `lesson` gives them.
    """
    tokens, labels, weights = taught
    total = jnp.maximum(weights.sum(axis=1), 1.0)
    said = jax.nn.log_softmax(guesses(params, states, tokens), axis=-1)
    nats = -jnp.take_along_axis(said, labels[..., None], axis=-1)[..., 0]
    right = (said.argmax(axis=-1) == labels) * weights
    return ((nats * weights).sum(axis=1) / total).mean(), right.sum(axis=1) / total


def agreement(params: Params, target: Params, batch: tuple[Array, ...]) -> tuple[Array, Array]:
    """Losses as above, where the tokens to guess are the target's own greedy choices."""
    states = hidden(target, batch[0], batch[1], TARGET).reshape(-1, TARGET.n_embd)
    ahead, tokens, _, weights = lesson(batch)
    last = states.shape[0] - 1
    labels = logits(target, states[jnp.minimum(ahead, last)]).argmax(axis=-1)
    return losses(params, states[batch[2]], (tokens, labels, weights))


def update(
    params: Params, moments: Params, target: Params, batch: tuple[Array, ...], number: Array, rate: Array
) -> tuple[Params, Params, Array]:
    """One step for a target that stays as it is: weights, moments, shares of right guesses."""
    grads, shares = jax.grad(agreement, has_aux=True)(params, target, batch)
    params, moments = optim.step(params, grads, moments, number, rate)
    return params, moments, shares


def measure(params: Params, target: Params, tokenizer: Tokenizer, batches: int) -> list[float]:
    """Greedy agreement with the target per stage, on the unseen half."""
    packer = Packer(tokenizer, seed=77, vocab=VOCAB_SIZE, unseen=True)
    compiled = jax.jit(lambda p, t, b: agreement(p, t, b)[1])
    got = [np.asarray(compiled(params, target, packer.batch(ROWS, TIME).arrays())) for _ in range(batches)]
    return [float(share) for share in np.mean(got, axis=0)]


def export(params: Params, folder: Path) -> None:
    """Write `config.json` and `model.safetensors` (16-bit floats) with the published names."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"speculator.{name}": np.asarray(params[leaf]) for leaf, name in NAMES.items()}
    halves = {name: np.ascontiguousarray(value, np.float16) for name, value in named.items()}
    save_file(halves, str(folder / "model.safetensors"))
    facts = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        **asdict(SIZES),
    }
    (folder / "config.json").write_text(json.dumps(facts, indent=2) + "\n")


def weights_in(folder: Path) -> Params:
    """Read a folder that `export` wrote."""
    stored = load_file(str(folder / "model.safetensors"))
    return {leaf: stored[f"speculator.{name}"].astype(np.float32) for leaf, name in NAMES.items()}


def train(params: Params, target: Params, tokenizer: Tokenizer, args: argparse.Namespace) -> Params:
    """Go on from `params` for `args.steps` steps."""
    moments = optim.start(params)
    packer = Packer(tokenizer, seed=args.seed * 1_000_003 + 5, vocab=VOCAB_SIZE)
    compiled = jax.jit(update)
    smooth: np.ndarray[Any, Any] | None = None
    with tqdm(total=args.steps, unit="step", mininterval=10.0) as bar:
        for number in range(1, args.steps + 1):
            rate = min(1.0, number / 50) * (0.5 + 0.5 * math.cos(math.pi * number / args.steps))
            batch = packer.batch(ROWS, TIME).arrays()
            params, moments, shares = compiled(
                params, moments, target, batch, np.float32(number), np.float32(rate)
            )
            smooth = np.asarray(shares) if smooth is None else 0.97 * smooth + 0.03 * np.asarray(shares)
            bar.set_postfix_str(" ".join(f"{share:.3f}" for share in smooth), False)
            bar.update()
    return params


def main() -> None:
    """Train, measure on the unseen half, write the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__).parent
    parser.add_argument("--target", type=Path, default=here / "target", help="folder of the target")
    parser.add_argument("--out", type=Path, default=here / "speculator", help="folder to write")
    parser.add_argument("--begin", type=Path, help="folder whose weights it begins with; none: from scratch")
    parser.add_argument("--steps", type=int, default=3000, help="0: only measure")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    target = weights_of(args.target, TARGET)
    tokenizer = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    rng = np.random.default_rng(args.seed)
    params = weights_in(args.begin) if args.begin else fresh(rng, target["embed"])
    if args.steps:
        params = train(params, target, tokenizer, args)
        export(params, args.out)
    shares = measure(params, target, tokenizer, 60)
    print("agrees with the target, unseen half:", ", ".join(f"{share:.1%}" for share in shares))


if __name__ == "__main__":
    main()
