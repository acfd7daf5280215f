"""The fields of bodies that ask about requests: about their tokens and their constraints."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from llgtrt.openai.schema import Common, Count, about


class TokenizeRequest(msgspec.Struct):
    """Body of `/tokenize`."""

    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None
    prompt: Annotated[str | None, about("The text. The text of a special token becomes that token.")] = None
    messages: Annotated[
        msgspec.Raw,
        about("Instead of `prompt`: a conversation, with any field of `/v1/chat/completions`."),
    ] = msgspec.field(default_factory=msgspec.Raw)
    add_special_tokens: Annotated[
        bool | None,
        about(
            "`false` leaves out the model's begin-of-text token. No effect on `messages`.",
            default=True,
        ),
    ] = None
    return_token_strs: Annotated[
        bool | None, about("Add `token_strs`, the text of each token.", default=False)
    ] = None


class DetokenizeRequest(msgspec.Struct):
    """Body of `/detokenize`."""

    tokens: Annotated[list[Count], about("Token ids. The text contains special tokens, too.")]
    model: Annotated[str | None, about("One of the model's names, as `/v1/models` lists them.")] = None


class GrammarRequest(Common, kw_only=True):
    """Body of `/v1/grammar/check`."""

    schema: Annotated[
        msgspec.Raw,
        about("A JSON schema, instead of a constraint of a request (`response_format`, `guided_regex`, …)."),
    ] = msgspec.field(default_factory=msgspec.Raw)
    text: Annotated[str | None, about("A text to compare with the constraint.")] = None
    show: Annotated[Literal["lark"] | None, about("Add `lark`, the grammar as Lark text.")] = None
