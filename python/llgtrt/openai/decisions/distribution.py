"""What is computed from the probabilities of a question's options.

The confidences are those of TypeSafe's API. That of a choice is the largest probability, scaled so that it is
0 where all options are equally likely. That of a score is one minus the mean distance from the likeliest
level, divided by the mean distance of equally likely levels from their middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def tempered(probabilities: Sequence[float], temperature: float) -> list[float]:
    """Probabilities whose logarithms are divided by the temperature, with the sum 1."""
    logs = [math.log(p) / temperature if p > 0 else -math.inf for p in probabilities]
    best = max(logs)
    weights = [math.exp(log - best) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def choice_confidence(probabilities: Sequence[float]) -> float:
    """From 0, all options are equally likely, to 1."""
    uniform = 1 / len(probabilities)
    return 1.0 if uniform == 1 else max(0.0, (max(probabilities) - uniform) / (1 - uniform))


def score_confidence(probabilities: Sequence[float]) -> float:
    """From 0, the levels are spread as widely as equally likely ones, to 1."""
    count = len(probabilities)
    best = max(range(count), key=lambda level: probabilities[level])
    distance = math.fsum(p * abs(level - best) for level, p in enumerate(probabilities))
    uniform = sum(abs(level - (count - 1) / 2) for level in range(count)) / count
    return max(0.0, 1 - distance / uniform)


def expected_level(probabilities: Sequence[float]) -> float:
    """The mean of the levels, weighted by their probabilities."""
    return math.fsum(level * p for level, p in enumerate(probabilities))
