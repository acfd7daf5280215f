"""Anthropic's bodies to those of OpenAI's chats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from llgtrt.openai import hints, response_formats
from llgtrt.openai import messages_schema as schema
from llgtrt.openai import schema as openai
from llgtrt.openai.errors import ApiError, invalid
from llgtrt.openai.functions import CustomTool, Function, FunctionCall, FunctionName, NamedChoice, ToolCall
from llgtrt.openai.functions import Tool as FunctionTool
from llgtrt.openai.tools import decoded

_SAME = (
    *("model", "stream", "max_tokens", "temperature", "top_p", "top_k", "seed", "speculative", "priority"),
    *("cache_salt", "chat_template_kwargs"),
)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_TURNS = ("user", "assistant")
_HOSTED = ("web_search_", "web_fetch_", "code_execution_", "tool_search_")
"""How the types of tools begin that Anthropic's servers run."""


def chat(body: schema.CountRequest) -> openai.ChatRequest:
    """The chat that says the same; without the fields that a body which only counts does not have.

    Raises:
        ApiError: a field asks for what is not there, or contradicts another.
    """
    messages = _merged([*_system(body), *_messages(body.messages)])
    goes_on = bool(messages) and messages[-1].role == "assistant"
    fields = {name: value for name in _SAME if (value := getattr(body, name, None)) is not None}
    if isinstance(body, schema.MessagesRequest):
        if body.max_tokens == 0:
            raise invalid("max_tokens", "max_tokens: must be at least 1")
        if body.stop_sequences:
            # The answer says which of them it was.
            fields |= {"stop": body.stop_sequences, "include_stop_str_in_output": True}
    return openai.ChatRequest(
        messages=messages,
        tools=_tools(body.tools) if body.tools else None,
        response_format=_format(body),
        continue_final_message=goes_on or None,
        **_tool_choice(body),
        **_thinking(body, goes_on),
        **fields,
    )


def _system(body: schema.CountRequest) -> list[openai.Message]:
    if not body.system:
        return []
    return [openai.Message("system", _texts(body.system, "system"))]


def _texts(content: str | Sequence[schema.Block], at: str) -> str:
    """Content in which there is nothing but text."""
    if isinstance(content, str):
        return content
    return "".join(_text(block, f"{at}[{i}]") for i, block in enumerate(content))


def _text(block: schema.Block, at: str) -> str:
    if block.type != "text":
        raise _unsupported(block, at, "only text is")
    return _member(block.text, f"{at}.text")


def _unsupported(block: schema.Block, at: str, known: str) -> ApiError:
    message = f"{at}.type: {block.type:.40} is not supported here, {known}"
    return invalid(f"{at}.type", message, "unsupported_parameter")


def _member(value: str | None, at: str) -> str:
    if value is None:
        raise invalid(at, f"{at}: missing")
    return value


def _messages(messages: Sequence[schema.Message]) -> Iterator[openai.Message]:
    if not messages:
        raise invalid("messages", "messages: must have at least one")
    names: dict[str, str] = {}
    for i, message in enumerate(messages):
        at = f"messages[{i}].content"
        match message.role:
            case "assistant":
                yield _assistant(message.content, at, names)
            case "user" if not isinstance(message.content, str):
                yield from _user(message.content, at, names)
            case role:
                yield openai.Message(role, _texts(message.content, at))
    if isinstance(messages[-1].content, list) and messages[-1].role == "assistant":
        last = [block.type for block in messages[-1].content]
        if "tool_use" in last or "text" not in last:
            raise invalid("messages", "messages: the last one must be the user's, or end with text")


def _assistant(content: str | list[schema.Block], at: str, names: dict[str, str]) -> openai.Message:
    """The assistant's message; `names` learns those of the tools that were used, by id."""
    if isinstance(content, str):
        return openai.Message("assistant", content)
    made = openai.Message("assistant", "")
    texts, reasoning, calls = [], [], []
    for i, block in enumerate(content):
        place = f"{at}[{i}]"
        match block.type:
            case "text":
                texts.append(_member(block.text, f"{place}.text"))
            case "thinking":
                reasoning.append(_member(block.thinking, f"{place}.thinking"))
            case "tool_use":
                calls.append(_use(block, place))
                names[calls[-1].id] = calls[-1].name
            case _:
                raise _unsupported(block, place, "text, thinking and tool_use are")
    made.content = "".join(texts)
    made.reasoning_content = "".join(reasoning) or None
    made.tool_calls = calls or None
    return made


def _use(block: schema.Block, at: str) -> ToolCall:
    text = bytes(block.input).decode()
    if not isinstance(decoded(text, f"{at}.input") if text else None, dict):
        raise invalid(f"{at}.input", f"{at}.input: must be an object")
    name, made = _member(block.name, f"{at}.name"), _member(block.id, f"{at}.id")
    return ToolCall(FunctionCall(name, text), made)


def _user(content: Sequence[schema.Block], at: str, names: dict[str, str]) -> Iterator[openai.Message]:
    """The user's words and results of tools, in their order."""
    words: list[str] = []
    for i, block in enumerate(content):
        place = f"{at}[{i}]"
        if block.type == "text":
            words.append(_member(block.text, f"{place}.text"))
        elif block.type == "tool_result":
            if words:
                yield openai.Message("user", "".join(words))
                words = []
            yield _result(block, place, names)
        else:
            raise _unsupported(block, place, "text and tool_result are")
    if words or not content:
        yield openai.Message("user", "".join(words))


