"""Request bodies: their types, and which fields are accepted, refused and ignored.

Ranges are checked by the core (`rust/src/request.rs`), types here. A field of OpenAI's API that would change
the answer and is not supported is refused by name; unknown ones are ignored, each name logged once.
"""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from llgtrt.openai.errors import ApiError, invalid

log = logging.getLogger(__name__)

Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Unbounded = Annotated[int, msgspec.Meta(ge=-1, le=2**32 - 1)]
"""A count, or -1 for as many as there is room."""


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Format(msgspec.Struct, tag_field="type", forbid_unknown_fields=True):
    """A response format. A member that is not known may be a constraint: none is ignored."""


class TextFormat(_Format, tag="text"):
    """`{"type": "text"}`: no constraint."""


class JsonObjectFormat(_Format, tag="json_object"):
    """`{"type": "json_object"}`: any JSON object; with `schema`, what that accepts."""

    schema: msgspec.Raw = msgspec.Raw()


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True):
    """`json_schema` of a response format; enforced whatever `strict` says."""

    schema: msgspec.Raw = msgspec.Raw()
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class JsonSchemaFormat(_Format, tag="json_schema"):
    """`{"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}`."""

    json_schema: JsonSchema


class RegexFormat(_Format, tag="regex"):
    """`{"type": "regex", "regex": "…"}`, or `pattern` for `regex`: the whole output matches."""

    regex: str | None = None
    pattern: str | None = None


class LarkFormat(_Format, tag="lark_grammar"):
    """`{"type": "lark_grammar", "grammar": "…"}`, or `lark_grammar` for it: llguidance's dialect of Lark."""

    grammar: str | None = None
    lark_grammar: str | None = None


class LlguidanceFormat(_Format, tag="llguidance"):
    """`{"type": "llguidance", "grammar": …}`: a grammar list, as JSON or as its text, or Lark text."""

    grammar: msgspec.Raw


class ChoiceFormat(_Format, tag="choice"):
    """`{"type": "choice", "choices": ["…", …]}`: one of these texts."""

    choices: list[str]


ResponseFormat = (
    TextFormat
    | JsonObjectFormat
    | JsonSchemaFormat
    | RegexFormat
    | LarkFormat
    | LlguidanceFormat
    | ChoiceFormat
)


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's `structured_outputs`: exactly one of these."""

    json: msgspec.Raw = msgspec.Raw()
    regex: str | None = None
    choice: list[str] | None = None
    json_object: bool | None = None


class Part(msgspec.Struct):
    """A part of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Message(msgspec.Struct):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None
    audio: Any = None


class Speculative(msgspec.Struct, forbid_unknown_fields=True):
    """What a request wants of speculation; its text does not depend on it."""

    enabled: bool | None = None
    max_draft_len: Count | None = None
    sources: (
        list[Literal["forced", "prompt_lookup", "prediction", "draft_model", "mlp_speculator"]] | None
    ) = None
    acceptance: Literal["exact", "rejection", "tokens"] | None = None
    report: bool | None = None


class Prediction(msgspec.Struct):
    """What the answer is expected to be."""

    type: Literal["content"]
    content: str | list[Part]


class Common(msgspec.Struct):
    """What both APIs share."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    max_tokens: Unbounded | None = None
    n_predict: Unbounded | None = None
    """llama-server's name for `max_tokens`."""
    min_tokens: Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    """llama-server's name for `repetition_penalty`."""
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[Count] | None = None
    """Tokens that end a choice, as end tokens do."""
    include_stop_str_in_output: bool | None = None
    """The stop string that ended a choice is part of its text."""
    skip_special_tokens: bool | None = None
    """False: the text of special tokens is part of a choice's."""
    allowed_token_ids: list[Count] | None = None
    """The only tokens that may be generated."""
    truncate_prompt_tokens: Unbounded | None = None
    """Only so many of the prompt's last tokens are read; -1 = as many as fit."""
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    """How urgent it is: lower first, 0 where nothing is said."""
    cache_salt: str | None = None
    """KV is reused only between requests with the same one."""
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    """`flex` waits for all others, `priority` goes before them, where `priority` says nothing."""
    seed: int | None = None
    """-1 = a random one."""
    ignore_eos: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: msgspec.Raw = msgspec.Raw()
    """vLLM's older names: a JSON schema or its text, a regular expression, a list of texts."""
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    json_schema: msgspec.Raw = msgspec.Raw()
    """SGLang's and llama-server's name for a JSON schema or its text."""
    regex: str | None = None
    """SGLang's name for a regular expression."""
    speculative: Speculative | None = None


