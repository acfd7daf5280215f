"""Bodies of `/v1/responses` as those of chats, and a chat's errors under the names of a response's fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from llgtrt.openai import functions, hints, response_formats, routes, schema, translate
from llgtrt.openai.errors import ApiError, invalid
from llgtrt.openai.responses.fields import Choice, JsonObjectFormat, JsonSchemaFormat, ResponsesRequest
from llgtrt.openai.responses.items import Talk, within

_ELSEWHERE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "n": ("a response is one answer; send several requests", (1,)),
    "max_tokens": ("not a field of this API; use max_output_tokens", ()),
    "n_predict": ("not a field of this API; use max_output_tokens", ()),
    "response_format": ("not a field of this API; use text.format", ()),
    "prompt_logprobs": ("not a field of this API; use /v1/chat/completions", ()),
}
"""Fields of the other pages that have no place here, what to do instead, and values that change nothing."""

_SHARED = [name for name in schema.Conversation.__struct_fields__ if name not in _ELSEWHERE]

LOGPROBS = "message.output_text.logprobs"
_INCLUDED = frozenset(
    {
        LOGPROBS,
        # Reasoning is in its items as it is: nothing has to be hidden from the client that sends them again.
        "reasoning.encrypted_content",
        # Of tools and inputs that are refused: there is nothing that could be left out.
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
    }
)
_HOSTED = frozenset(
    {
        *("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation"),
        *("computer_use_preview", "local_shell", "mcp", "tool_search"),
    }
)
"""Tools that OpenAI's servers run."""
OWN = ("function", "custom")
"""Tools that the client runs."""
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512


def check(body: ResponsesRequest) -> None:
    """Refuses what a response does not have.

    Raises:
        ApiError: 400, which names the field.
    """
    for name, (what, harmless) in _ELSEWHERE.items():
        value = getattr(body, name)
        if value is not None and value not in harmless:
            raise invalid(name, f"{name}: {what}", "unsupported_parameter")
    if body.stream_options and body.stream_options.include_token_origin:
        at = "stream_options.include_token_origin"
        raise invalid(
            at, f"{at}: only /v1/chat/completions and /v1/completions have it", "unsupported_parameter"
        )
    for i, name in enumerate(body.include or ()):
        if name not in _INCLUDED:
            known = ", ".join(sorted(_INCLUDED))
            raise invalid(f"include[{i}]", f"include[{i}]: {name:.64} is none of {known}")
    _check_metadata(body.metadata or {})
    if body.background and body.stream:
        raise invalid(
            "stream", "stream: not with background; fetch the response by its id", "unsupported_parameter"
        )
    if body.background and body.store is False:
        raise invalid("store", "store: must be true with background: the answer is fetched by its id")
    said = body.reasoning
    values = {
        "text.verbosity": (body.text and body.text.verbosity, "medium"),
        "reasoning.summary": (said and said.summary, "auto"),
        "reasoning.generate_summary": (said and said.generate_summary, "auto"),
    }
    for name, (value, one) in values.items():
        if value not in (None, one):
            hints.ineffective(name)


def _check_metadata(metadata: dict[str, str]) -> None:
    if len(metadata) > _MOST_METADATA:
        raise invalid("metadata", f"metadata: has {len(metadata)} entries; at most {_MOST_METADATA}")
    if any(len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE for key, value in metadata.items()):
        message = f"metadata: keys have up to {_LONGEST_KEY} characters, values up to {_LONGEST_VALUE}"
        raise invalid("metadata", message)


def logprobs(body: ResponsesRequest) -> bool:
    """Whether log-probabilities are wanted."""
    return LOGPROBS in (body.include or ()) or bool(body.top_logprobs)


def chat_request(body: ResponsesRequest, messages: list[schema.Message]) -> schema.ChatRequest:
    """The chat that gives this response.

    Raises:
        ApiError: a tool is not a function.
    """
    return schema.ChatRequest(
        **{name: getattr(body, name) for name in _SHARED},
        messages=messages,
        max_completion_tokens=body.max_output_tokens,
        response_format=_format(body),
        tools=None if body.tools is None else _tools(body),
        tool_choice=_choice(body.tool_choice),
        parallel_tool_calls=body.parallel_tool_calls,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        logprobs=logprobs(body),
        top_logprobs=body.top_logprobs,
    )


def _format(body: ResponsesRequest) -> response_formats.ResponseFormat | None:
    wanted = body.text.format if body.text else None
    match wanted:
        case JsonObjectFormat():
            return response_formats.JsonObjectFormat()
        case JsonSchemaFormat():
            return response_formats.JsonSchemaFormat(response_formats.JsonSchema(wanted.schema, wanted.name))
        case _:
            return None


def _only_own(at: str, kind: str) -> None:
    if kind not in OWN:
        message = (
            f"{at}: {kind:.64} is not there: the server has no tools of its own; function and custom are"
        )
        raise invalid(at, f"{message} supported", "unsupported_parameter")


