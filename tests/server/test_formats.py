"""Random calls of functions from the field, in every format that published chat templates show."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import httpx
import pytest

from llgtrt.openai.formats import Format
from llgtrt.openai.learn import learned
from llgtrt.templates import ChatTemplate

from .judges import PythonJudge
from .serving import DATA, PATIENCE, Server, serving
from .walks import maskbench

COUNT = int(os.environ.get("LLGTRT_CALLS", "24"))
"""Functions that are called in each format."""
# Bytes are the ids of the weightless engine's tokens: strings and lists should come to an end now and then.
BIAS = {str(ord('"')): 5, str(ord("]")): 4, str(ord("}")): 4, str(ord("<")): 3, str(ord("\n")): 2}


def templates() -> dict[str, str]:
    """One template for each format, by the name of the first that has it."""
    file = DATA / "chat-templates.tar.gz"
    if not file.exists():
        return {}
    found: dict[str, str] = {}
    known: list[Format] = []
    with tarfile.open(file) as archive:
        for member in sorted(archive, key=lambda member: member.name):
            content = archive.extractfile(member)
            if content is None or PurePosixPath(member.name).suffix != ".jinja":
                continue
            source = content.read().decode()
            style = learned(ChatTemplate(source, {"bos_token": "", "eos_token": ""}))
            if style is not None and style not in known:
                known.append(style)
                found[PurePosixPath(member.name).stem] = source
    return found


TEMPLATES = templates()


def functions() -> list[tuple[str, Any]]:
    """The same ones each time: names and schemas of objects."""
    found: list[tuple[str, Any]] = []
    for case in maskbench():
        if case.name.startswith("BFCL"):
            found += [(name, inner) for name, inner in case.schema.get("properties", {}).items()]
        elif case.schema.get("type") == "object" and case.name.startswith(("Glaive", "MCP")):
            found.append((f"call_{len(found)}", case.schema))
    usable = [(name[:60], schema) for name, schema in found if name.isascii() and " " not in name]
    return random.Random(2).sample(usable, min(COUNT, len(usable)))


@pytest.mark.parametrize("name", TEMPLATES or ["none"])
def test_random_calls(name: str, tmp_path: Path) -> None:
    if not TEMPLATES:
        pytest.skip("skipped: no data")
    file = tmp_path / "template.jinja"
    file.write_text(TEMPLATES[name])
    with serving("toy:context=16384", config={"server": {"chat_template": str(file)}}) as server:
        server.wait_ready()
        outcomes, wrong = asyncio.run(call_all(server, functions()))
        check_others(server)
    print(name, dict(outcomes))
    assert not wrong
    # Some templates cannot write such functions into a prompt.
    assert outcomes["called"] >= (COUNT - outcomes["not written"]) * 0.8, outcomes


DESCRIBED: dict[str, dict[str, Any]] = {
    "tags": {
        "open": "<calls>\n",
        "before": '<call name="',
        "between": '">',
        "after": "\n</call>",
        "close": "\n</calls>",
        "parameters": {"before": "\n<arg ", "between": ">", "after": "</arg>"},
    },
    "values with their types": {
        "before": "@",
        "between": "(",
        "after": ")",
        "separator": ", ",
        "parameters": {
            "before": "",
            "between": {
                **dict.fromkeys(("null", "boolean", "number", "array", "object"), " := "),
                "string": " := text ",
            },
            "after": "",
            "separator": ", ",
            "quote": "%%",
            "nested": True,
        },
    },
    "JSON": {"before": "call ", "between": "#{id} ", "after": " end", "resumes": True},
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_random_calls_in_a_described_format(name: str) -> None:
    with serving("toy:context=16384", config={"server": {"tool_format": DESCRIBED[name]}}) as server:
        server.wait_ready()
        outcomes, wrong = asyncio.run(call_all(server, functions()))
        check_others(server)
    print(name, dict(outcomes))
    assert not wrong
    assert outcomes["called"] >= COUNT * 0.8, outcomes


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"before": "<"}, "server.tool_format: Object missing required field `between`"),
        ("hermse", 'server.tool_format: must be one of "auto", "hermes"'),
        (5, "or an object, not 5"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused_at_start(tmp_path: Path, given: Any, told: str) -> None:
    file = tmp_path / "runtime.json"
    file.write_text(json.dumps({"server": {"tool_format": given}}))
    command = [sys.executable, "-m", "llgtrt", "serve", "toy", "--port", "0", "--runtime-config", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 2
    assert told in ended.stderr


def check_others(server: Server) -> None:
    """Text with calls, and answers by a constraint, alone and in the place of calls."""
    tools = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]
    body = {"messages": [{"role": "user", "content": "walk"}], "tools": tools, "temperature": 1.5, "seed": 1}
    constrained = {"regex": "[0-9]{3}"}
    given: list[dict[str, Any]] = [{}, {"tool_choice": "none"}, {"tools": None, **constrained}, constrained]
    for more in given:
        answer = server.http.post("/v1/chat/completions", json={**body, **more, "max_tokens": 400})
        if answer.status_code == 400:
            assert answer.json()["error"]["param"] == "messages", answer.text
            continue
        choice = answer.json()["choices"][0]
        assert answer.status_code == 200, answer.text
        if more is given[2]:
            content = choice["message"]["content"]
            assert re.fullmatch("[0-9]{3}", content), (more, content)


async def call_all(server: Server, cases: list[tuple[str, Any]]) -> tuple[Counter[str], list[Any]]:
    """What came of each function: its calls are valid, and the same where they are streamed."""
    gate = asyncio.Semaphore(8)
    outcomes: Counter[str] = Counter()
    wrong: list[Any] = []

    async def one(client: httpx.AsyncClient, number: int, name: str, parameters: Any) -> None:
        body = {
            "messages": [{"role": "user", "content": "walk"}],
            "tools": [
                {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}
            ],
            "tool_choice": "required",
            "parallel_tool_calls": number % 2 == 0,
            "temperature": 1.5,
            "seed": number,
            "max_tokens": 1500,
            "logit_bias": BIAS,
        }
        async with gate:
            answer = await client.post("/v1/chat/completions", json=body)
            if answer.status_code == 400:
                error = answer.json()["error"]
                outcomes["not written" if error["param"] == "messages" else error["message"]] += 1
                return
            choice = answer.json()["choices"][0]
            calls = choice["message"].get("tool_calls", [])
            outcomes["called" if calls else choice["finish_reason"]] += 1
            judge = PythonJudge(parameters, {})
            for call in calls:
                value = json.loads(call["function"]["arguments"])
                said = judge.complaint(value)
                if call["function"]["name"] != name or (said and not judge.excuse(value)):
                    wrong.append((name, parameters, call, said))
            if choice["finish_reason"] not in ("tool_calls", "length") or choice["message"]["content"]:
                wrong.append((name, choice))
            async with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as stream:
                lines = (await stream.aread()).decode().split("\n")
            if choice["finish_reason"] == "tool_calls" and joined(lines) != [c["function"] for c in calls]:
                wrong.append((name, choice, joined(lines)))

    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        await asyncio.gather(*(one(client, i, *case) for i, case in enumerate(cases)))
    return outcomes, wrong


def joined(lines: list[str]) -> list[Any]:
    """The functions that a stream calls."""
    calls: list[Any] = []
    for line in lines:
        data = line.removeprefix("data: ")
        if not line.startswith("data: ") or data == "[DONE]":
            continue
        for choice in json.loads(data)["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                if call["index"] == len(calls):
                    calls.append(dict(call["function"]))
                else:
                    calls[call["index"]]["arguments"] += call["function"]["arguments"]
    return calls
