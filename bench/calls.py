"""How many calls of functions are right in 60 tasks with `tool_choice: "auto"`, beside llama-server's."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from record import Record, Table
from servers import Server, each
from transparent import model

CONTEXT = 4096
CLIENTS = 4
TOKENS = 200
Schema = dict[str, Any]


def function(name: str, description: str, required: list[str], **properties: Schema) -> dict[str, Any]:
    """A function as requests have it."""
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FUNCTIONS = {
    one["function"]["name"]: one
    for one in (
        function(
            "get_weather",
            "Get the current weather of a city.",
            ["city"],
            city=TEXT,
            unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
        ),
        function(
            "send_email", "Send an e-mail.", ["to", "subject", "body"], to=TEXT, subject=TEXT, body=TEXT
        ),
        function(
            "convert_currency",
            "Convert an amount of money from one currency to another.",
            ["amount", "source", "target"],
            amount=NUMBER,
            source={"type": "string", "description": "three letters, such as EUR"},
            target={"type": "string", "description": "three letters, such as USD"},
        ),
        function("set_timer", "Start a timer.", ["minutes"], minutes=WHOLE),
        function("search_books", "Find books by an author.", ["author"], author=TEXT, limit=WHOLE),
        function("translate", "Translate a text.", ["text", "language"], text=TEXT, language=TEXT),
        function(
            "switch_light",
            "Switch the light of a room on or off.",
            ["room", "on"],
            room=TEXT,
            on={"type": "boolean"},
        ),
        function("add_numbers", "Add numbers.", ["numbers"], numbers={"type": "array", "items": NUMBER}),
        function("get_stock_price", "Get the price of a stock.", ["symbol"], symbol=TEXT),
        function(
            "book_table",
            "Book a table in a restaurant.",
            ["restaurant", "people", "time"],
            restaurant=TEXT,
            people=WHOLE,
            time={"type": "string", "description": "as 19:30"},
        ),
    )
}


@dataclass(frozen=True)
class Task:
    """What a user asks, and the call that is right."""

    content: str
    name: str
    arguments: dict[str, Any]


def tasks() -> list[Task]:
    """Six of each function."""
    found: list[Task] = []
    for city in ("Paris", "Oslo", "Rome", "Lima", "Cairo", "Tokyo"):
        found.append(Task(f"What is the weather in {city} right now?", "get_weather", {"city": city}))
    for name in ("bob", "eve", "tom", "ann", "joe", "sue"):
        to = f"{name}@example.com"
        asked = f'Send an email to {to} with the subject "Lunch" and the text "See you at noon".'
        found.append(Task(asked, "send_email", {"to": to, "subject": "Lunch", "body": "See you at noon"}))
    for amount in (10, 25, 99.5, 120, 1000, 7):
        given = {"amount": amount, "source": "EUR", "target": "USD"}
        found.append(Task(f"How much are {amount} EUR in USD?", "convert_currency", given))
    for minutes in (3, 5, 12, 20, 45, 90):
        found.append(Task(f"Please start a timer of {minutes} minutes.", "set_timer", {"minutes": minutes}))
    for author in ("Jane Austen", "Mark Twain", "Franz Kafka", "Toni Morrison", "Leo Tolstoy", "Homer"):
        found.append(Task(f"Find books by {author}.", "search_books", {"author": author}))
    for language in ("French", "German", "Spanish", "Italian", "Dutch", "Polish"):
        given = {"text": "good morning", "language": language}
        found.append(Task(f'Translate "good morning" into {language}.', "translate", given))
    for room in ("kitchen", "bedroom", "hall", "garage", "office", "cellar"):
        given = {"room": room, "on": len(room) % 2 == 0}
        verb = "on" if given["on"] else "off"
        found.append(Task(f"Switch the light in the {room} {verb}.", "switch_light", given))
    for last in (3, 8, 15, 40, 7, 21):
        found.append(Task(f"Add the numbers 1, 2 and {last}.", "add_numbers", {"numbers": [1, 2, last]}))
    for symbol in ("AAPL", "MSFT", "NVDA", "AMZN", "INTC", "IBM"):
        found.append(Task(f"What does the stock {symbol} cost now?", "get_stock_price", {"symbol": symbol}))
    for people in (2, 3, 4, 5, 6, 8):
        given = {"restaurant": "Luigi", "people": people, "time": "19:30"}
        found.append(Task(f"Book a table at Luigi for {people} people at 19:30.", "book_table", given))
    return found


def offered(number: int, task: Task) -> list[dict[str, Any]]:
    """One to three functions, the right one among them."""
    names = [name for name in FUNCTIONS if name != task.name]
    others = [names[(number * 7 + i * 3) % len(names)] for i in range(number % 3)]
    chosen = {task.name, *others}
    return [one for name, one in FUNCTIONS.items() if name in chosen]


def ask(server: Server, number: int, task: Task) -> str:
    """What became of a task."""
    tools = offered(number, task)
    body = {
        "model": model(server),
        "messages": [{"role": "user", "content": task.content}],
        "tools": tools,
        "max_tokens": TOKENS,
        "temperature": 0,
    }
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            message = json.load(response)["choices"][0]["message"]
    except urllib.error.HTTPError:
        return "refused"
    calls = message.get("tool_calls") or []
    if not calls:
        content = message.get("content") or ""
        return "call as text" if f'"{task.name}"' in content else "text"
    return judged(calls[0]["function"], task)


def judged(call: dict[str, Any], task: Task) -> str:
    """Whether a call is right."""
    if call["name"] not in FUNCTIONS:
        return "unknown function"
    schema = FUNCTIONS[call["name"]]["function"]["parameters"]
    try:
        arguments = json.loads(call["arguments"])
        jsonschema.validate(arguments, schema)
    except (ValueError, jsonschema.ValidationError):
        return "invalid"
    is_right = all(same(arguments.get(key), value) for key, value in task.arguments.items())
    return "right" if call["name"] == task.name and is_right else "wrong"


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike, but for case and punctuation at the end."""
    if isinstance(one, str) and isinstance(other, str):
        return one.strip(" .").lower() == other.lower()
    return bool(one == other)


def count(server: Server) -> Counter[str]:
    """What became of all tasks."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = [pool.submit(ask, server, number, task) for number, task in enumerate(tasks())]
        return Counter(answer.result() for answer in asked)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--peer", help="the llama-server program")


def run(args: argparse.Namespace) -> int:
    """Asks for every call; 1 where one of ours came as text, or is not valid."""
    results = each(args.model, args.peer, CLIENTS, CONTEXT, count)
    kinds = ["right", "wrong", "text", "call as text", "invalid", "unknown function", "refused"]
    table = Table(f"Calls of {Path(args.model).stem}, of {len(tasks())} tasks", ["server", *kinds])
    table.rows = [[name, *(str(found[kind]) for kind in kinds)] for name, found in results.items()]
    Record("calls", [table]).save()
    own = results["llgtrt"]
    return int(own["call as text"] + own["invalid"] + own["unknown function"] > 0)
