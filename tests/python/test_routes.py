"""What is refused before anything of a request's size is done."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from llgtrt.openai import routes, schema
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError

INFO = {"limits": {"max_prompt": 100, "n_vocab": 50}, "max_running": 4}
API = routes.Api(
    cast("Any", SimpleNamespace(sampling={}, server=None, config='{"max_queue_size": 8}')),
    cast("Any", SimpleNamespace(info=lambda: INFO)),
    cast("Any", SimpleNamespace(longest=lambda: 7, text=lambda text: [], decode=str)),
)


def body(**fields: Any) -> schema.CompletionRequest:
    return parse(json.dumps({"prompt": "x", **fields}).encode(), schema.CompletionRequest)


def test_a_text_that_cannot_fit_is_not_encoded() -> None:
    API.check_length(700, body(), "prompt")
    API.check_length(701, body(truncate_prompt_tokens=5), "prompt")
    with pytest.raises(ApiError) as error:
        API.check_length(701, body(), "messages")
    assert (error.value.status, error.value.param) == (400, "messages")
    assert error.value.code == "context_length_exceeded"


def test_more_choices_than_the_server_takes_are_refused_by_name() -> None:
    API.check_count(1, 12)
    API.check_count(6, 2)
    for prompts, each, name in ((1, 13, "n"), (13, 1, "prompt")):
        with pytest.raises(ApiError, match="13 choices at once; this server runs and queues 12") as error:
            API.check_count(prompts, each)
        assert error.value.param == name


def test_many_prompts_do_not_multiply_what_stands_beside_them() -> None:
    for options in ({"guided_regex": "x" * 1_000_000}, {"logit_bias": {str(i): 0 for i in range(100_000)}}):
        API.core_request(body(**options), 0, 30)
        with pytest.raises(ApiError, match="1100 prompts") as error:
            API.core_request(body(**options), 0, 1100)
        assert (error.value.status, error.value.param) == (400, "prompt")


def test_echo_decodes_only_what_fits_and_exists() -> None:
    assert routes.decode(API, [[1, 2], [3]]) == ["[1, 2]", "[3]"]
    for prompts, match in (([[1], [1] * 101], "has 101 tokens"), ([[50]], "larger than the vocabulary")):
        with pytest.raises(ApiError, match=match):
            routes.decode(API, prompts)


@pytest.mark.parametrize(("size", "beside"), [(10, False), (routes.LARGE, True)])
def test_a_large_body_is_read_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, beside: bool
) -> None:
    threads = []

    def read(api: routes.Api, data: bytes, client: int) -> routes.Work:
        threads.append(threading.get_ident())
        raise ApiError("enough")

    async def read_body(request: Request, limits: object) -> bytes:
        return b"x" * size

    monkeypatch.setattr(routes, "read_body", read_body)
    app = SimpleNamespace(state=SimpleNamespace(api=API))
    with pytest.raises(ApiError, match="enough"):
        asyncio.run(routes.answer(Request({"type": "http", "app": app, "client_number": 0}), read))
    assert (threads != [threading.get_ident()]) is beside
