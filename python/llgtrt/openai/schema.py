"""The fields of request bodies, in the one list that there is.

Request parsing, the core's requests, the OpenAPI document and `docs/api-fields.md` are derived from it. The
ranges given here are the core's (`rust/src/request.rs`); only the core checks them.
"""

from __future__ import annotations

import typing
from typing import Annotated, Any, Literal

import msgspec

from llgtrt.openai.functions import (
    CustomTool,
    Function,
    FunctionCall,
    FunctionName,
    Tool,
    ToolCall,
    ToolChoice,
)
from llgtrt.openai.outputs import JsonStyle, StructuredOutputs
from llgtrt.openai.response_formats import ResponseFormat


def about(
    text: str,
    least: float | None = None,
    most: float | None = None,
    default: object = None,
    core: str | None = None,
) -> msgspec.Meta:
    """What a field means, its range and its default.

    `core`: how the core reads it: `same` = under its name, `sampling` = in the group `sampling`.
    """
    bounds = {"minimum": least, "maximum": most, "default": default}
    told = {name: value for name, value in bounds.items() if value is not None}
    return msgspec.Meta(description=text, extra_json_schema=told, extra={"core": core})


def metas(kind: type[msgspec.Struct]) -> dict[str, msgspec.Meta]:
    """The description of each field, in the order of the fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = ((name, getattr(hints[name], "__metadata__", ())) for name in kind.__struct_fields__)
    return {name: next((m for m in metas if m.description), msgspec.Meta()) for name, metas in found}


Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Unbounded = Annotated[int, msgspec.Meta(ge=-1, le=2**32 - 1)]
"""A count, or -1 for as many as there are, or as there is room for."""
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Urgency = Annotated[Priority | None, about("Requests with a lower number run first.", -(2**31), 2**31 - 1, 0)]
Salt = Annotated[
    str | None, about("The KV cache is shared only among requests with the same salt; 1 to 1,024 characters.")
]


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: Annotated[bool | None, about("Add a last chunk with `usage`.", default=False)] = None
    continuous_usage_stats: Annotated[bool | None, about("Add `usage` to every chunk.", default=False)] = None
    include_token_origin: Annotated[
        bool | None,
        about(
            "Add `token_origins` to chunks: each token, its draft source, and rejected drafts; with "
            "logprobs also the probability that the constraint allowed, and the likeliest token without it.",
            default=False,
        ),
    ] = None


class Part(msgspec.Struct):
    """A part of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Message(msgspec.Struct):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    refusal: str | None = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    audio: Any = None
    prefix: bool | None = None


class Speculative(msgspec.Struct, forbid_unknown_fields=True):
    """What a request wants of speculation; its text does not depend on it."""

    enabled: Annotated[bool | None, about("`false` switches speculation off.", default=True)] = None
    max_draft_len: Annotated[Count | None, about("Maximum draft length, if less than the server's.")] = None
    sources: Annotated[
        list[Literal["forced", "prompt_lookup", "prediction", "draft_model", "mlp_speculator", "grammar"]]
        | None,
        about("Draft sources to use, of those that the server has."),
    ] = None
    acceptance: Annotated[
        Literal["exact", "rejection", "tokens"] | None,
        about("How drafts are accepted; default: the server's setting."),
    ] = None
    draft_tokens: Annotated[
        list[Count] | None,
        about(
            "The client's own draft of the output, as token ids; for one prompt, and not together with "
            "`prediction`."
        ),
    ] = None
    report: Annotated[
        bool | None, about("Add `usage.speculative`: drafted and accepted tokens by source.", default=False)
    ] = None


class Prediction(msgspec.Struct):
    """What the answer is expected to be."""

    type: Literal["content"]
    content: str | list[Part]


