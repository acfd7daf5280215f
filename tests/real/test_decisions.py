"""Decisions of real models: the same alone and among others, and those of what is generated."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from server.serving import Server

from llgtrt.openai.decisions.fields import Question
from llgtrt.openai.decisions.prompts import written

STATE = "I was charged twice for my order last week, and nobody has replied."
OPTIONS = ["billing", "bills", "bill", "shipping", "technical"]
QUESTIONS: dict[str, Any] = {
    "route": {
        "type": "choice",
        "instructions": "Which team should handle this?",
        "criteria": dict.fromkeys(OPTIONS),
    },
    "angry": {"type": "noul", "instructions": "Is the customer angry?"},
    "urgency": {"type": "score", "criteria": ["can wait", "this week", "today", "right now"]},
}


def decide(server: Server, state: str, tolerance: float = 0) -> Any:
    body = {"state": state, "questions": QUESTIONS, "tolerance": tolerance}
    answer = server.http.post("/v1/systemone", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["answers"]


def answered(server: Server, text: str, **more: Any) -> list[tuple[str, Any]]:
    """The texts of the choices, and their probabilities; a base model has no chats."""
    chat = {"messages": [{"role": "user", "content": text}], "enable_thinking": False}
    answer = server.http.post("/v1/chat/completions", json={**chat, **more})
    if "no chat template" in answer.text:
        answer = server.http.post("/v1/completions", json={"prompt": text + "\n", "max_tokens": 64, **more})
    assert answer.status_code == 200, answer.text
    choices = answer.json()["choices"]
    return [(c["text"] if "text" in c else c["message"]["content"], c.get("probabilities")) for c in choices]


def test_they_are_the_same_among_others(real: Server) -> None:
    states = [f"{STATE} That is ticket {i}." for i in range(8)]
    alone = [decide(real, state) for state in states]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda state: decide(real, state), states))
    assert together == alone
    for state, exact in zip(states, alone, strict=True):
        about = decide(real, state, 0.01)["route"]
        for option, p in exact["route"]["probabilities"].items():
            assert abs(about["probabilities"][option] - p) <= about["error"] + 1e-9


def test_they_are_those_of_what_is_generated(real: Server) -> None:
    question = msgspec.convert(QUESTIONS["route"], Question)
    form = {"type": "choice", "choices": OPTIONS}
    counts: Counter[str] = Counter()
    for seed in range(6):
        drawn = {"response_format": form, "n": 64, "temperature": 1, "seed": seed}
        counts.update(text for text, _ in answered(real, written(question, STATE, {}), **drawn))
    total = counts.total()
    assert total == 384
    expected = {option: total * p for option, p in decide(real, STATE)["route"]["probabilities"].items()}
    often = [option for option, number in expected.items() if number >= 5]
    rare = sum(counts[option] for option in OPTIONS if option not in often)
    assert rare <= 12 * (len(OPTIONS) - len(often))
    distance = sum((counts[option] - expected[option]) ** 2 / expected[option] for option in often)
    assert distance < 25, (counts, expected)  # chi squared with up to 4 degrees of freedom


def test_a_field_has_those_of_its_place(real: Server) -> None:
    schema = {
        "type": "object",
        "properties": {"team": {"enum": OPTIONS}, "angry": {"type": "boolean"}},
        "required": ["team", "angry"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    asked = f"{STATE}\nWhich team, and is the writer angry?"
    more = {"response_format": form, "probabilities": ["/team", "/angry"], "temperature": 0}
    ((text, found),) = answered(real, asked, **more)
    value = json.loads(text)
    assert list(found["/team"]) == OPTIONS
    for probabilities in found.values():
        assert abs(sum(probabilities.values()) - 1) < 1e-9
    # Greedy decoding takes the likelier one, unless several ways to write the other one add up.
    assert found["/angry"][json.dumps(value["angry"])] > 0.4
