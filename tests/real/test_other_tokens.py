"""A draft model of another family, whose drafts are text, changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from server.serving import Server, serving

from .conftest import CONFIG, SMALL, file_of
from .test_equality import ASKED, FORM, PROMPTS, all_at_once, complete, is_exact

TARGET = "qwen-coder-0.5b"


@pytest.fixture(scope="module")
def drafting() -> Iterator[Server]:
    """A server that always drafts with the other family's model."""
    always = CONFIG | {"speculative": {"adaptive": False, "max_draft_len": 4}}
    with serving(str(file_of(TARGET)), "--speculative-model", str(file_of(SMALL)), config=always) as server:
        yield server.wait_ready()


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_answers_are_the_same(drafting: Server, temperature: float) -> None:
    if not is_exact(drafting):
        pytest.skip("the engine promises equality up to near-ties here")
    assert "drafts are text" in drafting.log()
    drawn = {"temperature": temperature, "seed": 5}
    without = [complete(drafting, p, speculative={"enabled": False}, **drawn) for p in PROMPTS]
    assert [complete(drafting, prompt, **drawn) for prompt in PROMPTS] == without
    assert all_at_once(drafting, **drawn) == without


def test_much_of_its_text_is_right(drafting: Server) -> None:
    """Under a schema, behind a chat template, and in code."""
    chat: dict[str, Any] = {
        "messages": [{"role": "user", "content": ASKED}],
        "response_format": FORM,
        "max_tokens": 120,
        "temperature": 0,
    }
    code = {"prompt": "def fibonacci(n):\n", "max_tokens": 60, "temperature": 0}
    for path, body in (("/v1/chat/completions", chat), ("/v1/completions", code)):
        answers = []
        for more in ({"enabled": False}, {"report": True, "sources": ["draft_model"]}):
            answer = drafting.http.post(path, json=body | {"speculative": more})
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
        assert answers[0]["choices"] == answers[1]["choices"]
        counts = answers[1]["usage"]["speculative"]["sources"]["draft_model"]
        assert counts["accepted"] * 4 > counts["drafted"] > 0, counts
    assert drafting.metric("llgtrt_drafters_failed") == 0
