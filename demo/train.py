"""Trains target, draft and speculator together: `python -m demo.train`.

All see the same batches. The draft learns from the right answers and, with equal weight, from the
target's distribution over them, so that it comes to say what the target would say. The speculator guesses
from the target's last states, and through it the target learns to hold there what comes later (multi-
token prediction, Gloeckle et al., 2024). The schedule counts steps, not time, so that a slow machine
learns the same; a run that was interrupted goes on where its last checkpoint was written.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from demo import optim, speculator
from demo.data import Batch, Packer
from demo.export import export_pair, weights_of
from demo.model import DRAFT, TARGET, VOCAB_SIZE, Array, Params, Shape, hidden, logits
from demo.seeds import init
from demo.tokenizer import train as train_tokenizer

State: TypeAlias = dict[str, Any]
TIME, LONG = 512, 2560
CHECKPOINT_SECONDS = 300.0
GENTLY = 0.4
"""Learning rate of a run that begins with trained weights, against one from nothing."""
GUESSING = 0.3
"""Weight of the speculator's loss, which changes the target too."""


def fresh(seed: int, tokens: list[str], shipped: Path | None = None) -> State:
    """Weights to start from, untrained or those of the folders in `shipped`, and optimiser state."""
    rng = np.random.default_rng(seed)
    params: Params
    if shipped is None:
        params = {"target": init(TARGET, rng, tokens), "draft": init(DRAFT, rng, tokens)}
        params["speculator"] = speculator.fresh(rng, params["target"]["embed"])
    else:
        shapes = {"target": TARGET, "draft": DRAFT}
        params = {name: weights_of(shipped / name, shape) for name, shape in shapes.items()}
        params["speculator"] = speculator.weights_in(shipped / "speculator")
    return {"params": params, "moments": {name: optim.start(tree) for name, tree in params.items()}}


def scores(params: Params, batch: tuple[Array, ...], shape: Shape) -> tuple[Array, Array]:
    """States `[picks, n_embd]` and log-probabilities `[picks, vocab]` at the positions that count."""
    tokens, segments, index = batch[:3]
    states = hidden(params, tokens, segments, shape).reshape(-1, shape.n_embd)[index]
    return states, jax.nn.log_softmax(logits(params, states), axis=-1)


def losses(params: Params, batch: tuple[Array, ...]) -> tuple[Array, Array]:
    """Total loss, and what the progress bar shows, over the counted positions.

    That is `[target nats, target accuracy, draft nats, agreement, accuracy of stages 1 and 2]`.
    """
    labels, weight = batch[3:]
    total = jnp.maximum(weight.sum(), 1.0)
    states, target = scores(params["target"], batch, TARGET)
    _, draft = scores(params["draft"], batch, DRAFT)
    guessing, guessed = speculator.losses(params["speculator"], states, speculator.lesson(batch)[1:])
    nats = [
        -(jnp.take_along_axis(s, labels[:, None], axis=1)[:, 0] * weight).sum() / total
        for s in (target, draft)
    ]
    teacher = jax.lax.stop_gradient(target)
    distance = ((jnp.exp(teacher) * (teacher - draft)).sum(axis=-1) * weight).sum() / total
    best = target.argmax(axis=-1)
    hits = ((best == labels) * weight).sum() / total
    agree = ((best == draft.argmax(axis=-1)) * weight).sum() / total
    facts = jnp.stack([nats[0], hits, nats[1], agree, guessed[0], guessed[1]])
    return nats[0] + nats[1] + distance + GUESSING * guessing, facts


def update(state: State, batch: tuple[Array, ...], number: Array, rate: Array) -> tuple[State, Array]:
    """One training step of all models."""
    grads, facts = jax.grad(losses, has_aux=True)(state["params"], batch)
    params, moments = {}, {}
    for name in state["params"]:
        params[name], moments[name] = optim.step(
            state["params"][name], grads[name], state["moments"][name], number, rate
        )
    return {"params": params, "moments": moments}, facts


