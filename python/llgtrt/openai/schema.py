"""The fields of request bodies, in the one list that there is.

Reading them, the core's requests, the OpenAPI document and `docs/api.md` follow from it. Ranges that are told
here are the core's (`rust/src/request.rs`), which alone checks them.
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
    """What is told of each field, in the order of the fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = ((name, getattr(hints[name], "__metadata__", ())) for name in kind.__struct_fields__)
    return {name: next((m for m in metas if m.description), msgspec.Meta()) for name, metas in found}


Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Unbounded = Annotated[int, msgspec.Meta(ge=-1, le=2**32 - 1)]
"""A count, or -1 for as many as there are, or as there is room for."""
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Urgency = Annotated[Priority | None, about("How urgent the request is: lower first.", -(2**31), 2**31 - 1, 0)]
Salt = Annotated[
    str | None, about("KV is reused only between requests with the same one; 1 to 1,024 characters.")
]


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: Annotated[bool | None, about("A last chunk has `usage`.", default=False)] = None
    continuous_usage_stats: Annotated[bool | None, about("Every chunk has `usage`.", default=False)] = None
    include_token_origin: Annotated[
        bool | None,
        about(
            "Chunks have `token_origins`: each token, who drafted it, and what was refused; "
            "with logprobs also the probability that the constraint allowed, and the likeliest token "
            "without it.",
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

    enabled: Annotated[bool | None, about("False: nothing is drafted.", default=True)] = None
    max_draft_len: Annotated[
        Count | None, about("Most tokens drafted in a step, if less than the server's.")
    ] = None
    sources: Annotated[
        list[Literal["forced", "prompt_lookup", "prediction", "draft_model", "mlp_speculator", "grammar"]]
        | None,
        about("Sources that may be asked, of those that the server has."),
    ] = None
    acceptance: Annotated[
        Literal["exact", "rejection", "tokens"] | None,
        about("How drafts are accepted, if not as the server says."),
    ] = None
    draft_tokens: Annotated[
        list[Count] | None,
        about(
            "What the output is expected to be, as token ids, from a draft of the client's own; not beside "
            "`prediction`, and for one prompt."
        ),
    ] = None
    report: Annotated[
        bool | None, about("`usage.speculative` says what became of drafts.", default=False)
    ] = None


class Prediction(msgspec.Struct):
    """What the answer is expected to be."""

    type: Literal["content"]
    content: str | list[Part]


class Common(msgspec.Struct):
    """What both APIs share."""

    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    stream: Annotated[bool | None, about("Answer with server-sent events.", default=False)] = None
    stream_options: Annotated[StreamOptions | None, about("What a stream has besides.")] = None
    n: Annotated[Count | None, about("Choices.", 1, 128, 1, core="same")] = None
    max_tokens: Annotated[
        Unbounded | None, about("Most tokens of a choice; -1 = the room that is left in the context.", -1)
    ] = None
    n_predict: Annotated[Unbounded | None, about("llama-server's name for `max_tokens`.", -1)] = None
    min_tokens: Annotated[
        Count | None, about("End tokens are not drawn before this many tokens.", 0, default=0, core="same")
    ] = None
    temperature: Annotated[
        float | None, about("Divides the logits; 0 = the likeliest token.", 0, 2, 1, core="sampling")
    ] = None
    top_p: Annotated[
        float | None,
        about("Probability mass of the tokens that are kept; 0 = the likeliest.", 0, 1, 1, core="sampling"),
    ] = None
    top_k: Annotated[Unbounded | None, about("Most likely tokens kept; 0 or -1 = all.", -1, default=0)] = None
    min_p: Annotated[
        float | None,
        about("Tokens less likely than this times the likeliest are dropped.", 0, 1, 0, core="sampling"),
    ] = None
    presence_penalty: Annotated[
        float | None, about("Subtracted from generated tokens.", -2, 2, 0, core="sampling")
    ] = None
    frequency_penalty: Annotated[
        float | None,
        about("Subtracted from generated tokens, as often as they came.", -2, 2, 0, core="sampling"),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        about(
            "Divides positive and multiplies negative logits of tokens in prompt or output; above 0.",
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
        about("Added to the logits of tokens, by id; -100 to 100, up to 1,024 of them."),
    ] = None
    stop: Annotated[
        str | list[str] | None, about("Up to 16 texts of up to 1,024 bytes that end a choice.")
    ] = None
    stop_token_ids: Annotated[
        list[Count] | None, about("Up to 128 tokens that end a choice, as end tokens do.", core="same")
    ] = None
    include_stop_str_in_output: Annotated[
        bool | None,
        about("The stop text that ended a choice is part of its text.", default=False, core="same"),
    ] = None
    skip_special_tokens: Annotated[
        bool | None,
        about("False: the text of special tokens is part of a choice's.", default=True, core="same"),
    ] = None
    allowed_token_ids: Annotated[
        list[Count] | None, about("The only tokens that may be generated.", core="same")
    ] = None
    bad_words: Annotated[
        list[str] | None,
        about(
            "Up to 128 texts of up to 1,024 bytes that are nowhere in answer or reasoning; "
            "beside no other constraint."
        ),
    ] = None
    logprobs_of: Annotated[
        Literal["raw", "allowed"] | None,
        about("Log-probabilities among all tokens, or the allowed ones.", default="raw", core="same"),
    ] = None
    prompt_logprobs: Annotated[
        Count | None,
        about(
            "Log-probabilities of the prompt's tokens, and alternatives for each; not with `stream`.",
            0,
            20,
        ),
    ] = None
    truncate_prompt_tokens: Annotated[
        Unbounded | None,
        about("Only so many of the prompt's last tokens are read; -1 = as many as fit.", -1),
    ] = None
    priority: Urgency = None
    cache_salt: Salt = None
    service_tier: Annotated[
        Literal["auto", "default", "flex", "priority"] | None,
        about("Where `priority` says nothing: `flex` waits for all others, `priority` goes before them."),
    ] = None
    seed: Annotated[int | None, about("Same seed, same output; -1 = a random one.")] = None
    ignore_eos: Annotated[
        bool | None,
        about("End tokens are not drawn where anything else is allowed.", default=False, core="same"),
    ] = None
    response_format: Annotated[ResponseFormat | None, about("What the output must be.")] = None
    structured_outputs: Annotated[StructuredOutputs | None, about("vLLM's form of the same.")] = None
    json_style: Annotated[
        JsonStyle | None,
        about("How JSON is written under a schema: key order, undeclared keys, white space."),
    ] = None
    guided_whitespace_pattern: Annotated[str | None, about("vLLM's older name for its pattern.")] = None
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
    ebnf: Annotated[str | None, about("SGLang's name for the same in EBNF.")] = None
    structural_tag: Annotated[
        str | None, about("SGLang's name for `response_format` of type `structural_tag`, as JSON text.")
    ] = None
    regex: Annotated[str | None, about("SGLang's name for a regular expression.")] = None
    probabilities: Annotated[
        list[str] | None,
        about(
            "JSON pointers to enums and booleans in the answer, which has a JSON schema: each choice has "
            "`probabilities` of their values. Up to 32; not with `stream`."
        ),
    ] = None
    timings_per_token: Annotated[
        bool | None,
        about("The answer has `timings`, and each chunk of a stream, as llama-server's.", default=False),
    ] = None
    speculative: Annotated[
        Speculative | None, about("What the request wants of speculation; its text does not depend on it.")
    ] = None


class Conversation(Common):
    """What conversations share besides: how the chat template is used, and what of reasoning there may be."""

    enable_thinking: Annotated[
        bool | None, about("Whether the model reasons, where its chat template leaves that open.")
    ] = None
    thinking_budget: Annotated[
        Count | None, about("Most tokens of reasoning; then its end marker is written.", 0)
    ] = None
    thinking_token_budget: Annotated[Unbounded | None, about("vLLM's name for `thinking_budget`.", -1)] = None
    thinking_budget_tokens: Annotated[
        Unbounded | None, about("llama-server's name for `thinking_budget`.", -1)
    ] = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, about("More variables for the chat template.")] = (
        None
    )


class ChatRequest(Conversation, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], about("The conversation; at least one.")]
    max_completion_tokens: Annotated[
        Count | None, about("OpenAI's newer name for `max_tokens`, which it goes before.", 1)
    ] = None
    prediction: Annotated[
        Prediction | None, about("What the answer is expected to be; drafts are taken from it.")
    ] = None
    tools: Annotated[
        list[Tool | CustomTool] | None, about("Up to 128 functions and custom tools that may be called.")
    ] = None
    tool_choice: Annotated[
        ToolChoice | None,
        about(
            "`none`, `auto` or `required`, a function, or `allowed_tools`; `auto` where there are functions."
        ),
    ] = None
    parallel_tool_calls: Annotated[
        bool | None, about("False: no more than one call in an answer.", default=True)
    ] = None
    functions: Annotated[list[Function] | None, about("The older name of `tools`.")] = None
    function_call: Annotated[
        Literal["none", "auto"] | FunctionName | None, about("The older name of `tool_choice`.")
    ] = None
    reasoning_effort: Annotated[
        str | None,
        about("Given to the chat template; `none`: the model does not reason. For models that reason."),
    ] = None
    logprobs: Annotated[bool | None, about("Log-probabilities of the tokens.", default=False)] = None
    top_logprobs: Annotated[Count | None, about("Alternatives for each token.", 0, 20, 0)] = None
    add_generation_prompt: Annotated[
        bool | None, about("False: the prompt ends with the last message.", default=True)
    ] = None
    continue_final_message: Annotated[
        bool | None, about("The answer goes on with the last message, which stays open.", default=False)
    ] = None


def a_chats_alone(kind: type[msgspec.Struct]) -> frozenset[str]:
    """A chat's fields that this body lacks: to ignore one may be to answer without a constraint."""
    return frozenset(ChatRequest.__struct_fields__) - frozenset(kind.__struct_fields__)


class CompletionRequest(Common, kw_only=True):
    """Body of `/v1/completions`."""

    prompt: Annotated[Any, about("Text, texts, token ids, or lists of token ids; up to 2,048 prompts.")]
    suffix: Annotated[
        str | None,
        about("What stands behind the text that is written, for models that have tokens for filling in."),
    ] = None
    echo: Annotated[bool | None, about("The prompt's text comes before the output's.", default=False)] = None
    logprobs: Annotated[Count | None, about("Log-probabilities, and alternatives for each token.", 0, 20)] = (
        None
    )
    best_of: Annotated[
        Count | None,
        about(
            "Choices that are made, of which the `n` likeliest per token are given, the best first; not less "
            "than `n`, nor more in a stream. `usage` counts all.",
            1,
            128,
        ),
    ] = None
