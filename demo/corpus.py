"""Generates conversations: a short text, requests about it, and the right answers.

`python -m demo.corpus [--unseen] [--count N]` prints some.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from demo import names, phrases
from demo.fields import SUBJECTS, Kind, Subject, Value, labels
from demo.names import Names, half, is_unseen, words

Span: TypeAlias = tuple[str, bool]
CALLABLE = "You can call these functions:"
CALL_SO = 'A call: <tool_call>{"name": …, "arguments": …}</tool_call>'
LOWERED = frozenset(
    words(
        """The It Its Our For As We On With Their They Nobody More A That There Thank Everything Tea She He At
        Now These This Once Since Last Today Home Everyone Write Expect Keep Come Make Mark Please"""
    )
)


@dataclass(frozen=True)
class Fact:
    """One thing a text states: its JSON key, the words for it, its value and its JSON type."""

    key: str
    words: str
    value: Value
    type: str
    choices: tuple[str, ...] = ()
    nullable: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the value."""
        if self.type == "enum":
            return {"type": "string", "enum": list(self.choices)}
        if self.type == "array":
            return {"type": "array", "items": {"type": "string"}}
        return {"type": [self.type, "null"] if self.nullable else self.type}


@dataclass(frozen=True)
class Turn:
    """One request and its answer; `kind` names the task, and a span marked true is trained on."""

    kind: str
    request: str
    answer: tuple[Span, ...]
    schema: dict[str, Any] | None = None
    thought: str | None = None
    """Reasoning before the answer, which the prompt has begun."""

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(text for text, _ in self.answer)


@dataclass(frozen=True)
class Conversation:
    """A system prompt (or none), the functions that can be called, and the turns that follow."""

    system: str | None
    turns: tuple[Turn, ...]
    functions: tuple[dict[str, Any], ...] = ()

    def opening(self) -> str:
        """All before the first turn, as the chat template writes it."""
        told = [] if self.system is None else [self.system]
        if self.functions:
            lines = [CALLABLE]
            for function in self.functions:
                about = f": {function['description']}" if function["description"] else ""
                lines += [function["name"] + about, json.dumps(function["parameters"], ensure_ascii=False)]
            told.append("\n".join([*lines, CALL_SO]))
        return "<|im_start|>system\n{}<|im_end|>\n".format("\n\n".join(told)) if told else ""

    def spans(self) -> Iterator[Span]:
        """ChatML text in pieces; those marked true count for the loss."""
        yield self.opening(), False
        for turn in self.turns:
            yield self.asked(turn), False
            if turn.thought is not None:
                yield f"{turn.thought}\n</think>\n\n", True
            yield from turn.answer
            yield "<|im_end|>", True
            yield "\n", False

    @staticmethod
    def asked(turn: Turn) -> str:
        """A request, and the beginning of its answer."""
        begun = "" if turn.thought is None else "<think>\n"
        return f"<|im_start|>user\n{turn.request}<|im_end|>\n<|im_start|>assistant\n{begun}"

    def prompt(self, turn: int = 0) -> str:
        """Everything before the answer of one turn, and before its thought."""
        said = [f"{self.asked(t)}{t.text}<|im_end|>\n" for t in self.turns[:turn]]
        return self.opening() + "".join(said) + self.asked(self.turns[turn])


def to_schema(facts: list[Fact], required: bool = True) -> dict[str, Any]:
    """Return the schema of an object with these facts as its fields."""
    schema: dict[str, Any] = {"type": "object", "properties": {fact.key: fact.schema() for fact in facts}}
    if required:
        schema["required"] = [fact.key for fact in facts]
    return schema


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with every field required and no others allowed, at every depth."""
    if "properties" not in schema:
        return schema
    fields = {name: strict(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": fields, "required": list(fields), "additionalProperties": False}


def to_spans(facts: list[Fact], keys: bool) -> tuple[Span, ...]:
    """Write the JSON object of these facts in Python's default style; `keys`: its keys are trained on too."""
    spans: list[Span] = []
    for i, fact in enumerate(facts):
        spans.append((f"{', ' if i else '{'}{json.dumps(fact.key)}: ", keys))
        spans.append((json.dumps(fact.value, ensure_ascii=False), True))
    return (*spans, ("}", keys))


