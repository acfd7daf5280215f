"""What the demo model was trained for: flat objects from short texts, unseen ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from client import Body
from work import Case, bound

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from demo.corpus import Writer, strict


@dataclass(frozen=True)
class Extractions(Case):
    """Answers of some twenty tokens that end by themselves; with a schema, each with its own."""

    @property
    def count(self) -> int:
        """Requests of a round: answers are short."""
        return max(16, 4 * self.clients)

    def bodies(self, seed: int) -> list[Body]:
        """The requests of a round: other texts for each seed."""
        streamed = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
        return [b | streamed for b in extractions(seed, self.count, self.schema is not None, 0.0)]


def extractions(seed: int, count: int, schema: bool, temperature: float) -> list[Body]:
    """Extractions of flat objects from new texts."""
    writer = Writer(Random(f"bench-{seed}"), unseen=True)
    bodies: list[Body] = []
    while len(bodies) < count:
        talk = writer.conversation(only="flat", most=1)
        wanted = talk.turns[0].schema
        if wanted is None:
            continue
        messages = [{"role": "user", "content": talk.turns[0].request}]
        if talk.system is not None:
            messages.insert(0, {"role": "system", "content": talk.system})
        body: Body = {
            "messages": messages,
            "max_tokens": 120,
            "temperature": temperature,
            "seed": 1,
        }
        bodies.append(bound(body, strict(wanted), "r") if schema else body)
    return bodies
