"""Prepares a chat: the tokens of its prompt, and the constraint of its answer."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from llgtrt.openai import formats, hints, learn, schema, structural, tools, translate
from llgtrt.openai.constraint import constraint
from llgtrt.openai.errors import invalid
from llgtrt.openai.reply import Reply, Thinking
from llgtrt.prompt import Vocabulary
from llgtrt.settings import ServerSettings
from llgtrt.templates import ASK, ChatTemplate, RenderError

_TAIL = 32
"""Tokens of the prompt's end, which shows whether reasoning or the answer has begun."""


_LONGEST_BLOCKED, _MOST_BLOCKED = 256, 3000
"""Bytes of `bad_words` that are searched for in reasoning: of one, and of all."""


@dataclasses.dataclass(frozen=True)
class Model:
    """How this model is written to, and how it writes."""

    template: ChatTemplate
    vocabulary: Vocabulary
    format: formats.Format
    markers: formats.Markers | None
    words: frozenset[str]
    """Those of its template: the variables that it looks at are among them."""
    reasons: bool
    """The model thinks unless the request switches that off."""

    @staticmethod
    def of(template: ChatTemplate, vocabulary: Vocabulary, server: ServerSettings) -> Model:
        """The model of a template, as far as it is not configured."""
        source = template.source
        style = learn.tool_format(server.tool_format, template, vocabulary.ends())
        words = frozenset(re.findall(r"\w+", source))
        return Model(
            template,
            vocabulary,
            style,
            formats.markers(server.reasoning_markers, source),
            words,
            bool(server.reasoning_markers or style.turn)
            or ("enable_thinking" in words and _thinks(template)),
        )

    def knows(self, variable: str) -> bool:
        """Whether its template looks at this variable."""
        return variable in self.words


def _thinks(template: ChatTemplate) -> bool:
    """Whether a template writes for reasoning where nothing is said of it."""
    messages = [{"role": "user", "content": "?"}]
    try:
        told = template.render(messages, {**ASK, "enable_thinking": True})
        return template.render(messages) == told
    except RenderError:
        return True


def ready(
    model: Model, body: schema.ChatRequest, messages: Sequence[dict[str, Any]]
) -> tuple[list[int], Reply]:
    """The prompt's tokens, and what the answer may be; `messages` are the body's.

    Raises:
        ApiError: the template refuses the messages, or a field asks for what the model does not do.
    """
    asked = tools.tools(body)
    wanted = _wanted(model, body)
    prompt = _prompt(model, body, messages, asked)
    thinking = _thinking(model, body, wanted, (messages, prompt))
    bounds = constraint(body)
    if structural.is_free(bounds) and asked is not None and asked.called:
        message = "tools: not beside a structural tag; write their calls as tags, or leave one of both out"
        raise invalid("tools", message, "unsupported_parameter")
    if thinking is not None and body.bad_words:
        thinking = dataclasses.replace(thinking, blocked=_blocked(body.bad_words, thinking))
    tail = model.format.lead if body.continue_final_message else _tail(model, prompt)
    return prompt, Reply(thinking, asked, model.format, bounds, tail)


def _tail(model: Model, prompt: Sequence[int]) -> str:
    """The end of a prompt, with its special tokens."""
    tokens = b"".join(model.vocabulary.lookup(token)[0] for token in prompt[-_TAIL:])
    return tokens.decode("utf-8", "replace")


def _blocked(words: Sequence[str], thinking: Thinking) -> tuple[str, ...]:
    """The words that must not come in reasoning.

    Raises:
        ApiError: there are too many, or reasoning could not end without one.
    """
    lengths = [len(word.encode()) for word in words]
    if max(lengths) > _LONGEST_BLOCKED or sum(lengths) > _MOST_BLOCKED:
        message = (
            f"bad_words: may have {_LONGEST_BLOCKED} bytes each and {_MOST_BLOCKED} in all "
            "if the model reasons; leave some out, or switch reasoning off"
        )
        raise invalid("bad_words", message)
    end = thinking.markers[1]
    if within := next((word for word in words if word in end), None):
        message = f"bad_words: {within!r} is part of {end.strip()!r}, which ends reasoning; leave it out"
        raise invalid("bad_words", message)
    return tuple(words)


