"""What is refused before anything of a request's size is done."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llgtrt.openai import routes, schema
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError

API = routes.Api(
    cast("Any", None),
    cast("Any", SimpleNamespace(info=lambda: {"limits": {"max_prompt": 100}})),
    cast("Any", SimpleNamespace(longest=lambda: 7)),
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


def test_many_prompts_do_not_multiply_a_grammar() -> None:
    grammar = {"json_schema": "x" * 1_000_000}
    API.check_grammar(grammar, 60)
    API.check_grammar(None, 2048)
    with pytest.raises(ApiError, match="1100 prompts"):
        API.check_grammar(grammar, 1100)
