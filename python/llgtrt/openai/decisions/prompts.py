"""How a question is put to the model.

`{instructions}`, `{options}` and `{state}` are replaced by the question, the possible answers and the state.
`server.decision_prompts` can replace these prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from llgtrt.openai.decisions.fields import Question

_PLACES = re.compile(r"\{(instructions|options|state)\}")

_TEXT = " and nothing else.\n\n<text>\n{state}\n</text>"

DEFAULTS = {
    "choice": "{instructions}\n\nOptions:\n{options}\n\n"
    "Answer with the name of the option that fits the text best," + _TEXT,
    "score": "{instructions}\n\nLevels:\n{options}\n\n"
    "Answer with the number of the level that fits the text best," + _TEXT,
    "noul": "{instructions}\n{options}\nAnswer the question about the text with yes or no," + _TEXT,
}
"""One for each type of question. The question comes first, so that its KV is reused for the next text."""

_INSTRUCTIONS = {
    "choice": "Which of the options fits the text?",
    "score": "Which of the levels fits the text?",
    "noul": "Which of the answers fits the text?",
}
"""Where a question has none."""


def options(question: Question) -> list[str]:
    """The texts that may be answered, in the order of the criteria; of yes and no, yes comes first."""
    match question.criteria:
        case dict() as criteria if question.type == "choice":
            return list(criteria)
        case list() as levels:
            return [str(level) for level in range(len(levels))]
    return ["yes", "no"]


def written(question: Question, state: Any, prompts: Mapping[str, str | None]) -> str:
    """The text of the user's message; `prompts`: the configured ones, by type."""
    template = prompts.get(question.type) or DEFAULTS[question.type]
    values = {
        "instructions": _text(question.instructions) or _INSTRUCTIONS[question.type],
        "options": "\n".join(_described(question)),
        "state": _text(state),
    }
    return _PLACES.sub(lambda place: values[place[1]], template)


def _described(question: Question) -> Iterator[str]:
    criteria = question.criteria
    if question.type == "noul":
        told = criteria if isinstance(criteria, dict) else {}
        named = {"yes": told.get("true"), "no": told.get("false")}
        yield from (f"- {name}: {_text(text)}" for name, text in named.items() if text is not None)
    elif isinstance(criteria, dict):
        yield from (f"- {name}: {_text(text)}" if text else f"- {name}" for name, text in criteria.items())
    else:
        yield from (f"{level}: {_text(text)}" for level, text in enumerate(criteria or ()))


def _text(value: Any) -> str:
    """Text as it is, other values as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
