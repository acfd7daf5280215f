"""From a row of logits to a token, in the order of TensorRT-LLM's decoder: bias, temperature, penalties,
bans, top-k, top-p, min-p. The generator is the fake's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorrt_llm._fake.requests import Request, SamplingConfig

_COLD = 1e-6
"""Added to temperatures, as the decoder does."""


@dataclasses.dataclass
class Position:
    """Where a token is drawn: all tokens before it, and how many of them were asked, not answered."""

    tokens: Sequence[int]
    prompt: int


def processed(row: Any, request: Request, position: Position) -> Any:
    """The row as it is drawn from; the caller's stays as it is."""
    config, row = request.sampling_config, row.astype(np.float32)
    if request.embedding_bias is not None:
        row += request.embedding_bias.cpu().numpy()[: len(row)]
    temperature = config.temperature
    if temperature is not None and temperature not in (0.0, 1.0):
        row /= np.float32(temperature + _COLD)
    _penalise(row, config, position)
    generated = len(position.tokens) - position.prompt
    if request.end_id is not None and generated < (config.min_tokens or 0):
        _ban(row, request.end_id)
    for words in request.bad_words or []:
        *head, last = words
        if not head or list(position.tokens[-len(head) :]) == head:
            _ban(row, last)
    return row


def _ban(row: Any, token: int) -> None:
    if 0 <= token < len(row):
        row[token] = -np.finfo(np.float32).max


def _penalise(row: Any, config: SamplingConfig, position: Position) -> None:
    penalties = (config.repetition_penalty, config.presence_penalty, config.frequency_penalty)
    if penalties == (None, None, None):
        return
    repetition, presence, frequency = penalties
    if repetition is not None:
        seen = np.unique(np.asarray(position.tokens))
        scale = np.float32(repetition)
        row[seen] = np.where(row[seen] < 0, row[seen] * scale, row[seen] / scale)
    counted = np.asarray(position.tokens[getattr(config, "prompt_ignore_length", None) or 0 :], np.int64)
    ids, counts = np.unique(counted, return_counts=True)
    if frequency is not None:
        row[ids] -= np.float32(frequency) * counts.astype(np.float32)
    if presence is not None:
        row[ids] -= np.float32(presence)


def is_greedy(config: SamplingConfig) -> bool:
    """Whether the best token is taken. That is also what no setting at all means."""
    nothing = (config.top_k or 0) == 0 and (config.top_p or 0.0) == 0.0
    return config.top_k == 1 or config.temperature == 0.0 or nothing


def distribution(row: Any, config: SamplingConfig) -> Any:
    """Probabilities of all tokens once top-k, top-p and min-p have cut; float64, of sum 1."""
    if is_greedy(config):
        return np.eye(len(row))[int(np.argmax(row))]
    probabilities = softmax(row)
    order = np.argsort(-probabilities, kind="stable")
    kept = len(row)
    if config.top_k:
        kept = min(kept, config.top_k)
    if config.top_p is not None and 0.0 < config.top_p < 1.0:
        cut = probabilities[order[:kept]]
        mass = np.cumsum(cut / cut.sum())
        kept = min(kept, int(np.searchsorted(mass, config.top_p)) + 1)
    probabilities[order[kept:]] = 0.0
    if config.min_p:
        probabilities[probabilities < config.min_p * probabilities.max()] = 0.0
    return probabilities / probabilities.sum()


def softmax(row: Any) -> Any:
    """Probabilities of a row, in float64."""
    exponents = np.exp(row.astype(np.float64) - float(np.max(row)))
    return exponents / exponents.sum()


def draw(probabilities: Any, generator: np.random.Generator) -> int:
    """A token. What has all probability costs no number."""
    best = int(np.argmax(probabilities))
    if probabilities[best] == 1.0:
        return best
    return int(generator.choice(len(probabilities), p=probabilities))


def log_prob(row: Any, probabilities: Any, token: int, normalised: bool) -> float:
    """A token's logarithm of probability: among those that could come (`normalised`), else among all."""
    among = probabilities if normalised else softmax(row)
    return float(np.log(max(among[token], 1e-300)))
