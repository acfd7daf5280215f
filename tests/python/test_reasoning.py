"""Reasoning in requests: what the core is asked, and how the answer is read."""

from __future__ import annotations

from typing import Any

import pytest

from llgtrt.openai import hints
from llgtrt.openai.formats import markers
from llgtrt.openai.parse import Parser
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Reasoning

from .test_tools import CHATML, HYBRID, THINKING, TOOLS, kinds, made


def test_a_switch_that_is_off_by_itself() -> None:
    source = CHATML + "{% if enable_thinking %}<think>\n{% endif %}{# </think> #}"
    assert made(source, regex="a+")[1] == {"regex": "a+"}, "there is no reasoning to begin with"
    written, core, parts = made(source, regex="a+", enable_thinking=True)
    assert written.endswith("<think>\n")
    assert (kinds(core), parts.inside) == (["free", "bound"], True)
    on = source.replace("if enable_thinking", "if enable_thinking is not defined or enable_thinking")
    assert kinds(made(on, regex="a+")[1]) == ["free", "bound"]


def test_reasoning_that_the_prompt_opens_comes_first() -> None:
    assert markers(None, THINKING) == ("<think>", "</think>")
    _, core, parts = made(THINKING, regex="a+", thinking_budget=5)
    thinking, answer = core["sections"]
    assert thinking["free"] == {
        "triggers": [{"text": "</think>", "next": 1, "at_start": False}],
        "may_end": False,
        "limit": {"tokens": 5, "text": "</think>"},
        "reasoning": True,
    }
    assert answer == {"bound": {"grammar": {"regex": "a+"}, "next": None}}
    assert (parts.inside, parts.format) == (True, None)
    core = made(THINKING, tools=TOOLS)[1]
    assert kinds(core) == ["free", "free", "bound", "bound"]
    assert core["sections"][0]["free"]["may_end"]
    assert core["sections"][1]["free"]["triggers"][0]["next"] == 3
    # It cannot be told otherwise, and is stopped at once.
    core = made(THINKING, reasoning_effort="none")[1]
    assert core["sections"][0]["free"]["limit"] == {"tokens": 0, "text": "</think>"}


def test_reasoning_that_the_model_opens() -> None:
    core = made(HYBRID, regex="a+")[1]
    assert core["sections"][0] == {"bound": {"grammar": {"text": "<think>"}, "next": 1}}
    core, parts = made(HYBRID)[1:]
    assert kinds(core) == ["free", "free", "free"]
    assert core["sections"][0]["free"]["triggers"] == [{"text": "<think>", "next": 1, "at_start": True}]
    assert not parts.inside
    core = made(HYBRID, tools=TOOLS)[1]
    triggers = core["sections"][0]["free"]["triggers"]
    others = [(t["text"], t["next"]) for t in triggers if "```" not in t["text"]]
    assert others == [
        ('{"name": "', 4),
        ('{\n  "name": "', 3),
        ('{\n    "name": "', 3),
        ('{{"name": "', 3),
        ("<think>", 1),
    ]
    for off in (
        {"enable_thinking": False},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ):
        prompt, core, parts = made(HYBRID, **off)
        assert prompt.endswith("</think>\n\n"), off
        assert (core, parts) == (None, None), off
    assert made(HYBRID, reasoning_effort="high")[1] is not None


def test_markers_may_be_configured() -> None:
    server = {"reasoning_markers": ["<r>", "</r>"]}
    core, parts = made(CHATML, server, regex="a+")[1:]
    assert core["sections"][0]["bound"]["grammar"] == {"text": "<r>"}
    assert parts.markers == ("<r>", "</r>")
    assert made(THINKING, {"reasoning_markers": []}, regex="a+")[1] == {"regex": "a+"}


@pytest.mark.parametrize(
    ("name", "value"), [("reasoning_effort", "low"), ("enable_thinking", True), ("thinking_budget", 3)]
)
def test_what_a_model_without_reasoning_cannot_do_is_named(name: str, value: Any) -> None:
    token = hints.ignored.set([])
    try:
        assert made(CHATML, **{name: value}) == made(CHATML)
        assert hints.ignored.get() == [name]
        made(CHATML, reasoning_effort="none", enable_thinking=False)
        assert hints.ignored.get() == [name]
    finally:
        hints.ignored.reset(token)


def test_names_of_the_budget() -> None:
    for name in ("thinking_budget", "thinking_token_budget", "thinking_budget_tokens"):
        asked: dict[str, Any] = {name: 7}
        assert made(THINKING, **asked)[1]["sections"][0]["free"]["limit"]["tokens"] == 7
    assert made(THINKING, thinking_token_budget=-1)[1]["sections"][0]["free"]["limit"] is None


CODER = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    "<function={{ c.function.name }}>{% for n, v in c.function.arguments.items() %}\n<parameter={{ n }}>\n"
    "{{ v if v is string else v | tojson }}\n</parameter>{% endfor %}\n</function>\n</tool_call>{% endfor %}"
    "{% endfor %}[assistant]{{ tools }}<think>\n{# </think> #}"
)


def test_a_call_ends_reasoning_where_models_forget_the_mark() -> None:
    call = "<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"
    core, parts = made(CODER, tools=TOOLS)[1:]
    assert kinds(core) == ["free", "free", "bound", "bound"]
    assert [(t["text"], t["next"]) for t in core["sections"][0]["free"]["triggers"]] == [
        ("</think>", 1),
        ("<tool_call>", 2),
        ("<function=", 3),
    ]
    for text in (f"Hm.\n{call}", f"Hm.\n{call.removeprefix('<tool_call>')}"):
        for chunks in ([text], list(text)):
            parser = Parser(parts)
            found = [piece for chunk in chunks for piece in parser.feed(chunk)] + parser.finish()
            assert "".join(piece.text for piece in found if isinstance(piece, Reasoning)) == "Hm."
            assert "".join(piece.text for piece in found if isinstance(piece, Arguments)) == '{"n": 1}'
            assert isinstance(found[-1], Done)
    # Where a call must come, reasoning goes on to its mark.
    assert not made(CODER, tools=TOOLS, tool_choice="required")[2].calls_end_thinking


def test_channels_are_reasoning_text_and_calls() -> None:
    source = (
        "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
        "<|start|>assistant{# <|channel|>analysis<|message|> to=functions. #}{{ tools }}"
    )
    analysis, final = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
    core, parts = made(source, tools=TOOLS)[1:]
    text = f"{analysis}Hm.<|end|><|start|>assistant"
    parser = Parser(parts)
    found = [*parser.feed(f"{text}{final}Yes."), *parser.finish()]
    assert found == [Reasoning("Hm."), Content("Yes.")]
    call = '<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"n": 1}'
    parser = Parser(parts)
    found = [*parser.feed(text + call), *parser.finish()]
    assert found == [Reasoning("Hm."), Call(0, "get"), Arguments(0, '{"n": 1}'), Done(0)]
    assert {t["text"] for t in core["sections"][0]["free"]["triggers"]} >= {analysis, final, "<|end|>"}
    # A constraint holds for the text of the last channel.
    core = made(source, regex="a+", reasoning_effort="low")[1]
    assert [next(iter(s.values())).get("grammar") for s in core["sections"] if "bound" in s] == [
        {"text": analysis},
        {"text": f"<|start|>assistant{final}"},
        {"regex": "a+"},
    ]
