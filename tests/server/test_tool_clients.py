"""Libraries that call functions by default, on the demo model: each is skipped where it is not installed.

That what it calls obeys the schema is the grammar's work.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import openai
import pydantic
import pytest

from .serving import Server

pytestmark = pytest.mark.filterwarnings("default")
"""The libraries' own."""


class Order(pydantic.BaseModel):
    """An order of a customer."""

    size: Literal["small", "large"]
    express: bool


@pytest.fixture(scope="module")
def client(demo: Server) -> openai.OpenAI:
    """The official client."""
    return demo.client()


def test_instructors_default_mode(client: openai.OpenAI) -> None:
    instructor: Any = pytest.importorskip("instructor")
    made = instructor.from_openai(client).chat.completions.create(
        model="demo",
        response_model=Order,
        messages=[{"role": "user", "content": "A large one, and quickly."}],
        max_retries=0,
    )
    assert isinstance(made, Order)


def test_langchains_bound_tools(demo: Server) -> None:
    langchain: Any = pytest.importorskip("langchain_openai")
    core: Any = pytest.importorskip("langchain_core.messages")
    model = langchain.ChatOpenAI(
        base_url=demo.url + "/v1", api_key="none", model="demo", temperature=0, max_retries=0, max_tokens=300
    )
    bound = model.bind_tools([Order], tool_choice="required", parallel_tool_calls=False)
    talk = [core.HumanMessage("A large one, and quickly.")]
    for _ in range(3):
        answer = bound.invoke(talk)
        (call,) = answer.tool_calls
        assert call["name"] == "Order"
        Order.model_validate(call["args"])
        talk += [answer, core.ToolMessage("done", tool_call_id=call["id"])]
    grown = None
    for chunk in bound.stream(talk[:1]):
        grown = chunk if grown is None else grown + chunk
    assert grown is not None
    Order.model_validate(grown.tool_calls[0]["args"])
    assert model.bind_tools([Order], tool_choice="none").invoke(talk).tool_calls == []
    named = model.with_structured_output(Order, method="function_calling")
    assert isinstance(named.invoke("A small one."), Order)


def test_pydantic_ais_default_output(demo: Server) -> None:
    ai: Any = pytest.importorskip("pydantic_ai")
    models: Any = pytest.importorskip("pydantic_ai.models.openai")
    providers: Any = pytest.importorskip("pydantic_ai.providers.openai")

    async def ordered() -> Any:
        async with openai.AsyncOpenAI(base_url=demo.url + "/v1", api_key="none") as api:
            model = models.OpenAIChatModel("demo", provider=providers.OpenAIProvider(openai_client=api))
            agent = ai.Agent(model, output_type=Order, retries=0, model_settings={"max_tokens": 300})
            return (await agent.run("A large one, and quickly.")).output

    assert isinstance(asyncio.run(ordered()), Order)


def test_the_official_clients_tools(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(
        model="demo",
        messages=[{"role": "user", "content": "A large one, and quickly."}],
        tools=[openai.pydantic_function_tool(Order)],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=300,
    )
    calls = parsed.choices[0].message.tool_calls
    assert calls is not None
    assert isinstance(calls[0].function.parsed_arguments, Order)


def test_speculation_changes_no_call(demo: Server) -> None:
    tools = [openai.pydantic_function_tool(Order)]
    for seed in range(3):
        answers = []
        for enabled in (True, False):
            fields = {
                "messages": [{"role": "user", "content": "Order something."}],
                "tools": tools,
                "tool_choice": "required",
                "seed": seed,
                "max_tokens": 200,
                "speculative": {"enabled": enabled},
            }
            choice = demo.http.post("/v1/chat/completions", json=fields).json()["choices"][0]
            calls = [call["function"] for call in choice["message"]["tool_calls"]]
            answers.append((calls, choice["message"]["content"], choice["finish_reason"]))
        assert answers[0] == answers[1]


@pytest.fixture(scope="module")
def claude(demo: Server) -> Any:
    """Anthropic's official client."""
    anthropic: Any = pytest.importorskip("anthropic")
    return anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=0)


def test_anthropics_messages(claude: Any) -> None:
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


def test_anthropics_tools(claude: Any) -> None:
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


def test_anthropics_parsed_answers(claude: Any) -> None:
    talk = [{"role": "user", "content": "A large one, and quickly."}]
    parsed = claude.messages.parse(model="demo", max_tokens=300, messages=talk, output_format=Order)
    assert isinstance(parsed.parsed_output, Order)


def test_anthropics_errors(claude: Any) -> None:
    anthropic: Any = pytest.importorskip("anthropic")
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