class ChatRequest(Common, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: list[Message]
    max_completion_tokens: Count | None = None
    prediction: Prediction | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    """More variables for the chat template."""
    add_generation_prompt: bool | None = None
    """False: the prompt ends with the last message."""
    continue_final_message: bool | None = None
    """The answer goes on with the last message, which stays open."""


class CompletionRequest(Common, kw_only=True):
    """Body of `/v1/completions`. `prompt`: text, texts, token ids, or lists of token ids."""

    prompt: Any
    echo: bool | None = None
    logprobs: Count | None = None
    best_of: Count | None = None


UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "moderation": (),
    "suffix": ("",),
    "bad_words": ([],),
    "logits_processors": ([],),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "early_stopping": (False,),
    "prompt_logprobs": (),
    "documents": ([],),
    "prefix": ("",),
    "nvext": ({},),
    "spaces_between_special_tokens": (True,),
    "detokenize": (True,),
    "return_tokens_as_token_ids": (False,),
    "top_a": (0, 0.0),
    "tfs": (1, 1.0),
    "typical_p": (1, 1.0),
    "dry_multiplier": (0, 0.0),
    "xtc_probability": (0, 0.0),
    "mirostat": (0,),
    "dynatemp_range": (0, 0.0),
    "top_n_sigma": (-1, -1.0),
    "samplers": (),
    "smoothing_factor": (0, 0.0),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "no_repeat_ngram_size": (0,),
    "lora_path": (),
    "custom_logit_processor": (),
    "stop_regex": (),
    "input_ids": (),
    "mm_processor_kwargs": (),
    "kv_transfer_params": (),
}
"""Fields of OpenAI's API and of other servers' that change the answer and are refused, and their values that
change nothing (null is always one)."""

FOREIGN_GRAMMARS = frozenset(
    {
        *("guided_grammar", "grammar", "ebnf", "structural_tag", "guided_decoding_backend"),
    }
)
"""Constraints in forms that are not read: to ignore one would be to answer without it."""

NO_EFFECT = frozenset(
    {
        *("user", "metadata", "safety_identifier", "parallel_tool_calls", "store", "request_id", "id_slot"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    }
)
"""Fields that are accepted and have no effect on the text."""

_logged: set[str] = set()
_PLACE = re.compile(r" - at `(?:key in `?)?\$\.?(.*?)`$")
_MOST_LOGGED = 1000

Body = TypeVar("Body", ChatRequest, CompletionRequest)


def parse(body: bytes, kind: type[Body], unknown: str = "refuse_known") -> Body:
    """Reads a body; `unknown`: `server.unknown_fields`.

    Raises:
        ApiError: it is not JSON, a field has another type, or asks for what is not supported.
    """
    try:
        body.decode()
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        _check_fields(fields, kind, unknown)
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as e:
        raise _bad_type(str(e)) from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise invalid(None, f"the body is not valid JSON: {e}", "invalid_json") from e
    except UnicodeDecodeError as e:
        raise invalid(None, f"the body is not valid UTF-8: {e.reason}", "invalid_utf8") from e


def _check_fields(fields: dict[str, msgspec.Raw], kind: type[Body], unknown: str) -> None:
    known = kind.__struct_fields__
    for name, raw in fields.items():
        if name in known or name in NO_EFFECT or bytes(raw) == b"null":
            continue
        if name in FOREIGN_GRAMMARS:
            raise invalid(
                name, f"{name}: not a field of this API; use response_format", "unsupported_parameter"
            )
        if name in UNSUPPORTED and unknown != "ignore":
            if msgspec.json.decode(raw) not in UNSUPPORTED[name]:
                raise invalid(
                    name, f"{name}: this value is not supported; leave the field out", "unsupported_parameter"
                )
        elif unknown == "refuse":
            raise invalid(f"{name:.64}", f"{name:.64}: not a field of this API", "unknown_parameter")
        elif name not in _logged and len(_logged) < _MOST_LOGGED:
            _logged.add(name)
            log.warning("ignored the unknown request field %.64r (said once)", name)


def _bad_type(message: str) -> ApiError:
    place = _PLACE.search(message)
    missing = re.search(r"missing required field `(\w+)`", message)
    path = [place[1]] if place and place[1] else []
    param = ".".join([*path, missing[1]] if missing else path) or None
    text = _PLACE.sub("", message)
    return invalid(param, f"{param}: {text}" if param else f"the body: {text}")
