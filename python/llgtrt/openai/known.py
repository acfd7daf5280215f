"""The formats of function calls that have a name (`server.tool_format`)."""

from __future__ import annotations

from llgtrt.openai.formats import TYPES, Format, Parameters, tagged


def _listed(trigger: str, begin: str, close: str = "]", short_ids: bool = False) -> Format:
    """Calls that are JSON objects in a list."""
    texts = ('{"name": "', '", "arguments": ', "}", trigger)
    return Format(*texts, open=begin, separator=", ", close=close, short_ids=short_ids)


_OSS = (" <|constrain|>json<|message|>", "<|message|>", " json<|message|>")
"""Between a name and the arguments, gpt-oss may say that these are JSON."""
_OSS_ROLE = tuple(f"<|channel|>{channel}{rest}" for channel in ("commentary", "analysis") for rest in _OSS)
_JSON = Format('{"name": "', '", "arguments": ', "}", '{"name": "', at_start=True)
FORMATS = {
    "hermes": Format(
        '<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "<tool_call>", resumes=True
    ),
    "llama3_json": Format(
        '{"name": "', '", "parameters": ', "}", '{"name": "', separator="; ", at_start=True
    ),
    "mistral": _listed("[TOOL_CALLS]", "[TOOL_CALLS][", short_ids=True),
    "mistral_args": Format("[TOOL_CALLS]", "[ARGS]", "", "[TOOL_CALLS]", separator="", short_ids=True),
    "phi4": _listed("<|tool_call|>", "<|tool_call|>[", "]<|/tool_call|>"),
    "deepseek": Format(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        "\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        open="<｜tool▁calls▁begin｜>",
        close="<｜tool▁calls▁end｜>",
    ),
    "qwen3_coder": Format(
        "<tool_call>\n<function=",
        ">",
        "\n</function>\n</tool_call>",
        "<tool_call>",
        resumes=True,
        parameters=tagged("\n<parameter=", ">\n", "\n</parameter>", python=True),
        ends_thinking=True,
    ).with_inner(),
    "glm": Format(
        "<tool_call>",
        "",
        "\n</tool_call>",
        "<tool_call>",
        resumes=True,
        parameters=tagged("\n<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>"),
        ends_thinking=True,
    ),
    "gpt_oss": Format(
        "<|channel|>commentary to=functions.",
        _OSS[0],
        "",
        "<|channel|>commentary to=functions.",
        separator=None,
        betweens=_OSS[1:],
        alternatives=(
            Format(
                "<|channel|>analysis to=functions.",
                _OSS[0],
                "",
                "<|channel|>analysis to=functions.",
                separator=None,
                betweens=_OSS[1:],
            ),
            Format(
                " to=functions.",
                _OSS_ROLE[0],
                "",
                " to=functions.",
                separator=None,
                betweens=_OSS_ROLE[1:],
            ),
        ),
        turn="<|start|>assistant",
        lead="<|channel|>final<|message|>",
        marks=(
            "<|channel|>final<|message|>",
            "<|channel|>final <|constrain|>json<|message|>",
            "<|channel|>commentary<|message|>",
            "<|end|>",
            "<|start|>assistant",
        ),
    ),
    "gemma": Format(
        "<|tool_call>call:",
        "{",
        "}<tool_call|>",
        "<|tool_call>",
        separator="",
        resumes=True,
        parameters=tagged("", ":", "", separator=",", quote='<|"|>', nested=True),
        marks=("<|channel>thought\n<channel|>", "<|channel>", "<channel|>"),
    ),
    "granite": _listed("<|tool_call|>", "<|tool_call|>["),
    "functools": _listed("functools[", "functools["),
    "kimi": Format(
        "<|tool_call_begin|>functions.",
        ":{index}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        open="<|tool_calls_section_begin|>",
        separator="",
        close="<|tool_calls_section_end|>",
        ends_thinking=True,
        alternatives=(
            Format(
                "<|tool_call_begin|>functions.",
                ":{index}<|tool_call_argument_begin|>",
                "<|tool_call_end|>",
                "<|tool_call_begin|>",
                separator="",
            ),
        ),
    ),
    "python": Format(
        "",
        "(",
        ")",
        "<|tool_call_start|>",
        open="<|tool_call_start|>[",
        separator=", ",
        close="]<|tool_call_end|>",
        parameters=tagged("", "=", "", separator=", ", raw=False, python=True),
    ),
    "functionary": Format(
        ">>>",
        "\n",
        "",
        ">>>{name}\n",
        separator="",
        resumes=True,
        lead=">>>all\n",
        marks=(">>>all\n",),
    ),
    "kimi_k3": Format(
        '<|open|>call tool="',
        '" index="{index}"<|sep|>',
        "<|close|>call<|sep|>",
        "<|open|>tools<|sep|>",
        open="<|open|>tools<|sep|>",
        separator="",
        close="<|close|>tools<|sep|>",
        parameters=Parameters(
            '<|open|>argument key="',
            {of: f'" type="{of}"<|sep|>' for of in TYPES},
            "<|close|>argument<|sep|>",
        ),
        silent="<|open|>response<|sep|><|close|>response<|sep|>",
        lead="<|open|>response<|sep|>",
        marks=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    "muse": Format(
        " to=",
        '<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n',
        "</atem:invoke>\n</atem:function_calls>",
        " to={name}<|message|>",
        separator="<|eom|><|start|>assistant",
        resumes=True,
        parameters=tagged('<atem:parameter name="', '">', "</atem:parameter>\n"),
        turn="<|start|>assistant",
        lead=" to=user<|message|>",
        marks=(" to=user<|message|>", "<|eom|>", "<|start|>assistant"),
    ),
    "json": _JSON,
}
"""By the names that `server.tool_format` has for them."""
