"""OpenAI's official SDK, the newest and one before 3 (the two lists of launch/requirements)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from .asks import EXTRACT, ORDER, TOLD, UPDATE, WEATHER, Order, get_weather, user
from .recorder import Recorder

ASKED: dict[str, Any] = {"model": "demo", "temperature": 0}
TOOL: Any = openai.pydantic_function_tool(Order, name="update_order")


@pytest.fixture
def runners() -> Any:
    """The SDK's runner of functions."""
    return pytest.importorskip("openai.lib.responses_tool_runner", reason="this SDK has no runner")


def test_a_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    text = client.chat.completions.create(messages=user(EXTRACT), **ASKED).choices[0].message.content
    assert text
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(messages=user(EXTRACT), **ASKED, **options))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens > 0


def test_an_async_client(demo: Recorder) -> None:
    async def texts() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=demo.url + "/v1", api_key="none", max_retries=0) as api:
            asked = [api.chat.completions.create(messages=user(EXTRACT), **ASKED) for _ in range(4)]
            return [made.choices[0].message.content for made in await asyncio.gather(*asked)]

    assert len(set(asyncio.run(texts()))) == 1


def test_a_chat_is_parsed(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(messages=user(EXTRACT), response_format=Order, **ASKED)
    assert parsed.choices[0].message.parsed == ORDER
    with client.chat.completions.stream(messages=user(EXTRACT), response_format=Order, **ASKED) as stream:
        grown = [event.parsed for event in stream if event.type == "content.delta"]
        assert stream.get_final_completion().choices[0].message.parsed == ORDER
    assert len(grown) > 1


def test_functions_are_parsed(client: openai.OpenAI) -> None:
    asked: Any = {"messages": user(UPDATE), "tools": [TOOL], "max_tokens": 200, **ASKED}
    calls = client.chat.completions.parse(**asked).choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.parsed_arguments for call in calls] == [ORDER]
    with client.chat.completions.stream(**asked) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0].message.tool_calls
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert final is not None
    assert final[0].function.parsed_arguments == ORDER


def test_responses_whole_streamed_and_parsed(client: openai.OpenAI) -> None:
    made = client.responses.create(input=EXTRACT, **ASKED)
    with client.responses.stream(input=EXTRACT, **ASKED) as stream:
        grown = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert grown == made.output_text != ""
    assert client.responses.retrieve(made.id).output_text == made.output_text
    assert client.responses.parse(input=EXTRACT, text_format=Order, **ASKED).output_parsed == ORDER
    again = client.responses.create(input=EXTRACT, previous_response_id=made.id, **ASKED)
    assert again.previous_response_id == made.id
    assert again.usage is not None
    assert made.usage is not None
    assert again.usage.input_tokens > made.usage.input_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_the_runner_of_functions(runners: Any, client: openai.OpenAI, demo: Recorder, stream: bool) -> None:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "name": "get_weather", "parameters": parameters, "strict": True}
    execute: Callable[[Any], str] = lambda told: get_weather(**told)  # noqa: E731
    runner = runners.ResponsesToolRunner(functions=[runners.RegisteredFunction(tool, execute)])
    final = runner.run(
        client, {"input": WEATHER, "max_output_tokens": 200, **ASKED}, max_steps=3, stream=stream
    )
    assert final.output_text == TOLD
    assert len(demo.on("/v1/responses")) == 2


def test_completions_and_models(client: openai.OpenAI) -> None:
    prompt = f"<|im_start|>user\n{EXTRACT}<|im_end|>\n<|im_start|>assistant\n"
    whole = client.completions.create(prompt=prompt, max_tokens=64, **ASKED).choices[0]
    chat = client.chat.completions.create(messages=user(EXTRACT), **ASKED).choices[0]
    assert whole.text == chat.message.content
    chunks = client.completions.create(prompt=prompt, max_tokens=64, stream=True, **ASKED)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
    assert [model.id for model in client.models.list()] == ["demo"]


def test_errors_are_those_of_the_sdk(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="another", messages=user("Hello."))
    assert missing.value.code == "model_not_found"
    refused: Any = {"type": "json_schema", "json_schema": {"name": "o", "schema": {"type": "text"}}}
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(messages=user("Hello."), response_format=refused, **ASKED)
    assert wrong.value.param == "response_format"
    assert json.loads(wrong.value.response.text)["error"]["message"]
