"""The handlers of Anthropic's API, on the path of OpenAI's chats."""

from __future__ import annotations

from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from llgtrt.openai import messages_schema as schema
from llgtrt.openai import messages_translate as translate
from llgtrt.openai import routes
from llgtrt.openai.body import parse
from llgtrt.openai.messages_render import MessageEvents, MessageWriter
from llgtrt.openai.schema import a_chats_alone

Body = TypeVar("Body", bound=schema.CountRequest)


async def create(request: Request) -> Response:
    """`POST /v1/messages`."""
    return await routes.answer(request, _message)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`."""
    return routes.json_response({"input_tokens": await routes.made(request, _count)})


def _read(api: routes.Api, data: bytes, kind: type[Body]) -> Body:
    return parse(data, kind, api.settings.server.unknown_fields, a_chats_alone(kind))


def _message(api: routes.Api, data: bytes, client: int) -> routes.Work:
    body = _read(api, data, schema.MessagesRequest)
    chat = translate.chat(body)
    prompt, reply, core = routes.conversation(api, chat, client)
    writer = MessageWriter(api.settings.model, reply, body.stop_sequences or ())
    return routes.Work(chat, [prompt], core, writer, lambda going: MessageEvents(going, writer))


def _count(api: routes.Api, data: bytes, client: int) -> int:
    chat = translate.chat(_read(api, data, schema.CountRequest))
    api.check_model(chat.model)
    api.check_loaded()
    return len(routes.chat_prompt(api, chat)[0])
