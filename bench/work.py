"""The requests that measurements send: made-up prompts, free or with one of three schemas."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from client import Body

WORDS = [
    *("harbour", "lantern", "seven", "Petra", "Oldwick", "green", "miles", "pilot", "engine", "Marrow"),
    *("Tomas", "nurse", "bread", "winter", "table", "river", "stone", "cloud", "paper", "window"),
]
TEXT = {"type": "string", "maxLength": 40}


def strict(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    # What most clients ask for: a few fields of text and numbers.
    "flat": strict(
        {
            "name": TEXT,
            "city": TEXT,
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "known": {"type": "boolean"},
        }
    ),
    # Objects in an array: long keys that need no choice, beside free texts.
    "nested": strict(
        {
            "name": TEXT,
            "kind": {"enum": ["red", "green", "blue-ish", "none of these"]},
            "tags": {
                "type": "array",
                "items": {"type": "string", "maxLength": 20},
                "minItems": 4,
                "maxItems": 8,
            },
            "items": {
                "type": "array",
                "minItems": 3,
                "maxItems": 6,
                "items": strict(
                    {"sku": TEXT, "quantity": {"type": "integer", "minimum": 0, "maximum": 9999}}
                ),
            },
        }
    ),
    # Choices between objects, as of tool calls, and texts with a pattern.
    "choice": strict(
        {
            "calls": {
                "type": "array",
                "minItems": 2,
                "maxItems": 4,
                "items": {
                    "anyOf": [
                        strict({"tool": {"const": "search"}, "query": TEXT, "limit": {"type": "integer"}}),
                        strict(
                            {
                                "tool": {"const": "book"},
                                "day": {"type": "string", "pattern": "^2[0-9]{3}-[01][0-9]$"},
                            }
                        ),
                        strict(
                            {"tool": {"const": "tell"}, "to": {"type": "string", "pattern": "^[a-z]{3,12}$"}}
                        ),
                    ]
                },
            }
        }
    ),
}


@dataclass(frozen=True)
class Case:
    """Requests of one kind that so many clients send one after the other."""

    name: str
    clients: int
    # Words of a prompt; a word of a made-up vocabulary is some tokens.
    words: int
    tokens: int
    schema: str | None = None
    # The prompts of all cases with as many words and clients that are also `again`.
    again: bool = False
    # vLLM 0.32 loses requests with a seed on processors.
    seeded: bool = True

    @property
    def count(self) -> int:
        """Requests of a round: at least two for each client, so that not all begin and end together."""
        return max(3, 2 * self.clients)

    def bodies(self, seed: int) -> list[Body]:
        """The requests of a round: other prompts for each seed."""
        rng = Random(f"{seed} {self.words} {self.clients} {'' if self.again else self.name}")
        bodies = [chat(prompt(rng, self.words), self.tokens, self.schema, i) for i in range(self.count)]
        return bodies if self.seeded else [body | {"seed": None} for body in bodies]


def prompt(rng: Random, words: int) -> str:
    """A made-up text."""
    return " ".join(rng.choices(WORDS, k=words))


def chat(content: str, tokens: int, schema: str | None = None, seed: int = 0) -> Body:
    """A streamed chat: free ones have exactly `tokens`, those with a schema at most so many."""
    body: Body = {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0.8,
        "seed": seed,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return body | {"ignore_eos": True} if schema is None else bound(body, SCHEMAS[schema], schema)


def bound(body: Body, schema: dict[str, Any], name: str) -> Body:
    """The same with a schema, whose end ends the answer."""
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
    return {key: value for key, value in body.items() if key != "ignore_eos"} | {"response_format": form}
