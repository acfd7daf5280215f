"""The fields of `/v1/systemone`, as TypeSafe's API and llama-server have them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from llgtrt.openai.errors import invalid
from llgtrt.openai.schema import Salt, Urgency, about

TOLERANCE = 0.001
"""Where a request has none."""

MOST_QUESTIONS = 64
MOST_OPTIONS = 255
LEVELS = range(2, 11)

Content = str | dict[str, Any] | list[Any]
"""Text, or a JSON value that the model is given as text."""


class Question(msgspec.Struct):
    """A question about the state."""

    type: Annotated[
        Literal["choice", "score", "noul"],
        about("One of several options, a level of a scale, or yes or no."),
    ]
    instructions: Annotated[Content | None, about("The question.")] = None
    criteria: Annotated[
        dict[str, Any] | list[Any] | None,
        about(
            "`choice`: an object of up to 255 options, each with a description or null. `score`: "
            "descriptions of 2 to 10 levels, the lowest first. `noul`: an object with descriptions of `true` "
            "and `false`; may be left out."
        ),
    ] = None
    temperature: Annotated[
        float | None, about("The temperature of this question, instead of the request's; above 0.", 0)
    ] = None


class SystemOneRequest(msgspec.Struct):
    """Body of `/v1/systemone`."""

    state: Annotated[Content, about("What the questions are about: a text, or a JSON value.")]
    questions: Annotated[
        dict[str, Question], about("1 to 64 questions by name. Each is answered on its own.")
    ]
    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    temperature: Annotated[
        float | None,
        about(
            "Calibration: divides the logarithms of the probabilities, which are then normalised.",
            0,
            default=1,
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        about(
            "How much probability may be left out to save time; 0: none.",
            0,
            0.5,
            0.001,
        ),
    ] = None
    priority: Urgency = None
    cache_salt: Salt = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {"images": ([],), "assets": ({},), "stream": (False,)}
    """Fields of this page elsewhere that change the answer, with the values that are accepted."""


def check(body: SystemOneRequest) -> None:
    """Refuses questions that have no answer.

    Raises:
        ApiError: 400 that names the question and its field.
    """
    if not 1 <= len(body.questions) <= MOST_QUESTIONS:
        message = f"questions: has {len(body.questions)}; send 1 to {MOST_QUESTIONS}"
        raise invalid("questions", message)
    _check_temperature("temperature", body.temperature)
    if body.tolerance is not None and not 0 <= body.tolerance <= 0.5:
        raise invalid("tolerance", f"tolerance: is {body.tolerance:g}; it must be from 0 to 0.5")
    if _has_images(body.state):
        message = "state: has an image; this server reads text only: leave the part out"
        raise invalid("state", message, "unsupported_parameter")
    for name, question in body.questions.items():
        at = f"questions.{name:.64}"
        _check_temperature(f"{at}.temperature", question.temperature)
        _check_criteria(f"{at}.criteria", question)
        if question.type == "noul" and not (question.instructions or question.criteria):
            raise invalid(f"{at}.instructions", f"{at}.instructions: is missing; write the question")


def _check_temperature(at: str, value: float | None) -> None:
    if value is not None and not 0 < value <= 100:
        raise invalid(at, f"{at}: is {value:g}; it must be above 0 and at most 100")


def _check_criteria(at: str, question: Question) -> None:
    criteria = question.criteria
    match question.type:
        case "choice":
            if not isinstance(criteria, dict) or not 1 <= len(criteria) <= MOST_OPTIONS:
                raise invalid(
                    at, f"{at}: must be an object of 1 to {MOST_OPTIONS} options and their descriptions"
                )
            if any(not option for option in criteria):
                raise invalid(at, f"{at}: an option is empty; give it a name")
        case "score":
            if not isinstance(criteria, list) or len(criteria) not in LEVELS:
                raise invalid(at, f"{at}: must be a list of 2 to 10 descriptions, the lowest level first")
        case "noul":
            known = isinstance(criteria, dict) and criteria.keys() <= {"true", "false"}
            if criteria is not None and not known:
                raise invalid(at, f"{at}: must be an object with the keys `true` and `false`")


def _has_images(state: Content) -> bool:
    """Whether the state is messages of a chat with an image among their parts."""
    messages = state.get("messages") if isinstance(state, dict) else state
    parts = (
        part
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    )
    return any(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)
