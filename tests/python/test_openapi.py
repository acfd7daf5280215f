"""The OpenAPI document and the generated pages: complete, and what the server does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from llgtrt import LLM, SamplingParams, reference
from llgtrt.app import HANDLERS
from llgtrt.openai import openapi, schema
from llgtrt.openai.errors import CODES

ROOT = Path(__file__).parents[2]


def test_every_page_is_told() -> None:
    told = {path: method.upper() for path, (method, _, _) in openapi.PAGES.items()}
    assert told == {path.replace(":path", ""): methods for path, (methods, _) in HANDLERS.items()}


def test_every_field_is_told() -> None:
    bodies: list[type[msgspec.Struct]] = [kind for _, _, kind in openapi.PAGES.values() if kind is not None]
    bodies += [schema.Speculative, schema.StreamOptions]
    for kind in bodies:
        for name, meta in schema.metas(kind).items():
            assert meta.description, f"{kind.__name__}.{name}"


def test_every_code_is_told() -> None:
    found = set()
    for file in (ROOT / "python" / "llgtrt").rglob("*.py"):
        text = file.read_text()
        found |= set(re.findall(r'code="(\w+)"', text))
        calls = re.findall(r"\b(?:invalid|unavailable|ApiError)\((?:[^()]|\([^()]*\))*\)", text)
        found |= {
            name for call in calls for name in re.findall(r'"([a-z]+(?:_[a-z0-9]+)+|loading)"\s*\)$', call)
        }
    for file in (ROOT / "rust" / "src").rglob("*.rs"):
        found |= set(re.findall(r'invalid_code\([^"]*(?:"\w+", why, )?"(\w+)"\)', file.read_text()))
    assert len(found) > 12
    assert found <= CODES.keys()


@pytest.mark.parametrize("page", reference.PAGES_OF_DOCS)
def test_generated_pages_are_up_to_date(page: str) -> None:
    written = (ROOT / "docs" / page).read_text()
    assert written == reference.PAGES_OF_DOCS[page](), "run: python -m llgtrt.reference docs"


def test_the_document_is_openapi() -> None:
    document = openapi.document()
    for name, component in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(component)
        assert name
    resolved = {"$ref": "#/components/schemas/ChatRequest", "components": document["components"]}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "temperature": 0.5}
    jsonschema.validate(body, resolved)
    for wrong in ({"temperature": "x"}, {"n": 0}, {"top_p": 1.5}, {"messages": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(body | wrong, resolved)


def test_params_without_a_server_have_the_same_fields() -> None:
    told = schema.metas(schema.Common)
    generating = {name for name, meta in told.items() if (meta.extra or {}).get("core") is not None}
    assert generating <= SamplingParams.__dataclass_fields__.keys()


def test_the_ranges_that_are_told_hold() -> None:
    told = {n: m.extra_json_schema or {} for n, m in schema.metas(schema.CompletionRequest).items()}
    with LLM("toy") as llm:
        for name, bounds in told.items():
            if name not in SamplingParams.__dataclass_fields__ or name == "max_tokens":
                continue
            for bound, beyond in ("minimum", -1), ("maximum", 1):
                if bound not in bounds:
                    continue
                edge: Any = bounds[bound]
                exclusive = name == "repetition_penalty" and bound == "minimum"
                if not exclusive:
                    llm.generate("x", SamplingParams(max_tokens=1, **{name: edge}), use_tqdm=False)
                params = SamplingParams(max_tokens=1, **{name: edge + (0 if exclusive else beyond)})
                with pytest.raises(ValueError, match=name):
                    llm.generate("x", params, use_tqdm=False)