def _result(block: schema.Block, at: str, names: dict[str, str]) -> openai.Message:
    used = _member(block.tool_use_id, f"{at}.tool_use_id")
    if used not in names:
        message = f"{at}.tool_use_id: no tool_use before it has the id {used:.100}"
        raise invalid(f"{at}.tool_use_id", message)
    text = _texts(block.content or "", f"{at}.content")
    # Chat templates have no other place for it.
    text = f"Error: {text}" if block.is_error else text
    return openai.Message("tool", text, name=names[used], tool_call_id=used)


def _merged(messages: Sequence[openai.Message]) -> list[openai.Message]:
    """Turns of the same role that follow each other are one: there are templates that want them so."""
    made: list[openai.Message] = []
    for message in messages:
        last = made[-1] if made else None
        if last is None or last.role != message.role or last.role not in _TURNS:
            made.append(message)
            continue
        assert isinstance(last.content, str)
        assert isinstance(message.content, str)
        last.content = "\n".join(filter(None, (last.content, message.content)))
        thoughts = filter(None, (last.reasoning_content, message.reasoning_content))
        last.reasoning_content = "\n".join(thoughts) or None
        last.tool_calls = [*(last.tool_calls or ()), *(message.tool_calls or ())] or None
    return made


def _tools(tools: Sequence[schema.Tool]) -> list[FunctionTool | CustomTool]:
    """The client's tools. Those that Anthropic's servers run are left out if there are others beside them."""
    is_own = [tool.type in (None, "custom") for tool in tools]
    found: list[FunctionTool | CustomTool] = []
    for i, tool in enumerate(tools):
        if not is_own[i] and any(is_own) and tool.type and tool.type.startswith(_HOSTED):
            hints.ineffective(f"tools[{i}].{tool.type}")
        else:
            found.append(_tool(tool, f"tools[{i}]"))
    return found


def _tool(tool: schema.Tool, at: str) -> FunctionTool:
    if tool.type not in (None, "custom"):
        message = f"{at}.type: {tool.type:.40} is not there; tools are the client's own, of type custom"
        raise invalid(f"{at}.type", message, "unsupported_parameter")
    unable = {
        "defer_loading": tool.defer_loading,
        "input_examples": tool.input_examples,
        "allowed_callers": tool.allowed_callers not in (None, ["direct"]),
    }
    for name, asked in unable.items():
        if asked:
            raise invalid(
                f"{at}.{name}", f"{at}.{name}: not supported; leave it out", "unsupported_parameter"
            )
    text = bytes(tool.input_schema).decode()
    schema_of_input = decoded(text, f"{at}.input_schema") if text else None
    if not isinstance(schema_of_input, dict) or schema_of_input.get("type") != "object":
        raise invalid(f"{at}.input_schema", f'{at}.input_schema: must be a schema with "type": "object"')
    return FunctionTool(Function(tool.name, tool.description, tool.input_schema, tool.strict))


def _tool_choice(body: schema.CountRequest) -> dict[str, Any]:
    wanted = body.tool_choice
    if wanted is None:
        return {}
    several = None if wanted.disable_parallel_tool_use is None else not wanted.disable_parallel_tool_use
    if wanted.type == "tool":
        name = _member(wanted.name, "tool_choice.name")
        return {"tool_choice": NamedChoice(FunctionName(name)), "parallel_tool_calls": several}
    return {"tool_choice": _CHOICES[wanted.type], "parallel_tool_calls": several}


def _thinking(body: schema.CountRequest, goes_on: bool) -> dict[str, Any]:
    """What the chat says of reasoning; `goes_on`: the answer continues the last message."""
    effort = body.output_config.effort if body.output_config else None
    told: dict[str, Any] = {"reasoning_effort": effort}
    wanted = body.thinking
    if wanted is None or wanted.type == "adaptive":
        return told
    if wanted.display == "omitted":
        message = "thinking.display: reasoning is told as it is; leave it out"
        raise invalid("thinking.display", message, "unsupported_parameter")
    if wanted.type == "disabled":
        return {**told, "enable_thinking": False}
    if goes_on:
        raise invalid("thinking", "thinking: not where the answer goes on with the assistant's last message")
    budget = wanted.budget_tokens
    if budget is None:
        raise invalid("thinking.budget_tokens", "thinking.budget_tokens: missing")
    if isinstance(body, schema.MessagesRequest) and budget >= body.max_tokens:
        message = "thinking.budget_tokens: must be less than max_tokens, which counts reasoning too"
        raise invalid("thinking.budget_tokens", message)
    return {**told, "enable_thinking": True, "thinking_budget": budget}


def _format(body: schema.CountRequest) -> response_formats.JsonSchemaFormat | None:
    newer = body.output_config.format if body.output_config else None
    if newer is not None and body.output_format is not None:
        raise invalid("output_format", "output_format: the older name of output_config.format; leave one out")
    wanted = newer or body.output_format
    if wanted is None:
        return None
    if bytes(wanted.schema) in (b"", b"null"):
        at = "output_config.format.schema" if newer else "output_format.schema"
        raise invalid(at, f"{at}: missing")
    return response_formats.JsonSchemaFormat(response_formats.JsonSchema(msgspec.Raw(wanted.schema)))