def _prompt(
    model: Model, body: schema.ChatRequest, messages: Sequence[dict[str, Any]], asked: tools.Tools | None
) -> list[int]:
    options = translate.template_options(body)
    if model.knows("tools"):
        # What must not be called is not told of.
        options["tools"] = asked.rendered() if asked and asked.called else None
    if not model.template.has_place(options):
        beside = " beside functions" if options.get("tools") else ""
        message = f"documents: the chat template has no place for them{beside}; write them into a message"
        raise invalid("documents", message)
    refusal = None
    fitting = tools.fitting(messages, model.format)
    one_system = tools.one_system(fitting)
    for written in (fitting, one_system) if one_system != fitting else (fitting,):
        for variant in _variants(model, written, asked):
            try:
                return model.vocabulary.chat(model.template, variant, options)
            except RenderError as e:
                refusal = refusal or e
    raise invalid("messages", f"messages: {refusal}") from refusal


def _variants(
    model: Model, messages: Sequence[dict[str, Any]], asked: tools.Tools | None
) -> Iterator[Sequence[dict[str, Any]]]:
    """The messages as templates may want them: the first that a template takes counts."""
    if model.knows("tools"):
        yield messages
        if any("tool_calls" in message for message in messages):
            # There are templates that take arguments as objects, and some that take them as text.
            yield tools.as_texts(messages)
        if any("reasoning_content" in message for message in messages):
            # That of gpt-oss refuses reasoning and a text beside the same calls.
            yield [{n: v for n, v in m.items() if n != "reasoning_content"} for m in messages]
        return
    plain = tools.plain(messages, model.format)
    yield tools.telling(plain, asked, model.format, "system")
    if asked and asked.called:
        # There are templates without a system's message.
        yield tools.telling(plain, asked, model.format, "user")


def _wanted(model: Model, body: schema.ChatRequest) -> bool | None:
    """Whether the client wants reasoning; None where it says nothing.

    If the template shows no reasoning, the fields have no effect, and the header `llgtrt-ignored` names them.
    """
    kwargs = body.chat_template_kwargs or {}
    effort = body.reasoning_effort
    said = [body.enable_thinking, *(kwargs.get(name) for name in translate.THINKING)]
    wanted = next((one for one in said if isinstance(one, bool)), None)
    if wanted is None and effort is not None:
        wanted = effort != "none"
    if model.markers is None:
        unable = {
            "reasoning_effort": effort not in (None, "none") and not model.knows("reasoning_effort"),
            "enable_thinking": bool(body.enable_thinking) and not model.knows("enable_thinking"),
            "thinking_budget": translate.thinking_budget(body) is not None,
        }
        for name, asked in unable.items():
            if asked:
                hints.ineffective(name)
    return wanted


def _thinking(
    model: Model,
    body: schema.ChatRequest,
    wanted: bool | None,
    written: tuple[Sequence[dict[str, Any]], Sequence[int]],
) -> Thinking | None:
    """`written`: the messages as texts, and the prompt that they became."""
    messages, prompt = written
    if model.markers is None:
        return None
    begin, end = model.markers
    if body.continue_final_message:
        last: str = messages[-1]["content"]
        inside = last.rfind(begin) > last.rfind(end)
        ended = not inside
    else:
        tail = _tail(model, prompt).rstrip()
        inside, ended = tail.endswith(begin.rstrip()), tail.endswith(end.rstrip())
    if ended or (wanted is False and not inside):
        return None
    # A model that cannot be told otherwise is stopped at once.
    budget = 0 if wanted is False else translate.thinking_budget(body)
    return Thinking(model.markers, inside, model.reasons, budget)
