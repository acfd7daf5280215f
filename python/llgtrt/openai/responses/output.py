"""The items of an answer as they grow, and their events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from llgtrt.openai.buffer import SPACE
from llgtrt.openai.custom import InputText
from llgtrt.openai.pieces import Arguments, Call, Content, Done, Piece, Reasoning
from llgtrt.openai.responses.items import new_id

Json = dict[str, Any]
Entries = list[msgspec.Raw]


_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_NO_SPACES: Mapping[str, tuple[str, str]] = {}


class Output:
    """The items. Each begins, grows and is done before the next begins."""

    def __init__(
        self,
        call_id: Callable[[int], str],
        spaces: Mapping[str, tuple[str, str]] = _NO_SPACES,
        custom: Collection[str] = (),
    ) -> None:
        """`call_id`: the id of a call, by its number.

        `spaces`: namespace and name of functions in one; `custom`: names of custom tools.
        """
        self.items: list[Json] = []
        self._spaces = spaces
        self._custom = custom
        self._input = InputText()
        """Of the call of a custom tool that is open."""
        self._call_id = call_id
        self._open = False
        self._texts: list[str] = []
        self._entries: Entries = []

    def take(self, piece: Piece, entries: Entries) -> list[Json]:
        """Events of a piece; `entries`: of the tokens of a text."""
        match piece:
            case Reasoning(text):
                begun = self._within("reasoning", {"summary": [], "content": []})
                return [*begun, self._more("response.reasoning_text.delta", text)]
            case Content(text):
                if self.items and not self._within_kind("message"):
                    # White space between a call and further text is in neither.
                    text = text.lstrip(SPACE)
                begun = self._within("message", {"role": "assistant", "content": []})
                self._entries += entries
                return [*begun, {**self._more("response.output_text.delta", text), "logprobs": entries}]
            case Call(number, name):
                ended = self.close()
                is_custom = name in self._custom
                space, name = self._spaces.get(name, (None, name))
                call = {"call_id": self._call_id(number), "name": name}
                call |= {"input": ""} if is_custom else {"arguments": ""}
                call |= {"namespace": space} if space else {}
                self._input = InputText()
                return [*ended, *self._begin("custom_tool_call" if is_custom else "function_call", call)]
            case Arguments(_, text) if self._within_kind("custom_tool_call"):
                text = self._input.feed(text)
                self._texts.append(text)
                told = {"delta": text}
                return [self._event("response.custom_tool_call_input.delta", told)] if text else []
            case Arguments(_, text):
                self._texts.append(text)
                return [self._event("response.function_call_arguments.delta", {"delta": text})]
            case Done():
                return self.close()

    def close(self, status: str = "completed") -> list[Json]:
        """Ends the item that is open, if there is one."""
        if not self._open:
            return []
        item, text = self.items[-1], "".join(self._texts)
        self._open, self._texts = False, []
        # A call is closed as soon as it is complete.
        item["status"] = status
        if item["type"] == "custom_tool_call":
            item["input"] = text
            ended = [self._event("response.custom_tool_call_input.done", {"input": text})]
        elif item["type"] == "function_call":
            item["arguments"] = text
            told = {"name": item["name"], "arguments": text}
            ended = [self._event("response.function_call_arguments.done", told)]
        else:
            ended = self._end_part(item, text)
        return [*ended, self._event("response.output_item.done", {"item": dict(item)}, of_item=False)]

    def ended(self, status: str) -> list[Json]:
        """Events of the end. An answer without anything in it is an empty message."""
        nothing = [] if self.items else self.take(Content(""), [])
        is_call = self._within_kind("function_call") or self._within_kind("custom_tool_call")
        return [*nothing, *self.close("incomplete" if is_call else status)]

    def _end_part(self, item: Json, text: str) -> list[Json]:
        part = self._part(item["type"], text, self._entries)
        item["content"] = [part]
        if item["type"] == "message":
            told = {"content_index": 0, "text": text, "logprobs": self._entries}
            done = self._event("response.output_text.done", told)
        else:
            done = self._event("response.reasoning_text.done", {"content_index": 0, "text": text})
        self._entries = []
        return [done, self._event("response.content_part.done", {"content_index": 0, "part": part})]

    def _within(self, kind: str, more: Json) -> list[Json]:
        """Events that begin an item of this kind, unless one is open."""
        if self._within_kind(kind):
            return []
        ended, begun = self.close(), self._begin(kind, more)
        told = {"content_index": 0, "part": self._part(kind, "", [])}
        return [*ended, *begun, self._event("response.content_part.added", told)]

    def _within_kind(self, kind: str) -> bool:
        return self._open and bool(self.items[-1]["type"] == kind)

    def _begin(self, kind: str, more: Json) -> list[Json]:
        prefix = _PREFIXES[kind]
        self.items.append({"type": kind, "id": new_id(prefix), "status": "in_progress", **more})
        self._open = True
        told = {"item": dict(self.items[-1])}
        return [self._event("response.output_item.added", told, of_item=False)]

    def _more(self, kind: str, text: str) -> Json:
        self._texts.append(text)
        return self._event(kind, {"content_index": 0, "delta": text})

    def _event(self, kind: str, told: Json, of_item: bool = True) -> Json:
        index = len(self.items) - 1
        item = {"item_id": self.items[index]["id"]} if of_item else {}
        return {"type": kind, **item, "output_index": index, **told}

    @staticmethod
    def _part(kind: str, text: str, entries: Entries) -> Json:
        if kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": entries}
