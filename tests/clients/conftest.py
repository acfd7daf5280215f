"""The demo server behind a recorder, and what every exchange is held to."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from server.serving import DATA, serving_demo

from .published import Published
from .recorder import Recorder, recording


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    """The demo model's server, as clients reach it."""
    with serving_demo() as server, recording(server) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def published() -> Published:
    """OpenAI's published schemas, as far as they are at hand."""
    files = {name: DATA / f"openai-{name}-spec.json" for name in ("chat", "responses")}
    return Published({name: json.loads(file.read_text()) for name, file in files.items() if file.exists()})


@pytest.fixture
def demo(recorder: Recorder, published: Published) -> Iterator[Recorder]:
    """The same for one test; all its exchanges are held to what is published, whatever the library saw."""
    recorder.exchanges.clear()
    yield recorder
    assert recorder.exchanges, "the test sent nothing"
    for exchange in recorder.exchanges:
        published.hold(exchange)


@pytest.fixture
def client(demo: Recorder) -> Iterator[openai.OpenAI]:
    """OpenAI's official client."""
    with demo.client() as client:
        yield client
