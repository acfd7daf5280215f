"""Pydantic-AI: output by tools and native, and its agents, on the chats and on the responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .asks import ARRIVAL, DAY, EXTRACT, ORDER, TOLD, WEATHER, Arrival, Order, get_weather
from .recorder import Recorder

ai: Any = pytest.importorskip("pydantic_ai")
models: Any = pytest.importorskip("pydantic_ai.models.openai")
providers: Any = pytest.importorskip("pydantic_ai.providers.openai")


@pytest.fixture(params=["OpenAIChatModel", "OpenAIResponsesModel"])
def model(demo: Recorder, request: pytest.FixtureRequest) -> Any:
    provider = providers.OpenAIProvider(base_url=demo.url + "/v1", api_key="none")
    return getattr(models, request.param)("demo", provider=provider)


def agent(model: Any, **settings: Any) -> Any:
    return ai.Agent(model, retries=0, model_settings={"max_tokens": 300, "temperature": 0}, **settings)


@pytest.mark.parametrize("kind", ["default", "ToolOutput", "NativeOutput"])
def test_output(model: Any, kind: str) -> None:
    wanted = Order if kind == "default" else getattr(ai, kind)(Order)
    made = agent(model, output_type=wanted)

    async def outputs() -> list[Any]:
        whole = (await made.run(EXTRACT)).output
        async with made.run_stream(EXTRACT) as stream:
            return [whole, *[each async for each in stream.stream_output()]]

    told = asyncio.run(outputs())
    assert told[0] == told[-1] == ORDER
    assert len(told) > 1


def test_prompted_output(model: Any) -> None:
    made = agent(model, output_type=ai.PromptedOutput(Arrival))

    async def output() -> Any:
        return (await made.run(DAY)).output

    assert asyncio.run(output()) == ARRIVAL


def test_an_agent_calls_gets_the_result_and_answers(model: Any, demo: Recorder) -> None:
    async def answers() -> Any:
        return await agent(model, tools=[get_weather]).run(WEATHER)

    made = asyncio.run(answers())
    assert made.output == TOLD
    assert len(demo.exchanges) == 2
    assert made.usage.requests == 2