def _tools(body: ResponsesRequest) -> list[functions.Tool | functions.CustomTool]:
    """The functions, those of namespaces too.

    Tools that a server would run are left out if there are functions beside them.
    """
    given = body.tools or []
    has_own = any(tool.type in (*OWN, "namespace") for tool in given)
    found = []
    for i, tool in enumerate(given):
        if tool.type == "namespace":
            for k, inner in enumerate(tool.tools or ()):
                _only_own(f"tools[{i}].tools[{k}].type", inner.type)
            found += [(within(tool.name, inner.name), inner) for inner in tool.tools or ()]
        elif has_own and tool.type in _HOSTED:
            hints.ineffective(f"tools[{i}].{tool.type}")
        else:
            _only_own(f"tools[{i}].type", tool.type)
            found.append((tool.name, tool))
    return [
        functions.CustomTool(functions.Custom(name, t.description, t.format))
        if t.type == "custom"
        else functions.Tool(functions.Function(name, t.description, t.parameters, t.strict))
        for name, t in found
    ]


def _choice(wanted: str | Choice | None) -> functions.ToolChoice | None:
    if not isinstance(wanted, Choice):
        return wanted  # type: ignore[return-value] # msgspec has checked the words
    if wanted.type != "allowed_tools":
        _only_own("tool_choice.type", wanted.type)
        name = functions.FunctionName(wanted.name)
        return functions.CustomName(name) if wanted.type == "custom" else functions.NamedChoice(name)
    for i, tool in enumerate(wanted.tools or ()):
        _only_own(f"tool_choice.tools[{i}].type", tool.type)
    names = [(tool.type, functions.FunctionName(tool.name)) for tool in wanted.tools or ()]
    named = [
        functions.CustomName(name) if kind == "custom" else functions.ToolName(name) for kind, name in names
    ]
    return functions.AllowedChoice(functions.AllowedTools(wanted.mode, named))


def fitted(api: routes.Api, body: schema.ChatRequest, told: Talk) -> Talk:
    """The conversation without its oldest turns, as few of them as make room for the answer.

    System's messages at its beginning stay, and so does the last turn, whatever its length.

    Raises:
        ApiError: as `routes.chat_prompt` does.
    """
    head = next(
        (i for i, m in enumerate(told.messages) if m.role not in ("system", "developer")), len(told.messages)
    )
    turns = [i for i, m in enumerate(told.messages) if m.role == "user" and i > head]
    first, last = 0, len(turns)  # so many turns are left out
    while first < last:
        middle = (first + last) // 2
        if _fits(api, body, _without(told, head, turns, middle)):
            last = middle
        else:
            first = middle + 1
    return _without(told, head, turns, first)


def _without(told: Talk, head: int, turns: Sequence[int], out: int) -> Talk:
    return told.since(head, turns[out - 1]) if out else told


def _fits(api: routes.Api, body: schema.ChatRequest, told: Talk) -> bool:
    limits = api.engine.info()["limits"]
    try:
        prompt, _ = routes.chat_prompt(api, msgspec.structs.replace(body, messages=told.messages))
    except ApiError as e:
        if e.code != "context_length_exceeded":
            raise
        return False
    room = limits["context"] - (translate.max_tokens(body) or 1)
    most: int = min(room, limits["max_prompt"])
    return len(prompt) <= most


_NAMES = (
    (re.compile(r"messages$"), "input"),
    (re.compile(r"response_format\.json_schema|response_format"), "text.format"),
    (re.compile(r"(tools\[\d+\])\.(?:function|custom)"), r"\1"),
    (re.compile(r"tool_choice\.allowed_tools\.(tools\[\d+\])\.(?:function|custom)"), r"tool_choice.\1"),
    (re.compile(r"tool_choice\.allowed_tools"), "tool_choice"),
    (re.compile(r"tool_choice\.(?:function|custom)"), "tool_choice"),
    (re.compile(r"reasoning_effort$"), "reasoning.effort"),
    (re.compile(r"max(_completion)?_tokens$"), "max_output_tokens"),
)
_CALL = re.compile(r"messages\[(\d+)\]\.tool_calls\[(\d+)\]\.(?:function|custom)")
_MESSAGE = re.compile(r"messages\[(\d+)\]")


def renamed(error: ApiError, places: Sequence[tuple[str, list[str]]] = ()) -> ApiError:
    """A chat's error with the response's name of the field; `places`: of the chat's messages."""
    if error.param is None:
        return error
    param = error.param
    call, message = _CALL.match(param), _MESSAGE.match(param)
    if call and places:
        param = places[int(call[1])][1][int(call[2])] + param[call.end() :]
    elif message and places:
        param = places[int(message[1])][0] + param[message.end() :]
    else:
        for name, own in _NAMES:
            if name.match(param):
                param = name.sub(own, param, count=1)
                break
    text = error.message
    if text.startswith(error.param):
        text = param + text[len(error.param) :]
    return ApiError(text, param, error.code, error.headers)