def spoken(values: list[str]) -> str:
    """List the values as `a`, `a and b` or `a, b and c`."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"


def styled(words: str, rng: Random) -> str:
    """Write `badge number` as `badge_number`, or sometimes `badgeNumber`."""
    if rng.random() < 0.8:
        return words.replace(" ", "_")
    first, *rest = words.split()
    return first + "".join(word.capitalize() for word in rest)


class Writer:
    """Writes the conversations of one half with one random generator."""

    def __init__(
        self,
        rng: Random,
        unseen: bool,
        made_up: float = 0.55,
        hard: float = 0.0,
        pieces: tuple[str, ...] = (),
    ) -> None:
        """Write with `rng`, from the half that is trained on or the other; `made_up`: see `Names`.

        `hard`: share of the facts that are likely to be confused with another: attributes whose name has
        a word in common with the one before, and what `Names` does with it.
        """
        self.rng = rng
        self.unseen = unseen
        self.hard = hard
        self.names = Names(rng, unseen, made_up, hard, pieces)

    def pick(self, pool: tuple[str, ...]) -> str:
        """One string of `pool` from this half."""
        return self.rng.choice(half(pool, self.unseen))

    def label(self, heads: str) -> str:
        """Draw a name of a field from this half; plain ones as often as qualified ones."""
        pool = [words for words in labels(heads) if is_unseen(words) == self.unseen]
        plain = [words for words in pool if words in heads.split("|")]
        return self.rng.choice(plain if plain and self.rng.random() < 0.5 else pool)

    def two_words(self, other: str | None) -> str:
        """Draw a free two-word name of this half, now and then with one word of `other`."""
        rng = self.rng
        pools = [phrases.FIRST_WORDS, phrases.LAST_WORDS]
        if other and rng.random() < self.hard:
            number = rng.choice((0, 1))
            pools[number] = [word for word in other.split() if word in pools[number]] or pools[number]
        while True:
            words = " ".join(rng.choice(pool) for pool in pools)
            if is_unseen(words) == self.unseen:
                return words

    def attribute(self, other: str | None = None) -> tuple[Fact, str]:
        """Draw a fact with a free two-word name, and its sentence; `other` is the name of another one."""
        rng = self.rng
        words = self.two_words(other)
        last, kind = words.split()[1], "string"
        value: str | int
        if last in phrases.NUMERIC:
            value, kind = int(self.names.digits(rng.randint(1, 4))), "integer"
        elif last == "code":
            value = self.names.code()
        elif last in phrases.PERSONAL:
            value = self.names.person()
        elif last in phrases.LOCAL:
            value = self.names.word(names.CITY)
        elif last == "colour":
            value = self.names.word(names.COLOUR)
        else:
            value = rng.choice((self.names.made, self.names.company, self.names.product))()
        template = self.pick(phrases.ATTRIBUTE)
        sentence = template.format(k=words, K=words.capitalize(), v=value)
        return Fact(styled(words, rng), words, value, kind), sentence

    def kind(self, kind: Kind, subject: str, pronoun: str | None) -> tuple[Fact, str]:
        """Draw a fact of a known kind, and its sentence, which may begin with the pronoun."""
        words = self.label(kind.heads)
        value = kind.draw(self.names)
        says = kind.denies if value is False else kind.says
        shown = spoken(value) if isinstance(value, list) else value
        template = self.pick(says)
        begins = template.startswith("{s} ")
        sentence = template.format(s=pronoun if pronoun and begins else subject, v=shown)
        return Fact(styled(words, self.rng), words, value, kind.type, kind.choices), f"{sentence}."

    def text(self) -> tuple[str, list[Fact]]:
        """Write a text and list the facts in it, in the order of the text."""
        rng = self.rng
        stated: list[tuple[Fact | None, str]] = []
        opening: list[tuple[Fact | None, str]] = []
        if rng.random() < 0.65:
            subject = rng.choice(SUBJECTS)
            opening, short, pronoun = self.opening(subject)
            for kind in rng.sample(subject.kinds, rng.randint(1, 4)):
                stated.append(self.kind(kind, short, pronoun))
        words = None
        for _ in range(rng.randint(0, 2) if stated else rng.randint(2, 5)):
            fact, sentence = self.attribute(words)
            words = fact.words
            stated.append((fact, sentence))
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            stated.append((None, self.pick(phrases.FILLER)))
        rng.shuffle(stated)
        facts: dict[str, Fact] = {}
        lines = []
        for known, sentence in opening + stated:
            if known is not None and known.key in facts:
                continue
            if known is not None:
                facts[known.key] = known
            joiner = rng.choice(phrases.JOINERS)
            if joiner and sentence.split()[0] in LOWERED:
                sentence = sentence[0].lower() + sentence[1:]
            lines.append(joiner + sentence)
        return ("\n" if rng.random() < 0.15 else " ").join(lines), list(facts.values())

    def opening(self, subject: Subject) -> tuple[list[tuple[Fact | None, str]], str, str | None]:
        """Write the first sentence, with the name as a fact; choose a short name, and a pronoun or none."""
        value = str(subject.draw(self.names))
        words = self.label(subject.heads)
        fact = Fact(styled(words, self.rng), words, value, "string")
        short = value.split()[0] if self.rng.random() < 0.7 else value
        pronoun = self.rng.choice(("She", "He", None, None))
        return [(fact, self.pick(subject.opens).format(v=value))], short, pronoun

    def extract(self, facts: list[Fact]) -> Turn:
        """Ask for some of the facts as a flat object."""
        rng = self.rng
        most = 4 if rng.random() < 0.9 else 6
        chosen = rng.sample(facts, min(len(facts), rng.randint(1, most)))
        roll = rng.random()
        if rng.random() < 0.12:
            extra, _ = self.attribute(rng.choice(facts).words)
            if all(extra.key != fact.key for fact in facts):
                absent = Fact(extra.key, extra.words, None, extra.type, nullable=True)
                chosen.insert(rng.randint(0, len(chosen)), absent)
        schema = to_schema(chosen, required=roll >= 0.82 or rng.random() < 0.8)
        if roll < 0.45:
            request = self.pick(phrases.BY_SCHEMA).format(f=json.dumps(schema, separators=(",", ":")))
        elif roll < 0.82:
            keys = [fact.key for fact in chosen]
            listed = rng.choice((", ".join(keys), spoken(keys), ", ".join(f'"{key}"' for key in keys)))
            request = self.pick(phrases.BY_LIST).format(f=listed)
        else:
            request = self.pick(phrases.BY_NOTHING)
        return Turn("flat" if len(chosen) <= 4 else "wide", request, to_spans(chosen, roll < 0.82), schema)

    def nested(self, facts: list[Fact]) -> Turn:
        """Ask for an object that holds one or two objects."""
        chosen = self.rng.sample(facts, min(len(facts), self.rng.randint(2, 4)))
        cut = self.rng.randint(1, len(chosen) - 1) if len(chosen) > 1 else 1
        outer = self.rng.choice(("data", "record", "details", "info", "entry"))
        inner = to_schema(chosen[:cut])
        schema: dict[str, Any] = {"type": "object", "properties": {outer: inner}, "required": [outer]}
        answer: list[Span] = [(f'{{"{outer}": ', True), *to_spans(chosen[:cut], True)]
        for fact in chosen[cut:]:
            schema["properties"][fact.key] = fact.schema()
            schema["required"].append(fact.key)
            answer += [(f', "{fact.key}": ', True), (json.dumps(fact.value, ensure_ascii=False), True)]
        request = self.pick(phrases.BY_SCHEMA).format(f=json.dumps(schema, separators=(",", ":")))
        return Turn("nested", request, (*answer, ("}", True)), schema)

    def ask(self, facts: list[Fact]) -> Turn:
        """Ask a short question; the answer is the value, a sentence, or yes or no."""
        rng = self.rng
        fact = rng.choice(facts)
        shown = spoken(fact.value) if isinstance(fact.value, list) else str(fact.value)
        if fact.type == "boolean":
            shown = "yes" if fact.value else "no"
        roll = rng.random()
        if roll < 0.5:
            return Turn("ask", self.pick(phrases.ASK).format(k=fact.words), ((shown, True),))
        if roll < 0.7:
            request = self.pick(phrases.ASK_SENTENCE).format(k=fact.words)
            return Turn("ask", request, ((f"The {fact.words} is {shown}.", True),))
        present = rng.random() < 0.5
        if roll < 0.85:
            words = fact.words if present else self.attribute()[0].words
            request = self.pick(phrases.MENTIONS).format(k=words)
            return Turn("yes-no", request, (("yes" if present or words == fact.words else "no", True),))
        others = [
            str(other.value) for other in facts if other.type == fact.type and other.value != fact.value
        ]
        said = rng.choice(others) if others and not present else shown
        request = self.pick(phrases.IS_IT).format(k=fact.words, v=said)
        return Turn("yes-no", request, (("yes" if said == shown else "no", True),))

    def classify(self) -> tuple[str, Turn]:
        """Write a text of its own and ask which label fits."""
        rng = self.rng
        groups, says = (
            (phrases.TOPICS, phrases.TOPIC_SAYS) if rng.random() < 0.7 else (phrases.MOODS, phrases.MOOD_SAYS)
        )
        labels = rng.sample(list(groups), min(len(groups), rng.randint(2, 4)))
        label = rng.choice(labels)
        pool = groups[label].split()
        lines = []
        for _ in range(rng.randint(1, 3)):
            first, second = rng.sample(pool, 2)
            lines.append(self.pick(says).format(a=first, b=second))
        request = self.pick(phrases.CLASSIFY).format(l=", ".join(labels))
        if rng.random() < 0.5:
            return " ".join(lines), Turn("classify", request, ((label, True),))
        schema = {
            "type": "object",
            "properties": {"label": {"type": "string", "enum": labels}},
            "required": ["label"],
        }
        request += " Answer as JSON: " + json.dumps(schema, separators=(",", ":"))
        return " ".join(lines), Turn("classify", request, ((f'{{"label": "{label}"}}', True),), schema)

    def conversation(self, only: str | None = None, most: int = 4, more: float = 0.7) -> Conversation:
        """Write a conversation of up to `most` turns about one text; the first is of kind `only` if given.

        `more` is the probability that another turn follows one.
        """
        rng = self.rng
        roll = {"flat": 0.0, "nested": 0.7, "ask": 0.8, "yes-no": 0.8, "classify": 0.99}.get(
            only or "", rng.random()
        )
        if roll > 0.92:
            text, first = self.classify()
            turns = [first]
        else:
            text, facts = self.text()
            turns = [
                self.extract(facts) if roll < 0.6 else self.nested(facts) if roll < 0.71 else self.ask(facts)
            ]
            while len(turns) < most and rng.random() < more:
                turns.append(self.extract(facts) if rng.random() < 0.5 else self.ask(facts))
        opened = self.pick(phrases.PLACE).format(t=text, r=turns[0].request)
        turns[0] = Turn(turns[0].kind, opened, turns[0].answer, turns[0].schema)
        system = None if rng.random() < 0.3 else self.pick(phrases.SYSTEM)
        return Conversation(system, tuple(turns))


def show(about: str | None, begin: Callable[[Writer], Callable[[], Conversation]]) -> None:
    """Print some of what a writer of either half writes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--unseen", action="store_true", help="the half that is never trained on")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write = begin(Writer(Random(args.seed), args.unseen))
    for _ in range(args.count):
        print("".join(text for text, _ in write().spans()))


def conversations(seed: int, unseen: bool = False) -> Iterator[Conversation]:
    """Endless conversations of one half; the same seed gives the same ones."""
    writer = Writer(Random(seed), unseen)
    while True:
        yield writer.conversation()


if __name__ == "__main__":
    show(__doc__, lambda writer: writer.conversation)
