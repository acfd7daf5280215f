"""Texts and conversations to token ids and back: `/tokenize`, `/detokenize`, `…/render`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from llgtrt.openai import routes
from llgtrt.openai.body import parse
from llgtrt.openai.errors import invalid
from llgtrt.openai.inquiry import DetokenizeRequest, TokenizeRequest

Json = dict[str, Any]

_OWN = ("prompt", "add_special_tokens", "return_token_strs")
"""Fields that are not a chat's. Its special tokens are those of its template, whatever is said."""


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`, as vLLM has it."""
    return await _answer(request, _tokenize)


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`, as vLLM has it."""
    return await _answer(request, _detokenize)


async def render(request: Request) -> Response:
    """`POST /v1/chat/completions/render`: what the same body's prompt would be."""
    return await _answer(request, _render)


async def _answer(request: Request, make: Callable[[routes.Api, bytes, int], Json]) -> Response:
    return routes.json_response(await routes.made(request, make))


def _tokenize(api: routes.Api, data: bytes, client: int) -> Json:
    body = _peek(data)
    if (body.prompt is None) == (not body.messages):
        raise invalid("prompt", "prompt: give either it or messages")
    tokens = _conversation(api, data, client) if body.prompt is None else _text_tokens(api, data)
    told: Json = {"count": len(tokens), "max_model_len": _longest(api), "tokens": tokens}
    told["token_strs"] = _pieces(api, tokens) if body.return_token_strs else None
    return told


def _peek(data: bytes) -> TokenizeRequest:
    """The body's own fields: a conversation's are looked at as those of a chat."""
    try:
        return msgspec.json.decode(data, type=TokenizeRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse(data, TokenizeRequest)  # which says what is wrong


def _text_tokens(api: routes.Api, data: bytes) -> list[int]:
    body = parse(data, TokenizeRequest, api.settings.server.unknown_fields)
    api.check_model(body.model)
    api.check_loaded()
    text = body.prompt or ""
    if body.add_special_tokens is not False:
        return api.vocabulary.plain(text)
    return api.vocabulary.encode([(text, True)]) if text else []


def _conversation(api: routes.Api, data: bytes, client: int) -> Sequence[int]:
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    chat = {name: value for name, value in fields.items() if name not in _OWN}
    return routes.chat(api, msgspec.json.encode(chat), client).prompts[0]


def _detokenize(api: routes.Api, data: bytes, client: int) -> Json:
    body = parse(data, DetokenizeRequest, api.settings.server.unknown_fields)
    api.check_model(body.model)
    api.check_loaded()
    if body.tokens and max(body.tokens) >= api.engine.info()["limits"]["n_vocab"]:
        raise invalid("tokens", "tokens: one is larger than the vocabulary")
    return {"prompt": _text(api, body.tokens)}


def _render(api: routes.Api, data: bytes, client: int) -> Json:
    tokens = routes.chat(api, data, client).prompts[0]
    return {
        "object": "chat.completion.prompt",
        "model": api.settings.model,
        "prompt": _text(api, tokens),
        "prompt_token_ids": tokens,
        "count": len(tokens),
        "max_model_len": _longest(api),
    }


def _longest(api: routes.Api) -> int:
    longest: int = api.engine.info()["limits"]["context"]
    return longest


def _text(api: routes.Api, tokens: Sequence[int]) -> str:
    """All tokens as they are written, special ones too."""
    return b"".join(api.vocabulary.lookup(token)[0] for token in tokens).decode("utf-8", "replace")


def _pieces(api: routes.Api, tokens: Sequence[int]) -> list[str]:
    return [api.vocabulary.lookup(token)[0].decode("utf-8", "replace") for token in tokens]