class Common(msgspec.Struct):
    """What both APIs share."""

    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    stream: Annotated[bool | None, about("Stream the answer as server-sent events.", default=False)] = None
    stream_options: Annotated[StreamOptions | None, about("Options of a stream.")] = None
    n: Annotated[Count | None, about("Number of choices.", 1, 128, 1, core="same")] = None
    max_tokens: Annotated[
        Unbounded | None, about("Maximum tokens of a choice; -1: as many as the context has room for.", -1)
    ] = None
    n_predict: Annotated[Unbounded | None, about("llama-server's name for `max_tokens`.", -1)] = None
    min_tokens: Annotated[
        Count | None,
        about("End tokens are blocked until the choice has this many tokens.", 0, default=0, core="same"),
    ] = None
    temperature: Annotated[
        float | None, about("Sampling temperature; 0: always the likeliest token.", 0, 2, 1, core="sampling")
    ] = None
    top_p: Annotated[
        float | None,
        about(
            "Sample among the likeliest tokens with this total probability; 0: the likeliest token.",
            0,
            1,
            1,
            core="sampling",
        ),
    ] = None
    top_k: Annotated[
        Unbounded | None,
        about("Sample among this many of the likeliest tokens; 0 or -1: all.", -1, default=0),
    ] = None
    min_p: Annotated[
        float | None,
        about(
            "Drop tokens whose probability is below this share of the likeliest token's.",
            0,
            1,
            0,
            core="sampling",
        ),
    ] = None
    presence_penalty: Annotated[
        float | None,
        about("Subtracted from the logits of tokens that were generated.", -2, 2, 0, core="sampling"),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        about(
            "Subtracted from the logits of generated tokens, once for each occurrence.",
            -2,
            2,
            0,
            core="sampling",
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        about(
            "Divides positive and multiplies negative logits of tokens in the prompt or output; above 0.",
            0,
            10,
            1,
            core="sampling",
        ),
    ] = None
    repeat_penalty: Annotated[
        float | None, about("llama-server's name for `repetition_penalty`.", 0, 10, 1)
    ] = None
    logit_bias: Annotated[
        dict[str, float] | None,
        about("Added to the logits of tokens, by token id; -100 to 100, up to 1,024 entries."),
    ] = None
    stop: Annotated[
        str | list[str] | None, about("Up to 16 texts of up to 1,024 bytes that end a choice.")
    ] = None
    stop_token_ids: Annotated[
        list[Count] | None, about("Up to 128 token ids that end a choice.", core="same")
    ] = None
    include_stop_str_in_output: Annotated[
        bool | None,
        about("Keep the stop text in the output.", default=False, core="same"),
    ] = None
    skip_special_tokens: Annotated[
        bool | None,
        about("`false` keeps the text of special tokens in the output.", default=True, core="same"),
    ] = None
    allowed_token_ids: Annotated[
        list[Count] | None, about("Only these tokens may be generated.", core="same")
    ] = None
    bad_words: Annotated[
        list[str] | None,
        about(
            "Up to 128 texts of up to 1,024 bytes that must not occur in the answer or in thinking; "
            "not with another constraint."
        ),
    ] = None
    logprobs_of: Annotated[
        Literal["raw", "allowed"] | None,
        about(
            "Log-probabilities among all tokens, or among those that the constraint allows.",
            default="raw",
            core="same",
        ),
    ] = None
    prompt_logprobs: Annotated[
        Count | None,
        about(
            "Return log-probabilities of the prompt, with this many alternatives; not with `stream`.",
            0,
            20,
        ),
    ] = None
    truncate_prompt_tokens: Annotated[
        Unbounded | None,
        about("Keep only this many tokens at the end of the prompt; -1: as many as fit.", -1),
    ] = None
    priority: Urgency = None
    cache_salt: Salt = None
    service_tier: Annotated[
        Literal["auto", "default", "flex", "priority"] | None,
        about("Without `priority`: `flex` runs after all other requests, `priority` before them."),
    ] = None
    seed: Annotated[int | None, about("The same seed gives the same output; -1: a random seed.")] = None
    ignore_eos: Annotated[
        bool | None,
        about("End tokens are blocked unless nothing else is allowed.", default=False, core="same"),
    ] = None
    response_format: Annotated[ResponseFormat | None, about("The form of the output.")] = None
    structured_outputs: Annotated[StructuredOutputs | None, about("vLLM's form of `response_format`.")] = None
    json_style: Annotated[
        JsonStyle | None,
        about("How JSON is written: key order, undeclared keys, white space."),
    ] = None
    guided_whitespace_pattern: Annotated[
        str | None, about("vLLM's older name for `json_style.whitespace_pattern`.")
    ] = None
    guided_json: Annotated[msgspec.Raw, about("vLLM's older name for a JSON schema, or its text.")] = (
        msgspec.field(default_factory=msgspec.Raw)
    )
    guided_regex: Annotated[str | None, about("vLLM's older name for a regular expression.")] = None
    guided_choice: Annotated[list[str] | None, about("vLLM's older name for a choice of texts.")] = None
    json_schema: Annotated[
        msgspec.Raw, about("SGLang's and llama-server's name for a JSON schema, or its text.")
    ] = msgspec.field(default_factory=msgspec.Raw)
    guided_grammar: Annotated[
        str | None, about("vLLM's older name for a grammar: Lark, or with `::=` as `grammar`.")
    ] = None
    grammar: Annotated[str | None, about("llama-server's name for a grammar in GBNF.")] = None
    ebnf: Annotated[str | None, about("SGLang's name for a grammar in EBNF.")] = None
    structural_tag: Annotated[
        str | None, about("SGLang's name for `response_format` of type `structural_tag`, as JSON text.")
    ] = None
    regex: Annotated[str | None, about("SGLang's name for a regular expression.")] = None
    probabilities: Annotated[
        list[str] | None,
        about(
            "JSON pointers to enums and booleans of the answer, which needs a JSON schema: each choice gets "
            "`probabilities` of their values. Up to 32; not with `stream`."
        ),
    ] = None
    timings_per_token: Annotated[
        bool | None,
        about("Add llama-server's `timings` to the answer, and to each chunk of a stream.", default=False),
    ] = None
    speculative: Annotated[
        Speculative | None, about("Speculation settings of this request. They do not change the text.")
    ] = None


class Conversation(Common):
    """What conversations share besides: how the chat template is used, and what of reasoning there may be."""

    enable_thinking: Annotated[
        bool | None, about("Whether the model thinks first, if its chat template has a switch for it.")
    ] = None
    thinking_budget: Annotated[
        Count | None, about("Maximum tokens of thinking; then the server writes the end mark.", 0)
    ] = None
    thinking_token_budget: Annotated[Unbounded | None, about("vLLM's name for `thinking_budget`.", -1)] = None
    thinking_budget_tokens: Annotated[
        Unbounded | None, about("llama-server's name for `thinking_budget`.", -1)
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, about("Additional variables for the chat template.")
    ] = None


class ChatRequest(Conversation, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], about("The conversation; at least one.")]
    max_completion_tokens: Annotated[
        Count | None, about("OpenAI's newer name for `max_tokens`; wins over it.", 1)
    ] = None
    prediction: Annotated[
        Prediction | None, about("Expected answer (OpenAI's predicted outputs): drafts are taken from it.")
    ] = None
    tools: Annotated[
        list[Tool | CustomTool] | None, about("Up to 128 functions and custom tools that the model may call.")
    ] = None
    tool_choice: Annotated[
        ToolChoice | None,
        about("`none`, `auto`, `required`, a function, or `allowed_tools`; default: `auto` with functions."),
    ] = None
    parallel_tool_calls: Annotated[bool | None, about("`false` allows one call at most.", default=True)] = (
        None
    )
    functions: Annotated[list[Function] | None, about("The older name of `tools`.")] = None
    function_call: Annotated[
        Literal["none", "auto"] | FunctionName | None, about("The older name of `tool_choice`.")
    ] = None
    documents: Annotated[
        list[dict[str, Any]] | None,
        about(
            "Documents for the answer, such as `title` and `text`, if the chat template has a place for them."
        ),
    ] = None
    reasoning_effort: Annotated[
        str | None,
        about("Passed to the chat template; `none` switches thinking off."),
    ] = None
    logprobs: Annotated[bool | None, about("Return log-probabilities of the tokens.", default=False)] = None
    top_logprobs: Annotated[Count | None, about("Number of alternatives for each token.", 0, 20, 0)] = None
    add_generation_prompt: Annotated[
        bool | None, about("`false` ends the prompt with the last message.", default=True)
    ] = None
    continue_final_message: Annotated[
        bool | None, about("Continue the last message instead of beginning a new one.", default=False)
    ] = None


def a_chats_alone(kind: type[msgspec.Struct]) -> frozenset[str]:
    """A chat's fields that this body lacks: to ignore one may be to answer without a constraint."""
    return frozenset(ChatRequest.__struct_fields__) - frozenset(kind.__struct_fields__)


class CompletionRequest(Common, kw_only=True):
    """Body of `/v1/completions`."""

    prompt: Annotated[Any, about("Text, texts, token ids, or lists of token ids; up to 2,048 prompts.")]
    suffix: Annotated[
        str | None,
        about("The text after the output, for models with fill-in-the-middle tokens."),
    ] = None
    echo: Annotated[bool | None, about("Return the prompt before the output.", default=False)] = None
    logprobs: Annotated[
        Count | None, about("Return log-probabilities, with this many alternatives for each token.", 0, 20)
    ] = None
    best_of: Annotated[
        Count | None,
        about(
            "Generate this many choices, return the `n` with the highest mean log-probability; not less "
            "than `n`, and equal to `n` in a stream. `usage` counts all.",
            1,
            128,
        ),
    ] = None
