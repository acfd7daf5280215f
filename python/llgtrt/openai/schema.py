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


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class TextFormat(msgspec.Struct, tag_field="type", tag="text"):
    """`{"type": "text"}`: no constraint."""


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object"):
    """`{"type": "json_object"}`: any JSON object."""


class JsonSchema(msgspec.Struct):
    """`json_schema` of a response format; enforced whatever `strict` says."""

    schema: msgspec.Raw = msgspec.Raw()
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema"):
    """`{"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}`."""

    json_schema: JsonSchema


class RegexFormat(msgspec.Struct, tag_field="type", tag="regex"):
    """`{"type": "regex", "regex": "…"}`, or `pattern` for `regex`: the whole output matches."""

    regex: str | None = None
    pattern: str | None = None


class LarkFormat(msgspec.Struct, tag_field="type", tag="lark_grammar"):
    """`{"type": "lark_grammar", "grammar": "…"}`: llguidance's dialect of Lark."""

    grammar: str


class LlguidanceFormat(msgspec.Struct, tag_field="type", tag="llguidance"):
    """`{"type": "llguidance", "grammar": …}`: a grammar list, as JSON or as its text, or Lark text."""

    grammar: msgspec.Raw


class ChoiceFormat(msgspec.Struct, tag_field="type", tag="choice"):
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
    max_tokens: Count | None = None
    min_tokens: Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    response_format: ResponseFormat | None = None
    speculative: Speculative | None = None


class ChatRequest(Common, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: list[Message]
    max_completion_tokens: Count | None = None
    prediction: Prediction | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None


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
    "store": (False,),
    "service_tier": ("auto", "default"),
    "suffix": ("",),
}
"""Fields of OpenAI's API that are refused, and the values that change nothing (null is always one)."""

FOREIGN_GRAMMARS = frozenset(
    {
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"),
        *("json_schema", "grammar", "regex", "ebnf", "structural_tag"),
    }
)
"""Constraints under other servers' names: to ignore one would be to answer without it."""

NO_EFFECT = frozenset(
    {
        *("user", "metadata", "safety_identifier", "parallel_tool_calls"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    }
)
"""Fields of OpenAI's API that are accepted and have no effect on the text."""

_logged: set[str] = set()
_PLACE = re.compile(r" - at `(?:key in `?)?\$\.?(.*?)`$")
_MOST_LOGGED = 1000

Body = TypeVar("Body", ChatRequest, CompletionRequest)


def parse(body: bytes, kind: type[Body]) -> Body:
    """Reads a body.

    Raises:
        ApiError: it is not JSON, a field has another type, or asks for what is not supported.
    """
    try:
        body.decode()
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        _check_fields(fields, kind)
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as e:
        raise _bad_type(str(e)) from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise invalid(None, f"the body is not valid JSON: {e}", "invalid_json") from e
    except UnicodeDecodeError as e:
        raise invalid(None, f"the body is not valid UTF-8: {e.reason}", "invalid_utf8") from e


def _check_fields(fields: dict[str, msgspec.Raw], kind: type[Body]) -> None:
    known = kind.__struct_fields__
    for name, raw in fields.items():
        if name in known or name in NO_EFFECT:
            continue
        if name in UNSUPPORTED:
            value = msgspec.json.decode(raw)
            if value is not None and value not in UNSUPPORTED[name]:
                raise invalid(
                    name, f"{name}: this value is not supported; leave the field out", "unsupported_parameter"
                )
        elif name in FOREIGN_GRAMMARS and bytes(raw) != b"null":
            raise invalid(
                name, f"{name}: not a field of this API; use response_format", "unsupported_parameter"
            )
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
