"""Formats of calls as published chat templates show them."""

from __future__ import annotations

import json
import re

import pytest

from llgtrt.openai.arguments import types
from llgtrt.openai.formats import Format
from llgtrt.openai.known import FORMATS
from llgtrt.openai.learn import learn, learned, tool_format
from llgtrt.openai.parse import Grammar, Parser, whole
from llgtrt.openai.pieces import Arguments, Call
from llgtrt.templates import PRESETS, ChatTemplate

from .test_published import SPECIAL, TOOLS, published  # noqa: F401 (a fixture)

NONE = {
    # These have no functions.
    *("google-gemma-2-2b-it", "llama-cpp-rwkv-world", "microsoft-Phi-3.5-mini-instruct"),
    "HuggingFaceTB-SmolLM3-3B",
    # Formats that are not known.
    "MiniMax-M3",
}
"""Templates without a format."""
LISTED = {
    "Kimi-K2-Instruct": "kimi",
    "Kimi-K2-Thinking": "kimi",
    "moonshotai-Kimi-K2": "kimi",
    "Kimi-K3": "kimi_k3",
    "meetkai-functionary-medium-v3.2": "functionary",
    "muse-glimmer": "muse",
    "openai-gpt-oss-120b": "gpt_oss",
    "google-gemma-4-31B-it": "gemma",
    "google-gemma-4-31B-it-interleaved": "gemma",
    "LFM2-8B-A1B": "python",
    "LFM2.5-8B-A1B": "python",
    "LFM2.5-Instruct": "python",
    "ibm-granite-granite-3.3-2B-Instruct": "granite",
    "fireworks-ai-llama-3-firefunction-v2": "functools",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3_json",
    "meta-llama-Llama-3.2-3B-Instruct": "llama3_json",
    "meta-llama-Llama-3.3-70B-Instruct": "llama3_json",
    "llama-cpp-deepseek-r1": "deepseek",
}
"""Templates whose formats are not learned."""
GIVEN: list[tuple[str, dict[str, object]]] = [
    ("weather", {"city": "Zürich <1>\n\nx", "days": [1, 2], "unit": "C"}),
    ("time", {}),
    ("weather", {"city": ""}),
]


def test_formats_of_published_templates(published: dict[str, ChatTemplate]) -> None:  # noqa: F811
    found = {name: learned(template) for name, template in published.items()}
    assert {name for name, style in found.items() if style is None} == NONE
    assert {name for name in found if found[name] in FORMATS.values() and name in LISTED} == set(LISTED)
    for name, style in LISTED.items():
        assert found[name] == FORMATS[style], name
    for name, template in published.items():
        if name not in NONE and name not in LISTED:
            assert learn(template) == found[name], name


def test_what_a_template_writes_is_read(published: dict[str, ChatTemplate]) -> None:  # noqa: F811
    """Calls in the history of a chat are read as if the model had written them."""
    functions = {tool["function"]["name"]: types(tool["function"]["parameters"]) for tool in TOOLS}
    checked = 0
    for name, template in published.items():
        style = learned(template)
        if style is None or name in LISTED:
            continue
        given = GIVEN[: 1 if style.separator is None else len(GIVEN)]
        text = written(template, given)
        if text is None:
            continue
        checked += 1
        # Some triggers also stand where the template begins the answer.
        places = [found.start() for found in re.finditer(re.escape(style.trigger), text)]
        assert given in [read(Grammar(format=style, functions=functions), text[at:]) for at in places], name
    assert checked >= 46, checked


def read(grammar: Grammar, text: str) -> list[tuple[str, dict[str, object]]]:
    """The calls in an answer."""
    calls: list[tuple[str, str]] = []
    for piece in whole(Parser(grammar), text, "stop"):
        if isinstance(piece, Call):
            calls.append((piece.name, ""))
        elif isinstance(piece, Arguments):
            calls[-1] = calls[-1][0], calls[-1][1] + piece.text
    return [(name, json.loads(arguments)) for name, arguments in calls]


def written(template: ChatTemplate, given: list[tuple[str, dict[str, object]]]) -> str | None:
    """What a template writes of an answer with calls; None where it does not take them."""
    for as_text in (False, True):
        calls = [
            {
                "id": f"call{i:05}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments) if as_text else arguments},
            }
            for i, (name, arguments) in enumerate(given)
        ]
        answer = {"role": "assistant", "content": "", "tool_calls": calls}
        try:
            text = template.render(
                [{"role": "user", "content": "ask"}, answer],
                {"tools": TOOLS, "add_generation_prompt": False},
            )
        except ValueError:
            continue
        if given[0][0] in text.rpartition("ask")[2]:
            return text.rpartition("ask")[2]
    return None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # One function in each answer, and its arguments as text.
        (
            "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{% if loop.index > 1 %}"
            "{{ raise_exception('one call') }}{% endif %}<call {{ c.function.name }}>"
            "{% if c.function.arguments is not string %}{{ raise_exception('text') }}{% endif %}"
            "{{ c.function.arguments }}</call>{% endfor %}{% endfor %}",
            Format("<call ", ">", "</call>", "<call ", separator=None),
        ),
        # Arguments are left out: what stands there cannot be learned.
        (
            "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<call>"
            "{{ c.function.name }}</call>{% endfor %}{% endfor %}",
            None,
        ),
    ],
)
def test_templates_that_are_learned_or_not(source: str, expected: Format | None) -> None:
    assert learn(ChatTemplate(source, SPECIAL)) == expected


def test_every_format_has_a_trigger_of_its_own() -> None:
    for name, style in FORMATS.items():
        found = style.write([("get", "{}")])
        triggers = [text for text, _, _ in style.triggers(["get"])]
        assert any(found.startswith(text) for text in triggers), name
        assert re.search(r"\S", style.trigger), name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("… <tool_call> …", "hermes"),
        ("… <|start_header_id|> …", "llama3_json"),
        ("… [TOOL_CALLS] …", "mistral"),
        ("… [TOOL_CALLS] … [ARGS]", "mistral_args"),
        ("… <｜tool▁calls▁begin｜> …", "deepseek"),
        ("… <|tool_call|> … <|/tool_call|> …", "phi4"),
        ("… <|tool_call|> …", "granite"),
        ((PRESETS / "chatml.j2").read_text(), "json"),
    ],
)
def test_templates_show_the_format(source: str, name: str) -> None:
    template = ChatTemplate(source, SPECIAL)
    assert tool_format("auto", template) is FORMATS[name]
    assert tool_format("json", template) is FORMATS["json"]
