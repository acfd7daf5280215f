"""LiteLLM as a library, and as a proxy between the official client and the server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from server.serving import PATIENCE, until

from .asks import EXTRACT, ORDER, UPDATE, Order, user
from .programs import ALONE, command, free_port
from .recorder import Recorder

KEY = "sk-of-this-test-alone-0123456789"
"""The proxy starts with no weaker one."""
TOOLS: Any = [openai.pydantic_function_tool(Order, name="update_order")]
PREFIXES = ["openai", "hosted_vllm", "anthropic"]


@pytest.fixture(scope="module")
def litellm() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in ALONE.items():
            patched.setenv(name, value)
        return pytest.importorskip("litellm")


def settings(demo: Recorder, prefix: str) -> dict[str, Any]:
    base = demo.url + ("" if prefix == "anthropic" else "/v1")
    return {
        "model": f"{prefix}/demo",
        "api_base": base,
        "api_key": "none",
        "temperature": 0,
        "max_tokens": 200,
    }


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_library(litellm: Any, demo: Recorder, prefix: str) -> None:
    asked = settings(demo, prefix)
    whole = litellm.completion(messages=user(EXTRACT), **asked).choices[0].message.content
    chunks = litellm.completion(messages=user(EXTRACT), stream=True, **asked)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    (call,) = litellm.completion(messages=user(UPDATE), tools=TOOLS, **asked).choices[0].message.tool_calls
    assert call.function.name == "update_order"
    assert Order.model_validate_json(call.function.arguments) == ORDER
    parsed = litellm.completion(messages=user(EXTRACT), response_format=Order, **asked)
    assert Order.model_validate_json(parsed.choices[0].message.content) == ORDER


def test_the_librarys_other_pages(litellm: Any, demo: Recorder) -> None:
    asked = settings(demo, "openai")
    prompt = f"<|im_start|>user\n{EXTRACT}<|im_end|>\n<|im_start|>assistant\n"
    text = litellm.text_completion(prompt=prompt, **asked).choices[0].text
    assert text == litellm.completion(messages=user(EXTRACT), **asked).choices[0].message.content
    asked["max_output_tokens"] = asked.pop("max_tokens")
    assert litellm.responses(input=EXTRACT, **asked).output_text == text
    assert len(demo.on("/v1/responses")) == 1


@pytest.fixture(scope="module")
def proxy(litellm: Any, recorder: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """LiteLLM's proxy before the server, on loopback."""
    folder, port = tmp_path_factory.mktemp("litellm"), free_port()
    server = {"model": "openai/demo", "api_base": recorder.url + "/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": "demo", "litellm_params": server}],
        "general_settings": {"master_key": KEY},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    line = [command("litellm"), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with _running(line, folder) as started:
        url = f"http://127.0.0.1:{port}"
        for _ in until():
            assert started.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url + "/health/readiness").status_code == 200:
                    break
        yield url


@contextlib.contextmanager
def _running(line: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        variables = os.environ | ALONE | {"HOME": str(folder)}
        started = subprocess.Popen(line, cwd=folder, env=variables, stdout=log, stderr=log)
        try:
            yield started
        finally:
            started.terminate()
            started.wait(PATIENCE)


def test_the_proxy(proxy: str, demo: Recorder) -> None:
    asked: dict[str, Any] = {"model": "demo", "temperature": 0, "max_tokens": 200}
    with openai.OpenAI(base_url=proxy + "/v1", api_key=KEY, max_retries=0, timeout=PATIENCE) as api:
        whole = api.chat.completions.create(messages=user(EXTRACT), **asked).choices[0].message.content
        chunks = api.chat.completions.create(messages=user(EXTRACT), stream=True, **asked)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole
        parsed = api.chat.completions.parse(messages=user(EXTRACT), response_format=Order, **asked)
        assert parsed.choices[0].message.parsed == ORDER
        calls = api.chat.completions.parse(messages=user(UPDATE), tools=TOOLS, **asked).choices[0].message
        assert [call.function.parsed_arguments for call in calls.tool_calls or []] == [ORDER]
        assert api.responses.create(model="demo", input=EXTRACT, temperature=0).output_text == whole
        with pytest.raises(openai.BadRequestError):
            api.chat.completions.create(
                messages=user("Hello."), extra_body={"response_format": {"type": "x"}}, **asked
            )
    assert len(demo.on("/v1/chat/completions")) >= 4
