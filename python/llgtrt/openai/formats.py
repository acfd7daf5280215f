"""How models write calls of functions and reasoning, recognised by their chat template."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

Markers = tuple[str, str]
"""The texts before and behind reasoning."""


@dataclasses.dataclass(frozen=True)
class Format:
    """Texts around the names and arguments of calls (`rust/src/grammar/spec.rs`, `Calls`)."""

    before: str
    between: str
    after: str
    trigger: str
    """The beginning of `open` and `before` by which a call is known in free text."""
    open: str = ""
    separator: str = "\n"
    close: str = ""
    at_start: bool = False
    """The trigger counts only at the beginning of an answer."""
    resumes: bool = False
    """Text may follow a call, and another call that text."""
    short_ids: bool = False
    """Templates want ids of nine letters and digits."""

    @property
    def head(self) -> str:
        """All that comes before the first name."""
        return self.open + self.before

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, as names and arguments, the way a model writes them."""
        written = (f"{self.before}{name}{self.between}{arguments}{self.after}" for name, arguments in calls)
        return self.open + self.separator.join(written) + self.close


_JSON = Format('{"name": "', '", "arguments": ', "}", '{"name": "', at_start=True)
FORMATS = {
    "hermes": Format(
        '<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "<tool_call>", resumes=True
    ),
    "llama3_json": Format(
        '{"name": "', '", "parameters": ', "}", '{"name": "', separator="; ", at_start=True
    ),
    "mistral": Format(
        '{"name": "',
        '", "arguments": ',
        "}",
        "[TOOL_CALLS]",
        open="[TOOL_CALLS][",
        separator=", ",
        close="]",
        short_ids=True,
    ),
    "mistral_args": Format("[TOOL_CALLS]", "[ARGS]", "", "[TOOL_CALLS]", separator="", short_ids=True),
    "phi4": Format(
        '{"name": "',
        '", "arguments": ',
        "}",
        "<|tool_call|>",
        open="<|tool_call|>[",
        separator=", ",
        close="]<|/tool_call|>",
    ),
    "deepseek": Format(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        "\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        open="<｜tool▁calls▁begin｜>",
        close="<｜tool▁calls▁end｜>",
    ),
    "json": _JSON,
}
"""By the names that `server.tool_format` has for them."""

_SIGNS = (
    ("<|tool_call|>", "phi4"),
    ("[ARGS]", "mistral_args"),
    ("[TOOL_CALLS]", "mistral"),
    ("<｜tool▁calls▁begin｜>", "deepseek"),
    ("<tool_call>", "hermes"),
    ("<|python_tag|>", "llama3_json"),
    ("<|start_header_id|>", "llama3_json"),
)
"""What a template has in it, the first that is found."""
_SPACED = "[TOOL_CALLS] ["
"""How Mistral's models up to version 3 of their tokenizer write it."""

_MARKERS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
"""Known markers of reasoning."""


def tool_format(name: str, template: str) -> Format:
    """The format of this name; `auto`: the template's."""
    found = (known for sign, known in _SIGNS if sign in template)
    if name == "auto" and _SPACED in template:
        return dataclasses.replace(FORMATS["mistral"], open=_SPACED)
    return FORMATS[next(found, "json") if name == "auto" else name]


def markers(configured: Sequence[str] | None, template: str) -> Markers | None:
    """The configured markers; without them, the template's. None: there is no reasoning."""
    if configured is not None:
        return (configured[0], configured[1]) if configured else None
    return next((pair for pair in _MARKERS if pair[1] in template), None)


def instructions(style: Format, tools: Sequence[dict[str, Any]], parallel: bool) -> str:
    """What a model is told whose template has no place for functions."""
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    example = style.write([("NAME", "{…}")])
    several = "; several calls one after the other" if parallel else ", and one call only"
    return "\n".join(
        [
            "You can call functions. These are there, each with the JSON schema of its arguments:",
            *lines,
            f"To call one, answer with nothing but its name and arguments in this form{several}:",
            example,
        ]
    )
