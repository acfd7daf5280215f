"""The fields of `/v1/responses`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from llgtrt.openai import response_formats, schema
from llgtrt.openai.functions import CustomFormat
from llgtrt.openai.schema import Count, about


class Part(msgspec.Struct):
    """A part of an item: of a message's or reasoning's content, or of what a function gave."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """An item of `input`; `type` says which of the members count."""

    type: str | None = None
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[Part] | None = None


class JsonSchemaFormat(response_formats.BaseFormat, tag="json_schema"):
    """`{"type": "json_schema", "name": …, "schema": {…}}`; enforced whatever `strict` says."""

    name: str
    schema: msgspec.Raw
    description: str | None = None
    strict: bool | None = None


class JsonObjectFormat(response_formats.BaseFormat, tag="json_object"):
    """`{"type": "json_object"}`: any JSON object."""


class TextOptions(msgspec.Struct):
    """What the answer's text must be."""

    format: response_formats.TextFormat | JsonObjectFormat | JsonSchemaFormat | None = None
    verbosity: str | None = None


class Reasoning(msgspec.Struct):
    """What of reasoning is wanted."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Tool(msgspec.Struct):
    """`{"type": "function", "name": …, "parameters": {…}}`, `custom`, or a `namespace` with `tools`."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None
    format: CustomFormat | None = None
    tools: list[Tool] | None = None


class ChosenTool(msgspec.Struct):
    """`{"type": "function", "name": …}`: this function is called."""

    type: str
    name: str = ""


class Choice(msgspec.Struct):
    """A function, or `{"type": "allowed_tools", "mode": …, "tools": […]}`."""

    type: str
    name: str = ""
    mode: Literal["auto", "required"] = "auto"
    tools: list[ChosenTool] | None = None


class ResponsesRequest(schema.Conversation):
    """Body of `/v1/responses`."""

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        "conversation": (),
        "prompt": (),
    }
    """Fields that are not read, and would change the answer, beside those that no page reads."""

    input: Annotated[
        str | list[Item] | None,
        about("A text, or a list of messages, function calls, results, reasoning, and item references."),
    ] = None
    instructions: Annotated[
        str | None, about("The first system message; not kept for the next response.")
    ] = None
    previous_response_id: Annotated[str | None, about("Continue the conversation after this response.")] = (
        None
    )
    store: Annotated[bool | None, about("Store the response and its input.", default=True)] = None
    background: Annotated[
        bool | None, about("Answer at once; the client fetches the response by its id later.", default=False)
    ] = None
    text: Annotated[
        TextOptions | None, about("`format`, the form of the text: `text`, `json_object` or `json_schema`.")
    ] = None
    tools: Annotated[
        list[Tool] | None, about("Up to 128 functions and custom tools that the model may call.")
    ] = None
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | Choice | None,
        about("`none`, `auto`, `required`, a function, or `allowed_tools`.", default="auto"),
    ] = None
    parallel_tool_calls: Annotated[bool | None, about("`false` allows one call at most.", default=True)] = (
        None
    )
    max_tool_calls: Annotated[
        Count | None, about("No effect: limits hosted tools, which this server does not have.")
    ] = None
    max_output_tokens: Annotated[
        Count | None, about("Maximum tokens of the answer, thinking and calls included.", 1)
    ] = None
    reasoning: Annotated[
        Reasoning | None,
        about("`effort` is passed to the chat template; `none` switches thinking off."),
    ] = None
    include: Annotated[
        list[str] | None,
        about("`message.output_text.logprobs`: log-probabilities of the text's tokens."),
    ] = None
    top_logprobs: Annotated[Count | None, about("Number of alternatives for each token.", 0, 20, 0)] = None
    truncation: Annotated[
        Literal["auto", "disabled"] | None,
        about("`auto` drops the oldest turns of a conversation that is too long.", default="disabled"),
    ] = None
    metadata: Annotated[
        dict[str, str] | None, about("Up to 16 texts of up to 512 characters, stored with the response.")
    ] = None
    user: Annotated[str | None, about("Returned in the response; no effect.")] = None
    safety_identifier: Annotated[str | None, about("Returned in the response; no effect.")] = None
    prompt_cache_key: Annotated[str | None, about("Returned in the response; no effect.")] = None
