"""Items: those of `input` as they are kept and listed, and as messages of a chat."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from llgtrt.openai import schema
from llgtrt.openai.errors import ApiError, invalid
from llgtrt.openai.functions import CustomCall, FunctionCall, ToolCall
from llgtrt.openai.responses.fields import Item, Part

Json = dict[str, Any]

_LONGEST_ID = 128
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex}"


def canonical(
    given: str | Sequence[Item] | None, referred: Callable[[str], Json | None]
) -> list[tuple[Json, str]]:
    """The items of `input` in their full form, each with its place; `referred` finds an item by its id.

    Raises:
        ApiError: one lacks what its type needs, is of another type, or refers to what is not kept.
    """
    if isinstance(given, str):
        given = [Item(role="user", content=given)]
    return [(_item(item, f"input[{i}]", referred), f"input[{i}]") for i, item in enumerate(given or ())]


def _item(item: Item, at: str, referred: Callable[[str], Json | None]) -> Json:
    if item.id is not None and not 0 < len(item.id) <= _LONGEST_ID:
        raise invalid(f"{at}.id", f"{at}.id: must have 1 to {_LONGEST_ID} characters")
    match item.type:
        case None | "message":
            return _message(item, at)
        case "function_call" | "custom_tool_call":
            return _call(item, at)
        case "function_call_output" | "custom_tool_call_output":
            return _output(item, at)
        case "reasoning":
            return _reasoning(item, at)
        case "item_reference":
            found = referred(_needed(item, "id", at))
            if found is None:
                message = f"{at}.id: no item {item.id} is kept; send the item itself"
                raise invalid(f"{at}.id", message, "item_not_found")
            return found
        case kind:
            known = f"message, {', '.join((*CALLS, *OUTPUTS))}, reasoning and item_reference are"
            raise _unsupported(f"{at}.type", kind, known)


def _call(item: Item, at: str) -> Json:
    is_custom = item.type == "custom_tool_call"
    told = {
        "type": item.type,
        "id": item.id or new_id("ctc" if is_custom else "fc"),
        "call_id": _needed(item, "call_id", at),
        "name": _needed(item, "name", at),
        **({"namespace": item.namespace} if item.namespace else {}),
    }
    if is_custom:
        return {**told, "input": _needed(item, "input", at)}
    return {**told, "arguments": _needed(item, "arguments", at), "status": "completed"}


def _output(item: Item, at: str) -> Json:
    output = _needed(item, "output", at)
    if not isinstance(output, str):
        output = [_part(part, "input_text", f"{at}.output[{i}]") for i, part in enumerate(output)]
    call = {"id": item.id or new_id("fc"), "call_id": _needed(item, "call_id", at)}
    return {"type": item.type, **call, "output": output, "status": "completed"}


def _reasoning(item: Item, at: str) -> Json:
    content = item.content or []
    if isinstance(content, str):
        raise invalid(f"{at}.content", f"{at}.content: must be a list of reasoning_text parts")
    told = {"content": (content, "reasoning_text"), "summary": (item.summary or [], "summary_text")}
    parts = {
        name: [_part(part, kind, f"{at}.{name}[{i}]") for i, part in enumerate(given)]
        for name, (given, kind) in told.items()
    }
    return {"type": "reasoning", "id": item.id or new_id("rs"), **parts}


def _needed(item: Item, name: str, at: str) -> Any:
    value = getattr(item, name)
    if value is None:
        raise invalid(f"{at}.{name}", f"{at}.{name}: missing")
    return value


def _message(item: Item, at: str) -> Json:
    if item.role is None:
        raise invalid(f"{at}.role", f"{at}.role: missing; it is user, assistant, system or developer")
    content = _needed(item, "content", at)
    own = "output_text" if item.role == "assistant" else "input_text"
    given = [Part(own, content)] if isinstance(content, str) else content
    parts = [_part(part, own, f"{at}.content[{i}]") for i, part in enumerate(given)]
    kept = {"type": "message", "id": item.id or new_id("msg"), "role": item.role}
    return {**kept, "status": "completed", "content": parts}


def _part(part: Part, own: str, at: str) -> Json:
    """A part of the type that belongs there: clients send texts of an answer as input, and the reverse."""
    if part.type == "refusal" and own == "output_text":
        if part.refusal is None:
            raise invalid(f"{at}.refusal", f"{at}.refusal: missing")
        return {"type": "refusal", "refusal": part.refusal}
    texts = {"input_text", "output_text"}
    if part.type != own and not {part.type, own} <= texts:
        raise _unsupported(f"{at}.type", part.type, f"{own} is")
    if part.text is None:
        raise invalid(f"{at}.text", f"{at}.text: missing")
    more: Json = {"annotations": [], "logprobs": []} if own == "output_text" else {}
    return {"type": own, "text": part.text, **more}


def _unsupported(at: str, kind: str, known: str) -> ApiError:
    return invalid(at, f"{at}: {kind:.64} is not supported; {known}", "unsupported_parameter")


@dataclasses.dataclass
class Talk:
    """Messages of a chat, and where in the body each, and each of its calls, stands."""

    messages: list[schema.Message] = dataclasses.field(default_factory=list)
    places: list[tuple[str, list[str]]] = dataclasses.field(default_factory=list)

    def add(self, message: schema.Message, place: str, calls: list[str] | None = None) -> None:
        """One more."""
        self.messages.append(message)
        self.places.append((place, calls or []))

    def since(self, head: int, first: int) -> Talk:
        """The first `head` messages, and those from `first` on."""
        return Talk(self.messages[:head] + self.messages[first:], self.places[:head] + self.places[first:])


def talk(instructions: str | None, items: Sequence[tuple[Json, str]]) -> Talk:
    """The chat of these items: reasoning, text and calls that follow each other are one message.

    Raises:
        ApiError: a result is of a call that is not there.
    """
    told = Talk()
    if instructions:
        told.add(schema.Message("system", instructions), "instructions")
    known: set[str] = set()
    open_turn: schema.Message | None = None
    for item, at in items:
        kind = item["type"]
        if kind in OUTPUTS:
            if item["call_id"] not in known:
                message = f"{at}.call_id: there is no call with the call_id {item['call_id']:.64}"
                raise invalid(f"{at}.call_id", message)
            told.add(schema.Message("tool", _text(item["output"]), tool_call_id=item["call_id"]), at)
            open_turn = None
        elif kind == "message" and item["role"] != "assistant":
            if item["role"] != "user" and told.places == [("instructions", [])]:
                # There are templates that take one system's message.
                told.messages[0].content = f"{told.messages[0].content}\n\n{_text(item['content'])}"
            else:
                told.add(schema.Message(item["role"], _text(item["content"])), at)
            open_turn = None
        else:
            if open_turn is None or not _goes_on(open_turn, kind):
                open_turn = schema.Message("assistant")
                told.add(open_turn, at)
            _extend(open_turn, item)
            if kind in CALLS:
                known.add(item["call_id"])
                told.places[-1][1].append(at)
    for turn in told.messages:
        if turn.content is None and not turn.tool_calls:
            turn.content = ""  # reasoning alone, of an answer that was cut
    return told


def within(namespace: str | None, name: str) -> str:
    """The name by which the model knows a function of a namespace."""
    return f"{namespace}.{name}" if namespace else name


def _goes_on(turn: schema.Message, kind: str) -> bool:
    """Whether an item of this kind belongs to the assistant's message so far."""
    if kind in CALLS:
        return True
    if kind == "message":
        return turn.content is None and not turn.tool_calls
    return turn.content is None and not turn.tool_calls and turn.reasoning_content is None


def _extend(turn: schema.Message, item: Json) -> None:
    match item["type"]:
        case "reasoning":
            turn.reasoning_content = _text(item["content"]) or None
        case "message":
            turn.content = _text(item["content"])
        case _:
            name = within(item.get("namespace"), item["name"])
            if item["type"] == "custom_tool_call":
                made = CustomCall(name, item["input"])
                call = ToolCall(id=item["call_id"], type="custom", custom=made)
            else:
                call = ToolCall(FunctionCall(name, item["arguments"]), item["call_id"])
            turn.tool_calls = [*(turn.tool_calls or ()), call]


def _text(content: str | Sequence[Json]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] if "text" in part else part["refusal"] for part in content)