def rate_at(done: float, number: int) -> float:
    """Learning rate, relative: warm-up over 30 steps, flat, then a cosine down over the last 60 %."""
    return min(1.0, number / 30) * (
        1.0 if done < 0.4 else max(0.02, 0.5 + 0.5 * math.cos(math.pi * (done - 0.4) / 0.6))
    )


def choose(packer: Packer, done: float, number: int, args: argparse.Namespace) -> Batch:
    """Make the batch for this step: repetition at first, then conversations, now and then a long one."""
    if done > 0.6 and args.long_every and number % args.long_every == 0:
        return packer.batch(1, LONG)
    repeats = 0.05 if args.begin else max(0.1, 0.5 - done * 6)
    return packer.batch(args.rows, TIME, repeats=repeats)


def save(path: Path, state: State, number: int) -> None:
    """Write a checkpoint, then put it in place of the old one."""
    leaves = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(state)]
    named = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, number=np.int64(number), **named)
    partial.replace(path)


def load(path: Path, state: State) -> tuple[State, int]:
    """Read a checkpoint into the structure of `state`: the state and the number of steps."""
    with np.load(path) as stored:
        leaves = [jnp.asarray(stored[f"leaf{i}"]) for i in range(len(jax.tree_util.tree_leaves(state)))]
        structure = jax.tree_util.tree_structure(state)
        return jax.tree_util.tree_unflatten(structure, leaves), int(stored["number"])


def run(state: State, tokenizer: Tokenizer, args: argparse.Namespace) -> State:
    """Train until `args.steps` steps have been made, those of earlier runs included."""
    path: Path = args.work / "checkpoint.npz"
    compiled = jax.jit(update)
    begun = 0
    if path.exists():
        state, begun = load(path, state)
    packer = Packer(tokenizer, seed=args.seed * 1_000_003 + begun + 7, vocab=VOCAB_SIZE)
    saved = time.monotonic()
    smooth: np.ndarray[Any, Any] | None = None
    with tqdm(total=args.steps, initial=begun, unit="step", mininterval=10.0) as bar:
        for number in range(begun + 1, args.steps + 1):
            done = (number - 1) / args.steps
            batch = choose(packer, done, number, args)
            rate = rate_at(done, number) * (GENTLY if args.begin else 1.0)
            state, facts = compiled(state, batch.arrays(), np.float32(number), np.float32(rate))
            now = np.asarray(facts)
            smooth = now if smooth is None else 0.95 * smooth + 0.05 * now
            nats, hits, draft, agree, one, two = smooth
            bar.set_postfix_str(
                f"target {nats:.3f}/{hits:.3f} draft {draft:.3f} agree {agree:.3f} ahead {one:.3f} {two:.3f}",
                False,
            )
            bar.update()
            if time.monotonic() - saved > CHECKPOINT_SECONDS or number == args.steps:
                save(path, state, number)
                saved = time.monotonic()
    return state


def main() -> None:
    """Train the tokenizer if there is none, then the models, and write their folders."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="where target/ and draft/ are written"
    )
    parser.add_argument(
        "--work", type=Path, default=Path(__file__).parent / "work", help="tokenizer and checkpoint"
    )
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--rows", type=int, default=4, help=f"rows of {TIME} ids in a batch")
    parser.add_argument(
        "--long-every", type=int, default=40, help=f"steps from one row of {LONG} ids to the next; 0: none"
    )
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument(
        "--begin", type=Path, help="folder with target/, draft/ and speculator/ whose weights it begins with"
    )
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(args.work / "cache"))
    known = args.work / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(known)) if known.exists() else train_tokenizer(args.work)
    tokens = [tokenizer.id_to_token(i) for i in range(VOCAB_SIZE)]
    state = run(fresh(args.seed, tokens, args.begin), tokenizer, args)
    export_pair(state, args.work, args.out)
    speculator.export(state["params"]["speculator"], args.out / "speculator")


if __name__ == "__main__":
    main()
