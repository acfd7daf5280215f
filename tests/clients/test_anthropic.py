"""Anthropic's official SDK, on `/v1/messages`."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
import pytest

from .asks import TOLD, WEATHER, get_weather, user
from .recorder import Recorder

anthropic: Any = pytest.importorskip("anthropic")


class Order(pydantic.BaseModel):
    """An order of a customer."""

    size: Literal["small", "large"]
    express: bool


@pytest.fixture
def claude(demo: Recorder) -> Any:
    """Anthropic's official client."""
    return anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=0)


def test_messages(claude: Any) -> None:
    talk = [{"role": "user", "content": "Where is the harbour?"}]
    message = claude.messages.create(model="demo", max_tokens=40, messages=talk, extra_body={"seed": 1})
    with claude.messages.stream(model="demo", max_tokens=40, messages=talk, extra_body={"seed": 1}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].text == text == message.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == (
        message.stop_reason,
        message.usage.output_tokens,
    )
    count = claude.messages.count_tokens(model="demo", messages=talk)
    assert count.input_tokens == message.usage.input_tokens + message.usage.cache_read_input_tokens


def test_tools(claude: Any) -> None:
    tools = [{"name": "order", "input_schema": Order.model_json_schema()}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    settings: Any = {"model": "demo", "max_tokens": 300, "tools": tools, "tool_choice": choice}
    talk: list[Any] = [{"role": "user", "content": "A large one, and quickly."}]
    for _ in range(3):
        message = claude.messages.create(messages=talk, **settings)
        (block,) = message.content
        assert (message.stop_reason, block.type, block.name) == ("tool_use", "tool_use", "order")
        Order.model_validate(block.input)
        result = {"type": "tool_result", "tool_use_id": block.id, "content": "done"}
        talk += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    with claude.messages.stream(messages=talk, **settings) as stream:
        grown = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert Order.model_validate_json("".join(grown)) == Order.model_validate(final.content[0].input)


def test_parsed_answers(claude: Any) -> None:
    talk = [{"role": "user", "content": "A large one, and quickly."}]
    parsed = claude.messages.parse(model="demo", max_tokens=300, messages=talk, output_format=Order)
    assert isinstance(parsed.parsed_output, Order)


def test_errors(claude: Any) -> None:
    talk = [{"role": "user", "content": "Hello."}]
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="another", max_tokens=4, messages=talk)
    assert missing.value.type == "not_found_error"
    assert missing.value.request_id
    with (
        pytest.raises(anthropic.BadRequestError, match="max_tokens"),
        claude.messages.stream(model="demo", max_tokens=0, messages=talk),
    ):
        pass


def test_the_runner_of_functions(claude: Any, demo: Recorder) -> None:
    tool = anthropic.beta_tool(get_weather)
    runner = claude.beta.messages.tool_runner(
        model="demo", max_tokens=200, tools=[tool], messages=user(WEATHER), extra_body={"temperature": 0}
    )
    assert runner.until_done().content[0].text == TOLD
    # It asks for a conversation held by the server, is refused, and sends its own from then on.
    assert [each.status for each in demo.exchanges] == [400, 200, 200]
