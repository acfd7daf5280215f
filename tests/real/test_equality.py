"""A real model's answers have the same bytes, however they are asked for."""

from __future__ import annotations

import concurrent.futures
import json
from typing import Any

import jsonschema
import pytest
from server.serving import Server

ORDER = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 40},
        "quantity": {"type": "integer", "minimum": 0, "maximum": 1000},
        "day": {"enum": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]},
    },
    "required": ["customer", "quantity", "day"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "order", "schema": ORDER}}
ASKED = "Tom Weber orders 12 pieces for Friday.\nExtract customer, quantity and day as JSON."
PROMPTS = (
    "The three largest cities of Germany are",
    "def fibonacci(n):\n",
    "Zutaten für einen Apfelkuchen:\n1.",
    "Q: What is 17 plus 25?\nA:",
    "日本の首都は",
    "<html>\n<head>\n<title>",
)
LONG = "The quick brown fox jumps over the lazy dog near the river bank. " * 280
"""More than 4,000 tokens of any of the models."""


def complete(server: Server, prompt: str, **more: Any) -> str:
    """A text's continuation."""
    body = {"prompt": prompt, "max_tokens": 32, "temperature": 0, **more}
    answer = server.http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["text"]
    return text


def all_at_once(server: Server, **more: Any) -> list[str]:
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        return list(pool.map(lambda prompt: complete(server, prompt, **more), PROMPTS))


def is_exact(server: Server) -> bool:
    return "exact: bit-identical" in server.log()


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_alone_and_together(real: Server, temperature: float) -> None:
    if not is_exact(real):
        pytest.skip("the engine promises equality up to near-ties here")
    drawn = {"temperature": temperature, "seed": 7}
    alone = [complete(real, prompt, **drawn) for prompt in PROMPTS]
    assert all_at_once(real, **drawn) == alone
    assert all_at_once(real, **drawn) == alone


def test_with_and_without_drafts(real: Server) -> None:
    if not is_exact(real):
        pytest.skip("the engine promises equality up to near-ties here")
    without = [complete(real, prompt, speculative={"enabled": False}) for prompt in PROMPTS]
    assert [complete(real, prompt) for prompt in PROMPTS] == without


def test_long_prompts_and_their_prefixes(real: Server) -> None:
    if not is_exact(real):
        pytest.skip("the engine promises equality up to near-ties here")
    fresh = complete(real, LONG + "The dog")
    assert complete(real, LONG + "The dog") == fresh
    other = complete(real, LONG[: len(LONG) // 2] + "A cat")
    assert complete(real, LONG + "The dog") == fresh
    assert complete(real, LONG[: len(LONG) // 2] + "A cat") == other


def test_extraction_with_a_schema(real: Server) -> None:
    body = {"messages": [{"role": "user", "content": ASKED}], "response_format": FORM, "max_tokens": 120}
    for temperature in (0, 1):
        asked = body | {"temperature": temperature, "seed": 3}
        whole = real.http.post("/v1/chat/completions", json=asked)
        if whole.status_code == 400:
            # A base model has no chat template, and this is said.
            assert "chat template" in whole.text, whole.text
            prompt = f"{ASKED}\n"
            whole = real.http.post("/v1/completions", json={"prompt": prompt, **asked_of_base(asked)})
            text = whole.json()["choices"][0]["text"]
        else:
            text = whole.json()["choices"][0]["message"]["content"]
        found = json.loads(text)
        jsonschema.validate(found, ORDER)
        if temperature == 0:
            assert found == {"customer": "Tom Weber", "quantity": 12, "day": "Friday"}


def asked_of_base(body: dict[str, Any]) -> dict[str, Any]:
    """The same for a page without chats."""
    return {name: value for name, value in body.items() if name != "messages"}
