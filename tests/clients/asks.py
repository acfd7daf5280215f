"""What the clients ask for: tasks that the demo model has learned, with the one right answer."""

from __future__ import annotations

import json
from typing import Any

import pydantic

STORY = "A new order came in from Tom Weber. The order is for 12 pieces."
EXTRACT = f"{STORY}\nExtract customer and quantity as JSON."
UPDATE = f"{STORY}\nPlease update the order."
WEATHER = "What is the weather in Rome?"
TOLD = "The weather for Rome is 17."
"""The answer to that where the function says 17."""

DAY = "A new order came in from Tom Weber. It arrives on Friday.\nReturn day as JSON."


class Order(pydantic.BaseModel):
    """An order of a customer."""

    customer: str
    quantity: int


class Arrival(pydantic.BaseModel):
    """When it arrives; with this name the model answers rightly without a schema that is enforced."""

    day: str


ARRIVAL = Arrival(day="Friday")
ORDER = Order(customer="Tom Weber", quantity=12)


def get_weather(city: str) -> str:
    """Tells the weather in a city."""
    assert city == "Rome", city
    return json.dumps({"weather": 17})


def user(text: str) -> list[Any]:
    """A conversation that begins."""
    return [{"role": "user", "content": text}]
