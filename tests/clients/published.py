"""Whether an exchange is as OpenAI publishes it, and obeys what its own request asked for."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import jsonschema

from .recorder import Exchange

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
_BODIES = {
    CHAT: ("chat", "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"),
    COMPLETIONS: ("chat", "CreateCompletionResponse", "CreateCompletionResponse"),
    RESPONSES: ("responses", "Response", "ResponseStreamEvent"),
}
"""The specification of a page, and its schemas of whole answers and of a stream's events."""


class Published:
    """The published schemas.

    Args:
        specs: Of `chat` and `responses`, as far as they are at hand; the request's own schemas hold anyway.
    """

    def __init__(self, specs: dict[str, Any]) -> None:
        self._specs = specs
        self._made: dict[tuple[str, str], Any] = {}

    def hold(self, exchange: Exchange) -> None:
        """Raises where the answer is not as published, or not as asked for."""
        page = exchange.path.partition("?")[0]
        if page not in _BODIES or exchange.method != "POST" or exchange.kind == "text/plain":
            return
        spec, whole, event = _BODIES[page]
        if exchange.status != 200:
            self._validate(spec, "ErrorResponse", exchange.body())
        elif exchange.kind != "text/event-stream":
            self._validate(spec, whole, _read(page, exchange.body()))
        elif exchange.whole:
            for each in exchange.events():
                self._validate(spec, event, _read(page, each))
        if exchange.status == 200 and page == CHAT and exchange.whole:
            obeyed(exchange.asked(), _choices(exchange))

    def _validate(self, spec: str, name: str, body: Any) -> None:
        if spec not in self._specs:
            return
        if (spec, name) not in self._made:
            schema = {"$ref": f"#/components/schemas/{name}", "components": self._specs[spec]["components"]}
            self._made[spec, name] = jsonschema.Draft202012Validator(schema)
        self._made[spec, name].validate(body)


def _read(page: str, body: Any) -> Any:
    return _without_nulls(body) if page == COMPLETIONS else body


def _without_nulls(completion: Any) -> Any:
    """What OpenAI's service sends for completions and its schemas leave out.

    They have no null where a stream has not come to its reason to end or its usage, nor for the first token
    of a prompt, which has no probability.
    """
    told = {name: value for name, value in completion.items() if name != "usage" or value is not None}
    told["choices"] = [dict(choice) for choice in completion["choices"]]
    for choice in told["choices"]:
        choice["finish_reason"] = choice["finish_reason"] or "stop"
        if choice.get("logprobs"):
            choice["logprobs"] = {
                name: values[1:] if values and values[0] is None else values
                for name, values in choice["logprobs"].items()
            }
    return told


def obeyed(asked: Any, choices: list[Any]) -> None:
    """Arguments are of their function's schema, and texts of theirs, where the answer was not cut."""
    functions = {tool["function"]["name"]: tool["function"] for tool in asked.get("tools") or []}
    wanted = (asked.get("response_format") or {}).get("json_schema", {}).get("schema")
    for reason, text, calls in choices:
        if reason == "length":
            continue
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), functions[name].get("parameters") or {})
        if wanted is not None and not calls:
            jsonschema.validate(json.loads(text), wanted)


def _choices(exchange: Exchange) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Of each choice why it ended, its text, and the names and arguments of its calls, streamed or not."""
    reasons: dict[int, str] = {}
    texts: dict[int, str] = defaultdict(str)
    calls: dict[int, dict[int, list[str]]] = defaultdict(dict)
    streamed = exchange.kind == "text/event-stream"
    for body in exchange.events() if streamed else [exchange.body()]:
        for choice in body.get("choices", []):
            index = choice["index"]
            told = choice["delta" if streamed else "message"]
            reasons[index] = choice["finish_reason"] or reasons.get(index, "length")
            texts[index] += told.get("content") or ""
            for at, call in enumerate(told.get("tool_calls") or []):
                grown = calls[index].setdefault(call.get("index", at), ["", ""])
                grown[0] += call["function"].get("name") or ""
                grown[1] += call["function"].get("arguments") or ""
    return [
        (reason, texts[index], [(name, arguments) for name, arguments in calls[index].values()])
        for index, reason in reasons.items()
    ]
