"""LangChain: structured output by each of its methods, and agents, on the chats and on the responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .asks import ARRIVAL, DAY, EXTRACT, ORDER, TOLD, UPDATE, WEATHER, Arrival, Order, get_weather
from .recorder import Recorder

langchain: Any = pytest.importorskip("langchain_openai")
messages: Any = pytest.importorskip("langchain_core.messages")
agents: Any = pytest.importorskip("langchain.agents")


def model(demo: Recorder, **settings: Any) -> Any:
    return langchain.ChatOpenAI(
        base_url=demo.url + "/v1", api_key="none", model="demo", temperature=0, max_retries=0, **settings
    )


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
@pytest.mark.parametrize("strict", [None, True])
def test_structured_output(demo: Recorder, responses: bool, method: str, strict: bool | None) -> None:
    made = model(demo, use_responses_api=responses)
    bound = made.with_structured_output(Order, method=method, strict=strict)
    assert bound.invoke(EXTRACT) == ORDER
    assert list(bound.stream(EXTRACT))[-1] == ORDER
    raw = made.with_structured_output(Order.model_json_schema(), method=method, include_raw=True).invoke(
        EXTRACT
    )
    assert raw["parsed"] == ORDER.model_dump()
    assert raw["parsing_error"] is None


def test_json_mode(demo: Recorder) -> None:
    bound = model(demo).with_structured_output(Arrival, method="json_mode")
    assert bound.invoke(DAY) == ARRIVAL
    (exchange,) = demo.exchanges
    assert exchange.asked()["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("responses", [False, True])
def test_chats_whole_streamed_and_in_batches(demo: Recorder, responses: bool) -> None:
    made = model(demo, use_responses_api=responses)
    text = made.invoke(EXTRACT).text
    assert text == "".join(chunk.text for chunk in made.stream(EXTRACT))
    assert [answer.text for answer in made.batch([EXTRACT] * 3)] == [text] * 3


@pytest.mark.parametrize("responses", [False, True])
def test_bound_tools(demo: Recorder, responses: bool) -> None:
    made = model(demo, use_responses_api=responses)
    bound = made.bind_tools([Order], tool_choice="required", parallel_tool_calls=False)
    talk = [messages.HumanMessage(UPDATE)]
    for _ in range(3):
        answer = bound.invoke(talk)
        (call,) = answer.tool_calls
        assert call["name"] == "Order"
        Order.model_validate(call["args"])
        talk += [answer, messages.ToolMessage("done", tool_call_id=call["id"])]
    grown = None
    for chunk in bound.stream(talk[:1]):
        grown = chunk if grown is None else grown + chunk
    assert grown is not None
    assert Order.model_validate(grown.tool_calls[0]["args"]) == ORDER
    assert made.bind_tools([Order], tool_choice="none", max_tokens=60).invoke(talk).tool_calls == []


@pytest.mark.parametrize("responses", [False, True])
def test_an_agent_calls_gets_the_result_and_answers(demo: Recorder, responses: bool) -> None:
    agent = agents.create_agent(model(demo, use_responses_api=responses), [get_weather])
    state = agent.invoke({"messages": [{"role": "user", "content": WEATHER}]})
    _, call, result, answer = state["messages"]
    assert [(made["name"], made["args"]) for made in call.tool_calls] == [("get_weather", {"city": "Rome"})]
    assert json.loads(result.content) == {"weather": 17}
    assert answer.text == TOLD
    # A second question, with all of that before it.
    asked = [*state["messages"], messages.HumanMessage(WEATHER)]
    assert agent.invoke({"messages": asked})["messages"][: len(asked) - 1] == state["messages"]
    assert {each.status for each in demo.exchanges} == {200}
    assert len(demo.exchanges) >= 3
