"""The questions of `/v1/systemone` as decisions of the core, and what comes of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llgtrt.openai import schema, translate
from llgtrt.openai.chat import Model, ready
from llgtrt.openai.decisions import distribution, prompts
from llgtrt.openai.decisions.fields import TOLERANCE, Question, SystemOneRequest
from llgtrt.openai.decisions.tree import Decision, Found
from llgtrt.prompt import Vocabulary

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question that has been put to the model."""

    question: Question
    temperature: float
    decision: Decision


def asked(
    body: SystemOneRequest,
    own_prompts: Mapping[str, str | None],
    core: Json,
    prompt: Callable[[str], list[int]],
) -> dict[str, Asked]:
    """The questions by name.

    `own_prompts`: `server.decision_prompts`. `core`: fields of the core's requests. `prompt`: the tokens of a
    question, up to where its answer begins.
    """
    tolerance = TOLERANCE if body.tolerance is None else body.tolerance

    def one(question: Question) -> Asked:
        options = prompts.options(question)
        text = prompts.written(question, body.state, own_prompts)
        constrained = {**core, "grammar": {"choice": options}}
        decision = Decision(constrained, prompt(text), options, tolerance=tolerance)
        return Asked(question, question.temperature or body.temperature or 1.0, decision)

    return {name: one(question) for name, question in body.questions.items()}


def prompted(model: Model | None, vocabulary: Vocabulary, text: str) -> list[int]:
    """The tokens of a question, up to where its answer begins; without a chat template it is plain text.

    Raises:
        ApiError: the template refuses it.
    """
    if model is None:
        return vocabulary.plain(text + "\n")
    body = schema.ChatRequest(messages=[schema.Message("user", text)], enable_thinking=False)
    prompt, reply = ready(model, body, translate.messages(body))
    return prompt + vocabulary.encode([(reply.opening, True)]) if reply.opening else prompt


def answer(asked: Asked, raw: Found) -> Json:
    """The answer as `/v1/systemone` has it."""
    return {**_typed(asked, distribution.tempered(raw.probabilities, asked.temperature)), "error": raw.error}


def _typed(asked: Asked, found: Sequence[float]) -> Json:
    question, options = asked.question, asked.decision.options
    named = dict(zip(options, found, strict=True))
    match question.type:
        case "choice":
            return {
                "type": "choice",
                "choice": max(named, key=lambda option: named[option]),
                "probabilities": named,
                "confidence": distribution.choice_confidence(found),
            }
        case "score":
            return {
                "type": "score",
                "score": distribution.expected_level(found),
                "legend": dict(zip(options, question.criteria or (), strict=True)),
                "probabilities": named,
                "confidence": distribution.score_confidence(found),
            }
    return {"type": "noul", "noul": found[0]}
