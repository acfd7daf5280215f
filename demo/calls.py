"""Conversations with functions that can be called, and with reasoning before the answer.

A function has a verb and a noun of this half in its name
(`update_garden_lamp`); its arguments are facts of the text, or one value in the request itself. Calls and
results are written as the chat template writes them (`template.j2`).

`python -m demo.calls [--unseen] [--count N]` prints some.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from demo import names, phrases
from demo.corpus import Conversation, Fact, Span, Turn, Writer, show, strict, to_schema, to_spans

ACTIONS = tuple(names.words("update set send order book check add remove open close report move cancel"))
LOOK_UPS = tuple(names.words("get find fetch show look_up"))
BY_ACTION = phrases.variants(
    "|Please |Now |Then |So please |I want you to |Can you |Kindly |Next, |With this, ",
    "{a}.|{a} with this.|{a} for me.|{a}, please.|{a} now.|{a} from this.|{a} with these facts.",
)
BY_LOOK_UP = phrases.variants(
    "What is the |Tell me the |Get the |I need the |Find the |Look up the |Do you know the |Show me the "
    "|And what is the |Now get the |What's the ",
    "{k} for {v}?|{k} of {v}?|{k} in {v}?|{k} at {v}.|{k} for {v}, please.|{k} for {v} now."
    "|current {k} for {v}.",
)
DONE = ("done", "ok", "accepted", "saved")
PLAIN_KEYS = {
    "city": lambda writer: writer.names.word(names.CITY),
    "place": lambda writer: writer.names.word(names.CITY),
    "person": lambda writer: writer.names.person(),
    "name": lambda writer: writer.names.person(),
    "company": lambda writer: writer.names.company(),
    "product": lambda writer: writer.names.product(),
    "day": lambda writer: writer.rng.choice(names.WEEKDAY),
    "code": lambda writer: writer.names.code(),
}
"""Arguments of look-ups that every half knows, and their values."""
KINDS = ("call", "parallel", "no-call", "result", "think-flat", "think-ask", "think-call")
WEIGHTS = (36, 10, 14, 10, 14, 6, 10)

Function = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A request for which a function is called: the arguments of each call, and the functions not meant."""

    request: str
    verb: str
    noun: str
    function: Function
    calls: list[list[Fact]]
    others: list[Function]


