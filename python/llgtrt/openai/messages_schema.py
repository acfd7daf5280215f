"""The fields of Anthropic's bodies, as `openai/schema.py` has those of OpenAI's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from llgtrt.openai.schema import Count, Priority, Speculative, about


class Block(msgspec.Struct):
    """A part of a message's content, of any of the types that are known."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    tool_use_id: str | None = None
    content: str | list[Block] | None = None
    is_error: bool | None = None


class Message(msgspec.Struct):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(msgspec.Struct):
    """`{"name": …, "description": …, "input_schema": {"type": "object", …}}`."""

    name: str
    input_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    type: str | None = None
    description: str | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    input_examples: list[Any] | None = None
    allowed_callers: list[str] | None = None


class ToolChoice(msgspec.Struct):
    """`{"type": "auto" | "any" | "tool" | "none", …}`; `name` with `tool`."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct):
    """`{"type": "enabled", "budget_tokens": …}`, `{"type": "disabled"}` or `{"type": "adaptive"}`."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Count | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(msgspec.Struct, forbid_unknown_fields=True):
    """`{"type": "json_schema", "schema": {…}}`."""

    type: Literal["json_schema"]
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`output_config`."""

    format: OutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class CountRequest(msgspec.Struct):
    """Body of `/v1/messages/count_tokens`: what a prompt is made of."""

    messages: Annotated[
        list[Message],
        about("The conversation: texts, or blocks of type `text`, `tool_use`, `tool_result` or `thinking`."),
    ]
    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    system: Annotated[str | list[Block] | None, about("The system message: a text, or blocks of text.")] = (
        None
    )
    tools: Annotated[list[Tool] | None, about("Up to 128 client tools that the model may use.")] = None
    tool_choice: Annotated[
        ToolChoice | None, about("Which tools the model must or may use; default: `auto` if there are tools.")
    ] = None
    thinking: Annotated[
        Thinking | None,
        about("Whether the model thinks first, and its maximum tokens; default: as the chat template says."),
    ] = None
    output_config: Annotated[
        OutputConfig | None, about("`format`: the JSON schema of the answer; `effort`: reasoning effort.")
    ] = None
    output_format: Annotated[OutputFormat | None, about("The older name of `output_config.format`.")] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, about("Additional variables for the chat template; an extension.")
    ] = None
    cache_control: Annotated[Any, about("No effect: the server reuses every prefix that it has.")] = None


class MessagesRequest(CountRequest, kw_only=True):
    """Body of `/v1/messages`."""

    max_tokens: Annotated[Count, about("Maximum tokens of the answer, thinking included.", 1)]
    stream: Annotated[bool | None, about("Stream the answer as server-sent events.", default=False)] = None
    stop_sequences: Annotated[
        list[str] | None, about("Up to 16 texts of up to 1,024 bytes that end the answer.")
    ] = None
    temperature: Annotated[
        float | None, about("Sampling temperature; 0: always the likeliest token.", 0, 2, 1)
    ] = None
    top_p: Annotated[
        float | None, about("Sample among the likeliest tokens with this total probability.", 0, 1, 1)
    ] = None
    top_k: Annotated[
        Count | None, about("Sample among this many of the likeliest tokens; 0: all.", 0, default=0)
    ] = None
    metadata: Annotated[Any, about("No effect.")] = None
    service_tier: Annotated[Literal["auto", "standard_only"] | None, about("No effect.")] = None
    seed: Annotated[
        int | None, about("The same seed gives the same output; -1: a random seed; an extension.")
    ] = None
    speculative: Annotated[
        Speculative | None, about("Speculation settings of this request; an extension.")
    ] = None
    priority: Annotated[
        Priority | None,
        about("Requests with a lower number run first; an extension.", -(2**31), 2**31 - 1, 0),
    ] = None
    cache_salt: Annotated[
        str | None, about("The KV cache is shared only among requests with the same salt; an extension.")
    ] = None
