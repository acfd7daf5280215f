"""Published chat templates: what ours makes of them, beside what Hugging Face's transformers does."""

from __future__ import annotations

import contextlib
import itertools
import json
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from server.serving import DATA

from llgtrt.templates import ChatTemplate, RenderError

from . import hugging_face

Message = dict[str, Any]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
SYSTEM = {"role": "system", "content": "Be brief.\n"}
USER = {"role": "user", "content": "  Hi <b>there</b> & “you”\n"}
ANSWER = {"role": "assistant", "content": "Hello. "}
AGAIN = {"role": "user", "content": "1 < 2?"}
ARGUMENTS = {"city": "Zürich <1>", "days": [1, 2], "deep": {"a": None, "b": True, "c": 1.5}}


def tool(name: str, text: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


TOOLS = [
    tool(
        "weather",
        "The weather <now> & later in “Zürich”.",
        city={"type": "string", "description": "A city's name"},
        unit={"type": "string", "enum": ["C", "F"], "description": "°"},
        days={"type": "array", "items": {"type": "integer"}, "description": "Which days"},
    ),
    tool("time", "What time it is."),
]


def calls(*arguments: Any, content: str = "", **more: Any) -> Message:
    """The assistant's calls of the first tools, one for each of the arguments."""
    made = [
        {"id": f"call{i:05}", "type": "function", "function": {"name": name, "arguments": given}}
        for i, (name, given) in enumerate(zip(("weather", "time"), arguments, strict=False))
    ]
    return {"role": "assistant", "content": content, **more, "tool_calls": made}


def result(number: int = 0) -> Message:
    return {
        "role": "tool",
        "content": '{"t": "20 °C"}',
        "tool_call_id": f"call{number:05}",
        "name": "weather",
    }


TALKS: dict[str, list[Message]] = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "developer": [{"role": "developer", "content": "Be brief."}, USER],
    "turns": [SYSTEM, USER, ANSWER, AGAIN],
    "no system": [USER, ANSWER, AGAIN],
    "reasoning": [USER, {**ANSWER, "reasoning_content": "hm <x>\n"}, AGAIN],
    "thought": [USER, {**ANSWER, "content": "<think>\nhm\n</think>\n\nYes."}, AGAIN],
    "call": [USER, calls(ARGUMENTS), result()],
    "calls": [USER, calls(ARGUMENTS, {}), result(0), result(1)],
    "call and more": [SYSTEM, USER, calls(ARGUMENTS, content="Let me look."), result(), ANSWER, AGAIN],
    "call, reasoned": [USER, calls(ARGUMENTS, reasoning_content="I must look."), result()],
    "call, told and reasoned": [USER, calls({}, content="Look!", reasoning_content="I must."), result()],
    "call as text": [USER, calls(json.dumps(ARGUMENTS)), result()],
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"enable_thinking": True},
    {"enable_thinking": False},
    {"thinking": True},
    {"reasoning_effort": "high"},
    {"functions": "[]", "datetime": "today"},
]
"""Variables that published templates look at; the last ones are those of one template alone."""

_GEMMA, _FUNCTIONARY = "google-gemma-2-2b-it", "meetkai-functionary-medium-v3.2"
_ONE_CALL = {
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
}
_BEYOND = {
    "Kimi-K2-Instruct",  # changes a list, as the next does
    "Kimi-K2-Thinking",
    "deepseek-ai-DeepSeek-V3.2",  # uses from_json, as the others do
    "deepseek-ai-DeepSeek-V4",
    "deepseek-ai-DeepSeek-V4-Flash-0731",
}
"""They use what we offer and transformers does not."""
_OBJECTS = {
    "ByteDance-Seed-OSS",
    "GLM-4.6",
    "GLM-4.7-Flash",
    "LFM2.5-8B-A1B",
    "MiniMax-M2",
    "MiniMax-M3",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Qwen3-Coder",
    "Qwen3.5-4B",
    "Spark2.5",
    "StepFun3.5-Flash",
    "deepseek-ai-DeepSeek-V3.2",
    "deepseek-ai-DeepSeek-V4",
    "deepseek-ai-DeepSeek-V4-Flash-0731",
    "inclusionai-ling-3.0-flash",
    "muse-glimmer",
    "openbmb-MiniCPM5-1B",
    "poolside-Laguna-S-2.1",
    "poolside-Laguna-XS-2.1",
    "poolside-Laguna-XS.2",
    "tencent-Hy3",
}
"""They want arguments of calls as objects; DeepSeek's would read a text by a filter that is not there."""
_CALLS_FAIL = {_GEMMA, _FUNCTIONARY}
REFUSED: dict[str, set[str]] = {
    "system": {_GEMMA},
    "developer": {_GEMMA, "Apertus-8B-Instruct"},
    "turns": {_GEMMA},
    "call": _CALLS_FAIL,
    "calls": _CALLS_FAIL | _ONE_CALL,
    "call and more": _CALLS_FAIL,
    "call, reasoned": _CALLS_FAIL,
    "call, told and reasoned": _CALLS_FAIL | {"openai-gpt-oss-120b"},
    "call as text": {_GEMMA, *_OBJECTS},
}
"""Templates that transformers cannot render a talk with, whatever the options are."""
NEED_TOOLS = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
}
NO_TOOLS = {"llama-cpp-deepseek-r1"}
NEED_VARIABLES = {"fireworks-ai-llama-3-firefunction-v2"}


