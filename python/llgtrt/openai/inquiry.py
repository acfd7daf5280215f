"""The fields of bodies that ask about requests: about their tokens and their constraints."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from llgtrt.openai.schema import Common, Count, about


class TokenizeRequest(msgspec.Struct):
    """Body of `/tokenize`."""

    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    prompt: Annotated[str | None, about("The text, in which special tokens are known by their text.")] = None
    messages: Annotated[
        msgspec.Raw,
        about("A conversation in its place, with any of the fields of `/v1/chat/completions`."),
    ] = msgspec.field(default_factory=msgspec.Raw)
    add_special_tokens: Annotated[
        bool | None,
        about(
            "False: a text does not begin with the model's first token. Of no effect on `messages`.",
            default=True,
        ),
    ] = None
    return_token_strs: Annotated[
        bool | None, about("The answer has `token_strs`, the text of each token.", default=False)
    ] = None


class DetokenizeRequest(msgspec.Struct):
    """Body of `/detokenize`."""

    tokens: Annotated[list[Count], about("Token ids; the text has special ones, too.")]
    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None


class GrammarRequest(Common, kw_only=True):
    """Body of `/v1/grammar/check`."""

    schema: Annotated[
        msgspec.Raw,
        about(
            "A JSON schema, in place of a constraint as in a request (`response_format`, `guided_regex`, …)."
        ),
    ] = msgspec.field(default_factory=msgspec.Raw)
    text: Annotated[str | None, about("A text that is compared with it.")] = None
    show: Annotated[Literal["lark"] | None, about("The answer has `lark`, the grammar as Lark text.")] = None
