"""A request that an executor works on."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from tensorrt_llm._fake.blocks import Block, Key, Usage
from tensorrt_llm._fake.checked import seconds
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.requests import ExternalDraftTokensConfig, Request, hidden


@dataclasses.dataclass
class Sequence:
    """Its tokens, and what has become of them so far."""

    id: int
    request: Request
    room: int
    """Tokens that it may generate."""
    hashes: list[int]
    """Of each prefix of `tokens`, as far as they were needed."""
    tokens: list[int] = dataclasses.field(default_factory=list)
    computed: int = 0
    """Tokens whose KV is there."""
    context: int = 0
    """Tokens that count as prompt: after a pause, the generated ones too."""
    blocks: list[Block] = dataclasses.field(default_factory=list)
    usage: Usage = dataclasses.field(default_factory=Usage)
    sent: int = 0
    """Generated tokens that responses have brought."""
    log_probs: list[float] = dataclasses.field(default_factory=list)
    logits: list[Any] = dataclasses.field(default_factory=list)
    """A row for each generated token, where the request wants them."""
    accepted: int = 0
    iterations: int = 0
    first: int | None = None
    """The iteration that worked on it first."""
    draft_probs: Any = None
    """Probabilities that its draft tokens were drawn from, where logits came along."""
    reason: FinishReason = FinishReason.NOT_FINISHED
    done: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        self.tokens = list(self.request.input_token_ids)
        self.context = len(self.tokens)
        self.arrived = time.monotonic()
        self.generator = np.random.default_rng(self.request.sampling_config.seed)

    @property
    def prompt(self) -> int:
        return len(self.request.input_token_ids)

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt

    @property
    def priority(self) -> float:
        found: float = hidden(self.request, "priority")
        return found

    @property
    def draft(self) -> ExternalDraftTokensConfig | None:
        return self.request.external_draft_tokens_config

    @property
    def drafted(self) -> list[int]:
        return list(self.draft.tokens) if self.draft else []

    @property
    def in_context(self) -> bool:
        return self.computed < self.context

    @property
    def is_late(self) -> bool:
        limit = self.request.allotted_time_ms
        return limit is not None and time.monotonic() - self.arrived > seconds(limit)

    def keys(self, tokens: int, block: int) -> list[Key]:
        """Keys of the full blocks among the first `tokens` tokens, whose hashes are there."""
        salt = getattr(self.request, "cache_salt_id", None)  # early releases have none
        return [(salt, self.hashes[end]) for end in range(block, tokens + 1, block)]

    def end(self, reason: FinishReason) -> None:
        self.reason, self.done = reason, True

    def fail(self, why: str) -> None:
        self.error, self.done = why, True

    def append(self, token: int, log_prob: float) -> None:
        """One more token; ends where a length or a stop word says so."""
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        answer = self.tokens[self.prompt :]
        stops = self.request.stop_words or []
        if any(words and answer[-len(words) :] == list(words) for words in stops):
            self.end(FinishReason.STOP_WORDS)
        elif self.generated >= self.room:
            self.end(FinishReason.LENGTH)