@pytest.fixture(scope="module")
def published() -> dict[str, ChatTemplate]:
    """The templates by name."""
    file = DATA / "chat-templates.tar.gz"
    if not file.exists():
        pytest.skip("skipped: no data")
    found = {}
    with tarfile.open(file) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            content = archive.extractfile(member)
            if content is not None and path.suffix == ".jinja":
                found[path.stem] = ChatTemplate(content.read().decode(), SPECIAL)
    assert len(found) == 70
    return found


def refused(name: str, talk: str, options: dict[str, Any]) -> bool:
    """Whether transformers cannot render this."""
    tools = options["tools"] is not None
    return (
        name in REFUSED.get(talk, ())
        or (name in NEED_TOOLS and not tools)
        or (name in NO_TOOLS and tools)
        or (name in NEED_VARIABLES and "functions" not in options)
    )


def both(template: ChatTemplate, messages: list[Message], options: dict[str, Any]) -> list[str | None]:
    """Our rendering and that of transformers, of the same input; None where there is none."""
    found: list[str | None] = [None, None]
    with contextlib.suppress(RenderError):
        found[0] = template.render(messages, options)
    if "developer" not in template.source:
        messages = [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]
    with contextlib.suppress(Exception):
        found[1] = hugging_face.render(template.source, messages, SPECIAL, **options)
    return found


def variants() -> Iterator[dict[str, Any]]:
    for tools, asks, options in itertools.product((None, TOOLS), (True, False), OPTIONS):
        yield {"tools": tools, "add_generation_prompt": asks, **options}


@pytest.mark.parametrize("talk", TALKS)
def test_texts_are_those_of_transformers(published: dict[str, ChatTemplate], talk: str) -> None:
    faults = []
    for name, template in published.items():
        for options in variants():
            ours, theirs = both(template, TALKS[talk], options)
            if name in _BEYOND and theirs is None:
                assert ours is not None
                continue
            if ours != theirs or refused(name, talk, options) != (theirs is None):
                faults.append((name, options, ours, theirs))
    assert faults == []


@pytest.mark.parametrize(
    "last",
    [
        *(
            "Well, I <b>",
            "Well, I <b> ",
            "  two lines\nof it\n\n",
            "<think>\nhm",
            "<think>\nhm\n</think>\n\nYes",
        ),
        # Found in the marks behind messages, too.
        *("e", "end", "user"),
    ],
)
def test_open_messages_are_those_of_transformers(published: dict[str, ChatTemplate], last: str) -> None:
    options = {"tools": None, "add_generation_prompt": False, "continue_final_message": True}
    talk = [USER, {"role": "assistant", "content": last}]
    for name, template in published.items():
        ours, theirs = both(template, talk, options)
        assert ours == theirs, name
        assert ours is None or ours.rstrip().endswith(last.strip())


@pytest.mark.parametrize("last", ["", "  "])
def test_open_messages_without_a_text(published: dict[str, ChatTemplate], last: str) -> None:
    """Where a template trims messages, transformers also cuts white space that the template has written."""
    options = {"tools": None, "add_generation_prompt": False, "continue_final_message": True}
    talk = [USER, {"role": "assistant", "content": last}]
    for name, template in published.items():
        ours, theirs = both(template, talk, options)
        assert ours == theirs or (ours or "").rstrip() == theirs, name


DOCUMENTS = [
    {"doc_id": 1, "title": "A <b>", "text": "Rain in “Zürich”.\n", "source": ""},
    {"doc_id": 2, "title": "B", "text": "Sun in Bern."},
]
WITH_DOCUMENTS = {
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "Cohere2MoE",
    "ibm-granite-granite-3.3-2B-Instruct",
    "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.1",
}


def test_documents_are_those_of_transformers(published: dict[str, ChatTemplate]) -> None:
    placed = set()
    for name, template in published.items():
        for tools in (None, TOOLS):
            for talk in (TALKS["system"], TALKS["turns"], TALKS["calls"]):
                options = {"tools": tools, "documents": DOCUMENTS, "add_generation_prompt": True}
                ours, theirs = both(template, talk, options)
                assert ours == theirs or name in _BEYOND, name
                if template.has_place({"documents": DOCUMENTS}) and ours is not None:
                    placed.add(name)
                    assert "Sun in Bern." in ours, name
                    assert ours != both(template, talk, {**options, "documents": None})[0]
    assert placed == WITH_DOCUMENTS
