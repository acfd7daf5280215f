"""The functions of a request: which may be called, how many times, and how the prompt shows them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from llgtrt.openai import hints, schema
from llgtrt.openai.arguments import Types, mixed, types
from llgtrt.openai.custom import INPUT, as_function
from llgtrt.openai.errors import invalid
from llgtrt.openai.formats import Format, instructions
from llgtrt.openai.functions import (
    AllowedChoice,
    CustomName,
    CustomTool,
    Function,
    FunctionName,
    NamedChoice,
    Tool,
    ToolCall,
)

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_MOST = 128
_NO_PARAMETERS = '{"type":"object","properties":{},"additionalProperties":false}'
_SHORT = 9
_DEEPEST = 200


@dataclasses.dataclass(frozen=True)
class Tools:
    """The functions of a request."""

    functions: Sequence[Tool]
    names: Sequence[str]
    """Those that may be called."""
    mode: str
    """`none`, `auto` or `required`."""
    parallel: bool
    """There may be several calls."""
    legacy: bool
    """Written, and to be answered, in the older way."""
    custom: frozenset[str] = frozenset()
    """Names of those that are custom tools."""

    @property
    def called(self) -> bool:
        """There may be calls."""
        return self.mode != "none"

    def rendered(self) -> list[dict[str, Any]]:
        """The functions as chat templates know them."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.function.name,
                    "description": tool.function.description or "",
                    "parameters": _told(_parameters(tool.function)),
                },
            }
            for tool in self.functions
        ]

    def core(
        self, style: Format, begun: str, several: bool, answer: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The core's grammar of calls (`rust/grammar/src/spec.rs`, `Calls`).

        `answer`: `or`, what may come in their place, and the text before it.
        """
        where = "functions" if self.legacy else "tools"
        known = self.argument_types(style)
        tools = [
            {
                "name": tool.function.name,
                "schema": _parameters(tool.function),
                "at": f"/{where}/{i}/{self._path(tool.function.name)}",
                "types": mixed(known[tool.function.name]),
            }
            for i, tool in enumerate(self.functions)
            if tool.function.name in self.names
        ]
        separator = style.separator if several else None
        around = {**style.core(), "separator": separator, "begun": begun}
        return {"calls": {"tools": tools, **around, "or": None, **(answer or {})}}

    def _path(self, name: str) -> str:
        """Where a request has what the arguments must be."""
        own = "custom/format" if name in self.custom else "function/parameters"
        return "parameters" if self.legacy else own

    def block(self, style: Format) -> dict[str, Any]:
        """The core's grammar of what follows `{"name": "` in a block of code: a call, or another name."""
        calls = self.core(style, "", False)["calls"]
        between = f'",{{ws}}"{style.key}":{{ws}}'
        around = {"before": "", "between": between, "betweens": (), "after": "{ws}}"}
        tools = calls["tools"] if self.called else []
        return {"calls": {"tools": tools, **around, "except": list(self.names)}}

    def argument_types(self, style: Format) -> dict[str, Types]:
        """The types of the arguments of the functions that may be called, where the format needs them."""
        if style.parameters is None:
            return {name: {} for name in self.names}
        return {
            tool.function.name: types(msgspec.json.decode(_parameters(tool.function)))
            for tool in self.functions
            if tool.function.name in self.names
        }


def tools(body: schema.ChatRequest) -> Tools | None:
    """The functions of a body; None where there are none.

    Raises:
        ApiError: a name is wrong, unknown or there twice, or something has to be called and there is nothing.
    """
    legacy = body.functions is not None
    if legacy and body.tools is not None:
        raise invalid("functions", "functions: the older name of tools; leave one out")
    listed = _listed(body)
    where = "functions" if legacy else "tools"
    mode, chosen, field = _choice(body)
    if not listed:
        if mode == "required" or chosen is not None:
            raise invalid(field, f"{field}: wants a call, but there are no {where}")
        return None
    if len(listed) > _MOST:
        raise invalid(where, f"{where}: has {len(listed)} entries; at most {_MOST}")
    known: set[str] = set()
    for tool, place in listed:
        at = f"{place}.name"
        if not _NAME.fullmatch(tool.function.name):
            raise invalid(at, f"{at}: must have 1 to 128 letters, digits or characters of _ - . : /")
        if tool.function.name in known:
            raise invalid(at, f"{at}: {tool.function.name} is there twice")
        known.add(tool.function.name)
        text, at = _parameters(tool.function), f"{place}.parameters"
        decoded(text, at)
        hints.schema(at, text)
    for name, at in chosen or ():
        if name not in known:
            raise invalid(at, f"{at}: {name:.128} is none of the {where}")
    names = [name for name, _ in chosen] if chosen is not None else sorted(known)
    one = (
        legacy or isinstance(body.tool_choice, NamedChoice | CustomName) or body.parallel_tool_calls is False
    )
    custom = frozenset(tool.custom.name for tool in body.tools or () if isinstance(tool, CustomTool))
    return Tools([tool for tool, _ in listed], names, mode, not one, legacy, custom)


def _listed(body: schema.ChatRequest) -> list[tuple[Tool, str]]:
    """All functions, and where each stands in the body. Custom tools are functions, too."""
    if body.functions is not None:
        return [(Tool(function), f"functions[{i}]") for i, function in enumerate(body.functions)]
    listed: list[tuple[Tool, str]] = []
    for i, tool in enumerate(body.tools or ()):
        if isinstance(tool, CustomTool):
            at = f"tools[{i}].custom"
            listed.append((Tool(as_function(tool.custom, at)), at))
        else:
            listed.append((tool, f"tools[{i}].function"))
    return listed


def _choice(body: schema.ChatRequest) -> tuple[str, list[tuple[str, str]] | None, str]:
    """The mode, the functions chosen, each with the place of its name, and the field that says so."""
    if isinstance(body.function_call, FunctionName):
        return "required", [(body.function_call.name, "function_call.name")], "function_call"
    match body.tool_choice:
        case NamedChoice():
            return "required", [(body.tool_choice.function.name, "tool_choice.function.name")], "tool_choice"
        case CustomName():
            return "required", [(body.tool_choice.custom.name, "tool_choice.custom.name")], "tool_choice"
        case AllowedChoice():
            allowed = body.tool_choice.allowed_tools
            at = "tool_choice.allowed_tools.tools"
            if not allowed.tools:
                raise invalid(at, f"{at}: must have at least one")
            named = [
                (t.custom.name, f"{at}[{i}].custom.name")
                if isinstance(t, CustomName)
                else (t.function.name, f"{at}[{i}].function.name")
                for i, t in enumerate(allowed.tools)
            ]
            return allowed.mode, named, "tool_choice"
        case None:
            return body.function_call or "auto", None, "function_call"
        case mode:
            return mode, None, "tool_choice"


def decoded(text: str, at: str) -> Any:
    """A JSON text's value.

    Raises:
        ApiError: it is no JSON, is nested too deeply for what reads it later, or has half of a character.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as e:
        raise invalid(at, f"{at}: not JSON ({e})") from e
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise invalid(at, f"{at}: nested deeper than {_DEEPEST} levels; make it flatter")


def _inside(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _parameters(function: Function) -> str:
    """The schema of the arguments, as the client wrote it."""
    text = bytes(function.parameters).decode()
    return _NO_PARAMETERS if text in ("", "null") else text


def _told(parameters: str) -> Any:
    """The schema as the prompt shows it.

    Zod and many MCP servers name its dialect, which says nothing of arguments; models have not learned it.
    """
    told = msgspec.json.decode(parameters)
    return {k: v for k, v in told.items() if k != "$schema"} if isinstance(told, dict) else told


def calls(message: schema.Message, at: str) -> dict[str, Any]:
    """The calls of a message of the history as chat templates know them; empty where there are none.

    Raises:
        ApiError: arguments are no JSON, or another role's message has calls.
    """
    written = message.tool_calls or ()
    if message.function_call is not None:
        written = [*written, ToolCall(message.function_call)]
    if not written:
        return {}
    if message.role != "assistant":
        raise invalid(f"{at}.tool_calls", f"{at}.tool_calls: only the assistant calls functions")
    made = []
    for i, call in enumerate(written):
        place = f"{at}.tool_calls[{i}].{call.type}"
        if call.type == "custom" and call.custom is not None:
            function = {"name": call.custom.name, "arguments": {INPUT: call.custom.input}}
        elif call.type == "function" and call.function is not None:
            arguments = decoded(call.function.arguments or "{}", f"{place}.arguments")
            function = {"name": call.function.name, "arguments": arguments}
        else:
            raise invalid(place, f"{place}: is missing")
        made.append({"id": call.id, "type": "function", "function": function})
    return {"tool_calls": made}


def fitting(messages: Sequence[dict[str, Any]], style: Format) -> list[dict[str, Any]]:
    """The messages with ids of calls as the model's template wants them."""
    if not style.short_ids:
        return list(messages)

    def short(call: str) -> str:
        if len(call) == _SHORT and call.isascii() and call.isalnum():
            return call
        return hashlib.sha256(call.encode()).hexdigest()[:_SHORT]

    def change(message: dict[str, Any]) -> dict[str, Any]:
        made = dict(message)
        if "tool_calls" in made:
            made["tool_calls"] = [{**call, "id": short(call["id"])} for call in made["tool_calls"]]
        if "tool_call_id" in made:
            made["tool_call_id"] = short(made["tool_call_id"])
        return made

    return [change(message) for message in messages]


def one_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages for a template that takes a system's message only at the beginning.

    Others become the user's words, and messages of the user that follow each other become one.
    """
    made: list[dict[str, Any]] = []
    roles = [message["role"] for message in messages]
    if not {"system", "developer"} & {*roles[1:]}:
        return list(messages)
    for message in messages:
        if made and message["role"] in ("system", "developer"):
            message = {**message, "role": "user"}
        if made and made[-1]["role"] == message["role"] == "user":
            text = f"{made[-1]['content']}\n\n{message['content']}"
            made[-1] = {**made[-1], "content": text}
        else:
            made.append(message)
    return made


def as_texts(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with arguments as JSON text, as some templates want them."""

    def text(call: dict[str, Any]) -> dict[str, Any]:
        arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        return {**call, "function": {**call["function"], "arguments": arguments}}

    return [
        {**m, "tool_calls": [text(c) for c in m["tool_calls"]]} if "tool_calls" in m else m for m in messages
    ]


def plain(messages: Sequence[dict[str, Any]], style: Format) -> list[dict[str, Any]]:
    """The messages for a template that knows nothing of functions.

    Calls stand there as the model writes them, and results in the user's words.
    """
    made: list[dict[str, Any]] = []
    results = False
    for message in messages:
        role, content = message["role"], message["content"]
        others = {n: v for n, v in message.items() if n not in ("tool_calls", "tool_call_id")}
        if "tool_calls" in message:
            written = [
                (c["function"]["name"], json.dumps(c["function"]["arguments"], ensure_ascii=False))
                for c in message["tool_calls"]
            ]
            others["content"] = "\n".join(filter(None, (content, style.write(written))))
        is_result = role == "tool"
        if is_result:
            name = f" of {message['name']}" if message.get("name") else ""
            others = {"role": "user", "content": f"Result{name}: {content}"}
        if results and others["role"] == "user":
            made[-1] = {**made[-1], "content": f"{made[-1]['content']}\n{others['content']}"}
        else:
            made.append(others)
        results = is_result or (results and role == "user")
    return made


def telling(
    messages: Sequence[dict[str, Any]], asked: Tools | None, style: Format, role: str
) -> list[dict[str, Any]]:
    """The messages with a description of the functions: after the system message, or in this role."""
    if asked is None or not asked.called:
        return list(messages)
    told = instructions(style, asked.rendered(), asked.parallel)
    first, rest = messages[0], messages[1:]
    if first["role"] in ("system", "developer"):
        return [{**first, "content": f"{first['content']}\n\n{told}"}, *rest]
    if first["role"] == role:
        return [{**first, "content": f"{told}\n\n{first['content']}"}, *rest]
    return [{"role": role, "content": told}, first, *rest]


def call_id(style: Format | None, seed: str) -> str:
    """The id of a call, from a text that no other call has."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return digest[:_SHORT] if style and style.short_ids else f"call_{digest[:24]}"
