"""Instructor, in each of its modes for servers of OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import openai
import pydantic
import pytest

from .asks import ARRIVAL, DAY, EXTRACT, ORDER, UPDATE, Arrival, Order, user

instructor: Any = pytest.importorskip("instructor")

SCHEMAS = ("TOOLS", "TOOLS_STRICT", "FUNCTIONS", "JSON_SCHEMA", "JSON_O1", "RESPONSES_TOOLS")
"""Modes that send the schema; the others tell the model of it, or ask for JSON alone."""
ASKED: dict[str, Any] = {"model": "demo", "max_retries": 0, "temperature": 0, "max_tokens": 300}


def made(client: openai.OpenAI, mode: str) -> Any:
    return instructor.from_openai(client, mode=instructor.Mode[mode]).chat.completions


@pytest.mark.parametrize("mode", SCHEMAS)
def test_modes(client: openai.OpenAI, mode: str) -> None:
    asked = {"response_model": Order, "messages": user(EXTRACT), **ASKED}
    assert made(client, mode).create(**asked).model_dump() == ORDER.model_dump()
    *first, last = made(client, mode).create_partial(**asked)
    assert last.model_dump() == ORDER.model_dump()
    assert first


@pytest.mark.parametrize("mode", ["JSON", "MD_JSON"])
def test_modes_without_a_schema(client: openai.OpenAI, mode: str) -> None:
    told = made(client, mode).create(response_model=Arrival, messages=user(DAY), **ASKED)
    assert told.model_dump() == ARRIVAL.model_dump()


def test_parallel_tools(client: openai.OpenAI) -> None:
    class update_order(Order):  # noqa: N801
        """Updates an order."""

    class get_weather(pydantic.BaseModel):  # noqa: N801
        """Tells the weather."""

        city: str

    calls = made(client, "PARALLEL_TOOLS").create(
        response_model=Iterable[update_order | get_weather], messages=user(UPDATE), **ASKED
    )
    assert [call.model_dump() for call in calls] == [ORDER.model_dump()]
