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
    system: Annotated[str | list[Block] | None, about("What comes first: a text, or blocks of text.")] = None
    tools: Annotated[list[Tool] | None, about("Up to 128 tools of the client's that may be used.")] = None
    tool_choice: Annotated[
        ToolChoice | None, about("Which tools must or may be used; `auto` where there are some.")
    ] = None
    thinking: Annotated[
        Thinking | None,
        about("Whether the model reasons, and most tokens of it; else as its chat template has it."),
    ] = None
    output_config: Annotated[
        OutputConfig | None, about("`format`: the JSON schema of the answer; `effort`: of reasoning.")
    ] = None
    output_format: Annotated[OutputFormat | None, about("The older name of `output_config.format`.")] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, about("More variables for the chat template; an extension.")
    ] = None
    cache_control: Annotated[Any, about("Of no effect: prefixes are reused as they are found.")] = None


class MessagesRequest(CountRequest, kw_only=True):
    """Body of `/v1/messages`."""

    max_tokens: Annotated[Count, about("Most tokens of the answer, reasoning included.", 1)]
    stream: Annotated[bool | None, about("Answer with server-sent events.", default=False)] = None
    stop_sequences: Annotated[
        list[str] | None, about("Up to 16 texts of up to 1,024 bytes that end the answer.")
    ] = None
    temperature: Annotated[float | None, about("Divides the logits; 0 = the likeliest token.", 0, 2, 1)] = (
        None
    )
    top_p: Annotated[float | None, about("Probability mass of the tokens that are kept.", 0, 1, 1)] = None
    top_k: Annotated[Count | None, about("Most likely tokens kept; 0 = all.", 0, default=0)] = None
    metadata: Annotated[Any, about("Of no effect.")] = None
    service_tier: Annotated[Literal["auto", "standard_only"] | None, about("Of no effect.")] = None
    seed: Annotated[int | None, about("Same seed, same output; -1 = a random one; an extension.")] = None
    speculative: Annotated[
        Speculative | None, about("What the request wants of speculation; an extension.")
    ] = None
    priority: Annotated[
        Priority | None,
        about("How urgent the request is: lower first; an extension.", -(2**31), 2**31 - 1, 0),
    ] = None
    cache_salt: Annotated[
        str | None, about("KV is reused only between requests with the same one; an extension.")
    ] = None
