"""From rows of logits to the tokens of one iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.sampling import Position, distribution, draw, log_prob, processed
from tensorrt_llm._fake.sequence import Sequence

LOWEST = -6e4
"""A best score below it means that nothing is allowed; float16 goes as low as -65504."""


class Sampler:
    """Draws for one sequence, and appends to it."""

    def __init__(self, sequence: Sequence, normalised: bool) -> None:
        self.sequence, self.normalised = sequence, normalised

    def step(self, rows: Any) -> None:
        """One token after no draft; after D drafted ones the accepted ones and, if all were, one more.

        `rows`: float, `[1 + D, vocabulary]`.
        """
        drafted = self.sequence.drafted
        for row, token in zip(rows, [*drafted, None], strict=True):
            if self.sequence.done or not self._position(row, token):
                break
        if drafted and not self.sequence.done:
            self.sequence.end(FinishReason.NOT_FINISHED)  # one step is all that a request with drafts gets

    def _position(self, row: Any, drafted: int | None) -> bool:
        """Whether the drafted token was the right one."""
        sequence, request = self.sequence, self.sequence.request
        scores = processed(row, request, Position(sequence.tokens, sequence.prompt))
        if float(np.max(scores)) < LOWEST or np.isnan(scores).any():
            sequence.fail("no token has a finite score")
            return False
        probabilities = distribution(scores, request.sampling_config)
        token, accepted = self._choose(probabilities, drafted)
        sequence.accepted += accepted
        if token == request.end_id:
            sequence.end(FinishReason.END_ID)  # the token itself is not part of the answer
            return False
        if request.output_config.return_generation_logits:
            sequence.logits.append(np.array(row))
        sequence.append(token, log_prob(scores, probabilities, token, self.normalised))
        return accepted

    def _choose(self, probabilities: Any, drafted: int | None) -> tuple[int, bool]:
        sequence, config = self.sequence, self.sequence.draft
        generator = sequence.generator
        if drafted is None or config is None or sequence.draft_probs is None:
            token = draw(probabilities, generator)
            return token, token == drafted
        draft = sequence.draft_probs[len(sequence.tokens) - sequence.prompt]
        threshold = config.acceptance_threshold
        bound = float(generator.random()) if threshold is None else threshold
        if probabilities[drafted] > bound * draft[drafted]:
            return drafted, True
        left = np.maximum(probabilities - draft, 0.0)
        rest = left / left.sum() if left.sum() > 0 else probabilities
        return draw(rest, generator), False
