"""What is asked of a server, and what comes back: tokens by their ids, with the scores of the likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .servers import Running

TOPS = 10
"""Candidates whose scores are asked for at each token: enough to find the other server's among them."""


@dataclass(frozen=True)
class Answer:
    """A choice: its text, its tokens, and what each of them and its rivals scored."""

    text: str
    tokens: list[int]
    scores: list[float]
    rivals: list[dict[int, float]]
    finish: str
    usage: dict[str, Any]

    def same(self, other: Answer) -> bool:
        """Whether text and scores are the same to the last bit."""
        mine, theirs = ((a.text, a.tokens, a.scores, a.rivals, a.finish) for a in (self, other))
        return mine == theirs


@dataclass(frozen=True)
class Ours:
    """Our server, which names tokens by their texts."""

    server: Running
    ids: dict[str, int]

    def complete(self, prompt: list[int], count: int, **more: Any) -> Answer:
        """One choice; greedy and without drafts where `more` does not say otherwise."""
        return self.choices(prompt, count, **more)[0]

    def choices(self, prompt: list[int], count: int, **more: Any) -> list[Answer]:
        """All choices."""
        body: dict[str, Any] = {
            "prompt": prompt,
            "max_tokens": count,
            "temperature": 0,
            "logprobs": TOPS,
            "ignore_eos": True,
            "skip_special_tokens": False,
            "speculative": {"enabled": False},
        }
        found = self.server.post("/v1/completions", body | more)
        return [self.read(choice, found["usage"]) for choice in found["choices"]]

    def read(self, choice: dict[str, Any], usage: dict[str, Any]) -> Answer:
        """A choice as the API writes it."""
        scores = choice["logprobs"]
        return Answer(
            choice["text"],
            [self.ids[text] for text in scores["tokens"]],
            scores["token_logprobs"],
            [{self.ids[text]: score for text, score in each.items()} for each in scores["top_logprobs"]],
            choice["finish_reason"],
            usage,
        )


@dataclass(frozen=True)
class Peer:
    """llama-server."""

    server: Running

    def complete(self, prompt: list[int], count: int) -> Answer:
        """A greedy choice, from a prompt that is read anew."""
        body = {
            "prompt": prompt,
            "n_predict": count,
            "temperature": 0,
            "n_probs": TOPS,
            "ignore_eos": True,
            "return_tokens": True,
            "cache_prompt": False,
        }
        found = self.server.post("/completion", body)
        # None where the answer ended at once.
        each = found.get("completion_probabilities", [])
        return Answer(
            found["content"],
            found["tokens"],
            [token["logprob"] for token in each],
            [{top["id"]: top["logprob"] for top in token["top_logprobs"]} for token in each],
            found["stop_type"],
            {},
        )
