"""Prompts of well-known families of models, with functions and reasoning; and how each one answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llgtrt.openai.known import FORMATS
from llgtrt.templates import ChatTemplate

from .families import FAMILIES
from .test_tools import SPECIAL, made

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SHOWN = json.dumps(TOOL)
CALL: Any = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Zürich"}'},
}
TALK: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Rain?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "I must look."},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
ID = "74196fe72"

TOLD = (
    "Be brief.\n\nYou can call functions. These are there, each with the JSON schema of its arguments:\n"
    + json.dumps(TOOL["function"])
    + "\nTo call one, answer with nothing but its name and arguments in this form; several calls one after "
    'the other:\n{"name": "NAME", "arguments": {…}}'
)
WRITTEN = '{"name": "weather", "arguments": {"city": "Zürich"}}'
QWEN_HEAD = (
    "<|im_start|>system\nBe brief.\n\n# Tools\n\nYou have these functions:\n<tools>\n"
    + SHOWN
    + "\n</tools>\n\nFor each call, return:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
    "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n"
)
QWEN_TAIL = (
    f"\n<tool_call>\n{WRITTEN}\n</tool_call><|im_end|>\n"
    "<|im_start|>user\n<tool_response>\nsunny\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
)
GOLDEN = {
    "llama-3.1": (
        "<s><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n"
        "Given the following functions, answer with a JSON for a function call.\n\n"
        + json.dumps(TOOL, indent=4)
        + "\n\nRain?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        '{"name": "weather", "parameters": {"city": "Zürich"}}<|eot_id|>'
        "<|start_header_id|>ipython<|end_header_id|>\n\nsunny<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "qwen-2.5": QWEN_HEAD.removesuffix("\n") + QWEN_TAIL,
    "qwen-3": QWEN_HEAD + "<think>\nI must look.\n</think>\n\n" + QWEN_TAIL,
    "mistral": (
        f"<s>[AVAILABLE_TOOLS] [{SHOWN}][/AVAILABLE_TOOLS][INST] Rain?[/INST]"
        + f'[TOOL_CALLS] [{WRITTEN[:-1]}, "id": "{ID}"}}]</s>'
        + f'[TOOL_RESULTS] {{"content": sunny, "call_id": "{ID}"}}[/TOOL_RESULTS]'
    ),
    "gemma-3": (
        f"<s><start_of_turn>user\n{TOLD}\n\nRain?<end_of_turn>\n"
        f"<start_of_turn>model\n{WRITTEN}<end_of_turn>\n"
        "<start_of_turn>user\nResult: sunny<end_of_turn>\n<start_of_turn>model\n"
    ),
    "phi-4": (
        f"<|im_start|>system<|im_sep|>{TOLD}<|im_end|><|im_start|>user<|im_sep|>Rain?<|im_end|>"
        f"<|im_start|>assistant<|im_sep|>{WRITTEN}<|im_end|>"
        "<|im_start|>user<|im_sep|>Result: sunny<|im_end|><|im_start|>assistant<|im_sep|>"
    ),
}
ANSWERS = {
    "llama-3.1": ("llama3_json", None),
    "qwen-2.5": ("hermes", None),
    "qwen-3": ("hermes", "<think>"),
    "mistral": ("mistral", None),
    "deepseek-r1": ("deepseek", "<think>"),
    "gemma-3": ("json", None),
    "phi-4": ("json", None),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_talk_with_a_call(name: str) -> None:
    assert made(FAMILIES[name], tools=[TOOL], messages=TALK)[0] == GOLDEN[name]


@pytest.mark.parametrize("name", FAMILIES)
def test_how_it_answers(name: str) -> None:
    style, begin = ANSWERS[name]
    parts = made(FAMILIES[name], tools=[TOOL])[2]
    assert parts.format.before == FORMATS[style].before
    assert parts.format.trigger == FORMATS[style].trigger
    assert (parts.markers[0] if parts.markers else None) == begin
    assert parts.inside == (name == "deepseek-r1")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("with_tools", [True, False])
def test_transformers_renders_the_same(name: str, with_tools: bool) -> None:
    transformers: Any = pytest.importorskip("transformers")
    tokenizers: Any = pytest.importorskip("tokenizers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, "x")), **SPECIAL
    )
    arguments: Any = CALL["function"]["arguments"]
    call = {**CALL, "id": "abc123XYZ"}
    if name != "deepseek-r1":
        call = {**call, "function": {"name": "weather", "arguments": json.loads(arguments)}}
    talk = [TALK[0], TALK[1], {"role": "assistant", "content": " <b>\n"}, {"role": "user", "content": "é"}]
    if with_tools and name not in ("gemma-3", "phi-4"):
        answer = {"role": "assistant", "content": "", "tool_calls": [call]}
        talk += [answer, {"role": "tool", "tool_call_id": "abc123XYZ", "content": "sunny"}]
    tools = [TOOL] if with_tools else None
    options = {"add_generation_prompt": True, "tools": tools}
    expected = tokenizer.apply_chat_template(talk, chat_template=FAMILIES[name], tokenize=False, **options)
    assert ChatTemplate(FAMILIES[name], SPECIAL).render(talk, options) == expected


def test_deepseek_takes_arguments_as_text_and_opens_the_reasoning() -> None:
    source = FAMILIES["deepseek-r1"]
    answer = {"role": "assistant", "content": "<think>So.</think>Sunny."}
    later = [*TALK, answer, {"role": "user", "content": "?"}]
    prompt = made(source, messages=later)[0]
    assert '<｜tool▁sep｜>weather\n```json\n{"city": "Zürich"}\n```<｜tool▁call▁end｜>' in prompt
    assert prompt.endswith("Sunny.<｜end▁of▁sentence｜><｜User｜>?<｜Assistant｜><think>\n")


def test_qwen_3_reasons_unless_told_otherwise() -> None:
    source = FAMILIES["qwen-3"]
    assert made(source)[0].endswith("<|im_start|>assistant\n")
    prompt, core, parts = made(source, reasoning_effort="none")
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert (core, parts) == (None, None)
    # Reasoning before the last question is not shown.
    later = [*TALK, {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "?"}]
    assert "I must look." not in made(source, messages=later, tools=[TOOL])[0]


def test_a_template_may_refuse_a_talk() -> None:
    with pytest.raises(Exception, match="must alternate"):
        made(FAMILIES["gemma-3"], messages=[TALK[1], TALK[1]])
    with pytest.raises(Exception, match="only supports single tool-calls"):
        made(FAMILIES["llama-3.1"], messages=[TALK[1], {**TALK[2], "tool_calls": [CALL, CALL]}])


def test_reasoning_is_left_out_where_a_template_refuses_it_beside_a_text() -> None:
    refuses = (
        "{% if tools %}{% endif %}{% for m in messages %}"
        "{% if m.thinking and m.content %}{{ raise_exception('not both') }}{% endif %}"
        "[{{ m.thinking }}|{{ m.content }}]{% endfor %}"
    )
    assert "[I must look.|]" in made(refuses, messages=TALK)[0]
    both = {**TALK[2], "content": "Let me look."}
    assert "[|Let me look.]" in made(refuses, messages=[TALK[1], both, TALK[3]])[0]


def test_mistrals_older_templates_have_a_space() -> None:
    core = made(FAMILIES["mistral"], tools=[TOOL], tool_choice="required")[1]
    assert core["calls"]["open"] == "[TOOL_CALLS] ["
    newer = FAMILIES["mistral"].replace("[TOOL_CALLS] [", "[TOOL_CALLS][")
    core = made(newer, tools=[TOOL], tool_choice="required")[1]
    assert core["calls"]["open"] == "[TOOL_CALLS]["
