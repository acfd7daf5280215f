"""Whether two answers are the same, or part where two candidates score almost the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from .asks import Answer, Ours, Peer

TIE = 0.02
"""Nats by which scores may differ where they are said to be up to near-ties.

A tenth of what is said of trained models: with random weights all tokens score alike, and even those behind
another prompt are no more than 0.04 away at times. What is right was never seen to differ by more than 0.001.
"""
FAR = 99.0
"""Distance of a candidate that is not among the likeliest of the other side."""


@dataclass
class Distance:
    """How far two servers are from each other over some tokens."""

    tokens: int = 0
    parted: int = 0
    gap: float = 0.0
    """The most by which the candidates of a place where they parted differ, on either side."""
    drift: float = 0.0
    """The most by which the score of the same candidate differs between the two."""
    where: list[str] = field(default_factory=list)

    @property
    def near(self) -> bool:
        """Whether all of it is near-ties."""
        return self.gap <= TIE and self.drift_is_near

    @property
    def drift_is_near(self) -> bool:
        """Whether the same candidates score the same, up to near-ties."""
        return self.drift <= TIE

    def add(self, mine: Answer, theirs: Answer) -> int:
        """Takes in two answers to a prompt up to where they part; gives back how many tokens are equal."""
        places = zip(mine.tokens, theirs.tokens, mine.rivals, theirs.rivals, strict=False)
        for index, (a, b, ours, other) in enumerate(places):
            shared = ours.keys() & other.keys()
            apart = max((abs(ours[key] - other[key]) for key in shared), default=FAR)
            self.drift = max(self.drift, apart)
            self.tokens += 1
            if a != b:
                gaps = [abs(side.get(a, -FAR) - side.get(b, -FAR)) for side in (ours, other)]
                self.parted += 1
                self.gap = max(self.gap, *gaps)
                self.where.append(
                    f"token {index}: {a} or {b}, {apart_by(gaps[0])} here and {apart_by(gaps[1])} there"
                )
                return index
        return min(len(mine.tokens), len(theirs.tokens))


def apart_by(nats: float) -> str:
    """A distance of scores in words."""
    return f"{nats:.4f} apart" if nats < FAR / 2 else "too far apart to say"


def follow(mine: Ours, theirs: Peer, prompt: list[int], count: int) -> Distance:
    """Compares `count` tokens: where the servers part, both go on behind what the other server wrote."""
    distance = Distance()
    written: list[int] = []
    while len(written) < count:
        left = count - len(written)
        answer = theirs.complete(prompt + written, left)
        equal = distance.add(mine.complete(prompt + written, left), answer)
        written += answer.tokens[: equal + 1]
        if not answer.tokens or distance.parted > 16 or not distance.near:
            break
    return distance
