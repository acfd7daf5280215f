"""Servers that tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from .serving import DATA, ROOT, Server, serving, serving_demo


@pytest.fixture(scope="session")
def toy() -> Iterator[Server]:
    """A server on the weightless engine, for all tests that leave it as it was."""
    with serving() as server:
        yield server.wait_ready()


@pytest.fixture(scope="session")
def demo() -> Iterator[Server]:
    """A server on the demo model."""
    with serving_demo() as server:
        yield server


@pytest.fixture(scope="session")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on the weightless engine whose chat template opens reasoning."""
    source = (ROOT / "python" / "llgtrt" / "presets" / "chatml.j2").read_text()
    opens = "{%- if add_generation_prompt -%}{{ '<think>\n' }}{%- endif -%}{# </think> #}"
    template = tmp_path_factory.mktemp("thinker") / "template.j2"
    template.write_text(source + opens)
    config = {"server": {"chat_template": str(template), "tool_format": "hermes"}}
    with serving("toy", config=config) as server:
        yield server.wait_ready()


@pytest.fixture(scope="session")
def api(toy: Server) -> Iterator[openai.OpenAI]:
    """The official client of the shared server."""
    with toy.client() as client:
        yield client


@pytest.fixture(scope="session")
def spec() -> Any:
    """OpenAI's published schemas, by name."""
    return _published("chat")


@pytest.fixture(scope="session")
def responses_spec() -> Any:
    """Those of `/v1/responses`."""
    return _published("responses")


def _published(name: str) -> Any:
    file = DATA / f"openai-{name}-spec.json"
    if not file.exists():
        pytest.skip("skipped: no data")
    return json.loads(file.read_text())
