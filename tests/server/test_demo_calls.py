"""Functions and reasoning on the demo model, which has learned them."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from .serving import Server

FUNCTIONS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": {"type": "string"}},
    "update_order": {"customer": {"type": "string"}, "quantity": {"type": "integer"}},
    "send_letter": {"person": {"type": "string"}},
}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }
    for name, properties in FUNCTIONS.items()
]
TEXT = "A new order came in from Tom Weber. The order is for 12 pieces."
ORDER = {"customer": "Tom Weber", "quantity": 12}


@pytest.fixture(scope="module")
def api(demo: Server) -> openai.OpenAI:
    return demo.client()


def ask(api: openai.OpenAI, messages: list[Any] | str, **fields: Any) -> Any:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 160, **fields}
    return api.chat.completions.create(model="demo", messages=messages, **settings).choices[0]


def calls(choice: Any) -> list[tuple[str, Any]]:
    made = choice.message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in made]


def test_the_function_that_fits_is_called_and_its_result_told(api: openai.OpenAI) -> None:
    question = {"role": "user", "content": "What is the weather in Rome?"}
    choice = ask(api, [question], tools=TOOLS)
    assert calls(choice) == [("get_weather", {"city": "Rome"})]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    history = [
        question,
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": '{"weather": 17}'},
    ]
    told = ask(api, history, tools=TOOLS)
    assert told.message.content == "The weather for Rome is 17."


def test_arguments_come_from_the_text(api: openai.OpenAI) -> None:
    choice = ask(api, f"{TEXT}\nPlease update the order.", tools=TOOLS)
    assert calls(choice) == [("update_order", ORDER)]


def test_a_request_for_none_of_them_is_answered(api: openai.OpenAI) -> None:
    choice = ask(api, f"{TEXT}\nReturn quantity as JSON.", tools=TOOLS)
    assert calls(choice) == []
    assert list(json.loads(choice.message.content).values()) == [12]


def test_it_thinks_where_it_is_told_to(api: openai.OpenAI) -> None:
    request = f"{TEXT}\nReturn customer and quantity as JSON."
    schema = {
        "type": "json_schema",
        "json_schema": {"name": "o", "schema": TOOLS[1]["function"]["parameters"]},
    }
    plain = ask(api, request, response_format=schema)
    assert getattr(plain.message, "reasoning_content", None) is None
    told = ask(api, request, response_format=schema, reasoning_effort="low")
    assert "Tom Weber" in told.message.reasoning_content
    assert json.loads(told.message.content) == json.loads(plain.message.content) == ORDER


def test_speculation_changes_no_call(api: openai.OpenAI) -> None:
    for seed in range(3):
        settings: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "temperature": 1}
        answers = []
        for enabled in (True, False):
            speculative = {"speculative": {"enabled": enabled}}
            choice = ask(api, f"{TEXT}\nOrder something.", **settings, extra_body=speculative)
            answers.append((calls(choice), choice.message.content, choice.finish_reason))
        assert answers[0] == answers[1]