class Caller:
    """Writes conversations with functions or reasoning, in a writer's half and with its random numbers."""

    def __init__(self, writer: Writer) -> None:
        """Write as `writer` does."""
        self.writer = writer
        self.rng = writer.rng

    def noun(self, other: str | None = None) -> str:
        """Draw what a function is about; now and then with a word of `other`."""
        roll = self.rng.random()
        if roll < 0.4:
            return self.writer.two_words(other)
        if roll < 0.65:
            return self.writer.names.word(names.THING)
        if roll < 0.8:
            return self.writer.pick(tuple(phrases.FIRST_WORDS))
        return self.writer.names.made(capital=False)

    def function(self, verb: str, noun: str, facts: list[Fact]) -> Function:
        """Describe a function, more or less strictly, with or without a word about it."""
        schema = to_schema(facts)
        told = f"{verb.replace('_', ' ').capitalize()} the {noun}" if self.rng.random() < 0.4 else ""
        parameters = strict(schema) if self.rng.random() < 0.5 else schema
        name = f"{verb}_{noun.replace(' ', '_')}"
        return {"name": name, "description": told, "parameters": parameters}

    def argument(self) -> Fact:
        """Draw what a look-up wants to know."""
        if self.rng.random() < 0.5:
            key = self.rng.choice(list(PLAIN_KEYS))
            return Fact(key, key, PLAIN_KEYS[key](self.writer), "string")
        return self.writer.attribute()[0]

    def others(self, verb: str, noun: str) -> list[Function]:
        """Functions that are not meant: up to two, some with the same verb or the same noun."""
        made: list[Function] = []
        for _ in range(self.rng.choice((0, 1, 1, 2, 2))):
            roll = self.rng.random()
            # Requests do not tell one look-up of a thing from another.
            others = [v for v in (*ACTIONS, *(() if verb in LOOK_UPS else LOOK_UPS)) if v != verb]
            other_verb = verb if roll < 0.35 else self.rng.choice(others)
            other_noun = noun if roll > 0.7 else self.noun(noun)
            facts = {fact.key: fact for fact in (self.argument() for _ in range(self.rng.choice((1, 1, 2))))}
            function = self.function(other_verb, other_noun, list(facts.values()))
            if all(function["name"] != known["name"] for known in made):
                made.append(function)
        return made

    def action(self) -> Task:
        """Write a text and a request to do something with it."""
        text, facts = self.writer.text()
        chosen = self.rng.sample(facts, min(len(facts), self.rng.choice((1, 2, 2, 3))))
        verb, noun = self.rng.choice(ACTIONS), self.noun()
        request = self.writer.pick(BY_ACTION).format(a=f"{verb} the {noun}")
        request = request[0].upper() + request[1:]
        opened = self.writer.pick(phrases.PLACE).format(t=text, r=request)
        return Task(opened, verb, noun, self.function(verb, noun, chosen), [chosen], self.others(verb, noun))

    def look_up(self, count: int) -> Task:
        """Write a request for something that no text says, of `count` things."""
        first = self.argument()
        calls = [[first]]
        while len(calls) < count:
            if first.key in PLAIN_KEYS:
                value = PLAIN_KEYS[first.key](self.writer)
            elif isinstance(first.value, int):
                value = int(self.writer.names.digits(self.rng.randint(1, 4)))
            else:
                value = self.rng.choice((self.writer.names.made, self.writer.names.person))()
            calls.append([replace(first, value=value)])
        verb, noun = self.rng.choice(LOOK_UPS), self.noun()
        said = " and ".join(str(call[0].value) for call in calls)
        request = self.writer.pick(BY_LOOK_UP).format(k=noun, v=said)
        return Task(request, verb, noun, self.function(verb, noun, [first]), calls, self.others(verb, noun))

    def calling(self, kind: str) -> tuple[Conversation, Task]:
        """One turn in which functions are called, and what for."""
        if kind == "parallel":
            task = self.look_up(2)
        else:
            task = self.action() if self.rng.random() < 0.5 else self.look_up(1)
        functions = [task.function, *task.others]
        self.rng.shuffle(functions)
        turn = Turn(kind, task.request, written(task.function["name"], task.calls))
        return Conversation(self.system(), (turn,), tuple(functions)), task

    def system(self) -> str | None:
        """Draw a system's message or none."""
        return None if self.rng.random() < 0.5 else self.writer.pick(phrases.SYSTEM)

    def result(self) -> Conversation:
        """A call, what came of it, and an answer that says so."""
        talk, task = self.calling("call")
        if task.verb in ACTIONS:
            said, answer = json.dumps({"status": self.rng.choice(DONE)}), "Done."
        else:
            value: Any = self.rng.choice(
                (self.writer.names.made, self.writer.names.person, lambda: self.rng.randint(2, 999))
            )()
            key = self.rng.choice((task.noun.replace(" ", "_"), "result", "value"))
            said = json.dumps({key: value}) if self.rng.random() < 0.7 else str(value)
            answer = f"The {task.noun} for {task.calls[0][0].value} is {value}."
        turn = Turn("result", f"<tool_response>\n{said}\n</tool_response>", ((answer, True),))
        return replace(talk, turns=(*talk.turns, turn))

    def no_call(self) -> Conversation:
        """Functions are there, and the request is for none of them."""
        talk = self.writer.conversation(most=1)
        functions = self.others("get", self.noun()) or [self.function("get", self.noun(), [self.argument()])]
        turn = replace(talk.turns[0], kind="no-call")
        return Conversation(talk.system, (turn,), tuple(functions))

    def thinking(self, kind: str) -> Conversation:
        """One turn whose answer follows a thought about what it needs."""
        rng, writer = self.rng, self.writer
        if kind == "think-call":
            talk, task = self.calling("call")
            thought = f"{task.function['name']} does that: {named(task.calls[0])}."
            return replace(talk, turns=(replace(talk.turns[0], kind=kind, thought=thought),))
        text, facts = writer.text()
        if kind == "think-flat":
            turn = writer.extract(facts)
            values: dict[str, Any] = json.loads(turn.text)
            thought = f"The text says: {named([Fact(k, k, v, '') for k, v in values.items()])}."
            turn = replace(turn, kind=kind, thought=thought)
        else:
            fact = rng.choice([fact for fact in facts if fact.type in ("string", "integer")] or facts)
            shown = plain(fact.value)
            request = writer.pick(phrases.ASK).format(k=fact.words)
            thought = f"The text says: the {fact.words} is {shown}."
            turn = Turn(kind, request, ((shown, True),), thought=thought)
        opened = writer.pick(phrases.PLACE).format(t=text, r=turn.request)
        return Conversation(self.system(), (replace(turn, request=opened),))

    def conversation(self, only: str | None = None) -> Conversation:
        """Write one, of the kind `only` if given."""
        kind = only or self.rng.choices(KINDS, WEIGHTS)[0]
        if kind == "result":
            return self.result()
        if kind == "no-call":
            return self.no_call()
        if kind.startswith("think"):
            return self.thinking(kind)
        return self.calling(kind)[0]


def written(name: str, calls: list[list[Fact]]) -> tuple[Span, ...]:
    """Calls as a model writes them."""
    spans: list[Span] = []
    for i, facts in enumerate(calls):
        begin = "\n<tool_call>\n" if i else "<tool_call>\n"
        spans.append((f'{begin}{{"name": "{name}", "arguments": ', True))
        spans += to_spans(facts, True)
        spans.append(("}\n</tool_call>", True))
    return tuple(spans)


def plain(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, list):
        return ", ".join(value)
    if value is None or isinstance(value, bool):
        return {None: "not said", True: "true", False: "false"}[value]
    return str(value)


def named(facts: list[Fact]) -> str:
    """Arguments or fields in a sentence."""
    return ", ".join(f"{fact.key} is {plain(fact.value)}" for fact in facts)


if __name__ == "__main__":
    show(__doc__, lambda writer: Caller(writer).conversation)
