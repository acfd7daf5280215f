"""Ollama's API, by its official client and by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from .serving import PATIENCE, Server, serving

STORY = "A new order came in from Tom Weber. The order is for 12 pieces."
EXTRACT = f"{STORY}\nExtract customer and quantity as JSON."
UPDATE = f"{STORY}\nPlease update the order."
ORDER = {"customer": "Tom Weber", "quantity": 12}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "quantity": {"type": "integer"}},
    "required": ["customer", "quantity"],
}
COLD = {"temperature": 0}


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A function that may be called."""
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def user(content: str) -> list[dict[str, Any]]:
    """A conversation of one message."""
    return [{"role": "user", "content": content}]


@pytest.fixture(scope="module")
def client(demo: Server) -> Iterator[ollama.Client]:
    """The official client."""
    with ollama.Client(host=demo.url, timeout=PATIENCE) as client:
        yield client


def test_a_chat_whole_and_streamed(client: ollama.Client) -> None:
    whole = client.chat("demo", user(EXTRACT), options=COLD)
    lines = list(client.chat("demo", user(EXTRACT), options=COLD, stream=True))
    assert "".join(line.message.content or "" for line in lines) == whole.message.content
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    for last in whole, lines[-1]:
        assert (last.done_reason, last.prompt_eval_count, last.eval_count) == (
            "stop",
            whole.prompt_eval_count,
            whole.eval_count,
        )
        assert last.total_duration is not None
        assert last.eval_duration is not None
        assert 0 < last.eval_duration <= last.total_duration


def test_an_answer_has_the_form_of_a_schema(client: ollama.Client) -> None:
    answer = client.chat("demo:latest", user(EXTRACT), format=SCHEMA, options=COLD)
    assert json.loads(answer.message.content or "") == ORDER
    generated = client.generate("demo", EXTRACT, format="json", options=COLD)
    assert isinstance(json.loads(generated.response or ""), dict)


@pytest.mark.parametrize("stream", [False, True])
def test_functions_are_called_and_their_results_read(client: ollama.Client, stream: bool) -> None:
    def ask(messages: list[Any], tools: list[Any]) -> Any:
        if not stream:
            return client.chat("demo", messages, tools=tools, options=COLD).message
        lines = list(client.chat("demo", messages, tools=tools, options=COLD, stream=True))
        calls = [call for line in lines for call in line.message.tool_calls or ()]
        text = "".join(line.message.content or "" for line in lines)
        return ollama.Message(role="assistant", content=text, tool_calls=calls or None)

    (called,) = ask(user(UPDATE), [tool("update_order", SCHEMA)]).tool_calls
    assert (called.function.name, called.function.arguments) == ("update_order", ORDER)
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [tool("get_weather", city)]
    talk: list[Any] = user("What is the weather in Rome?")
    asked = ask(talk, tools)
    assert asked.tool_calls[0].function.arguments == {"city": "Rome"}
    result = {"role": "tool", "tool_name": "get_weather", "content": '{"weather": 17}'}
    assert ask([*talk, asked, result], tools).content == "The weather for Rome is 17."


def test_a_call_that_is_cut_is_none(client: ollama.Client) -> None:
    tools = [tool("update_order", SCHEMA)]
    for most in 4, 8, 12:
        answer = client.chat("demo", user(UPDATE), tools=tools, options={**COLD, "num_predict": most})
        for call in answer.message.tool_calls or ():
            assert call.function.arguments == ORDER


def test_a_text_is_completed(client: ollama.Client, demo: Server) -> None:
    options = {**COLD, "num_predict": 12}
    raw = client.generate("demo", "The harbour", raw=True, options=options)
    body = {"prompt": "The harbour", "max_tokens": 12, "temperature": 0}
    assert raw.response == demo.http.post("/v1/completions", json=body).json()["choices"][0]["text"]
    lines = list(client.generate("demo", "The harbour", raw=True, options=options, stream=True))
    assert "".join(line.response or "" for line in lines) == raw.response
    asked = client.generate("demo", EXTRACT, system="Be brief.", options=options)
    talk = [{"role": "system", "content": "Be brief."}, *user(EXTRACT)]
    assert asked.response == client.chat("demo", talk, options=options).message.content


def test_reasoning_is_told_apart(thinker: Server) -> None:
    options = {"num_predict": 30, "seed": 1}
    with ollama.Client(host=thinker.url, timeout=PATIENCE) as client:
        whole = client.chat("toy", user("hi"), options=options)
        lines = list(client.chat("toy", user("hi"), options=options, stream=True))
    assert whole.message.thinking
    assert "".join(line.message.thinking or "" for line in lines) == whole.message.thinking


def test_what_there_is(client: ollama.Client, demo: Server) -> None:
    (model,) = client.list().models
    assert model.model == "demo"
    shown = client.show("demo")
    assert {"completion", "tools"} <= set(shown.capabilities or ())
    assert shown.modelinfo is not None
    assert shown.modelinfo["llgtrt.context_length"] > 0
    assert [running.model for running in client.ps().models] == ["demo"]
    assert demo.http.get("/api/version").json()["version"].split(".")[0].isdecimal()
    # Asked for without a prompt, a model is loaded.
    assert client.generate("demo").done_reason == "load"
    assert client.chat("demo", []).done_reason == "load"


def test_what_is_refused(client: ollama.Client, demo: Server) -> None:
    with pytest.raises(ollama.ResponseError, match="other") as refused:
        client.chat("other", user("hi"))
    assert refused.value.status_code == 404
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"format": "yaml"}, "format: must be"),
        ({"format": {"type": "strin"}}, "format: type"),
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"options": {"temperature": 9}}, "options.temperature"),
        ({"options": {"top_k": "x"}}, "options.top_k"),
        ({"messages": [{"role": "user", "content": "", "images": ["aGk="]}]}, "messages[0].images"),
        ({"think": "much"}, "think: must be"),
        ({"logprobs": True}, "logprobs"),
    ]
    for fields, message in wrong:
        for stream in True, False:
            body = {"model": "demo", "messages": user("hi"), "stream": stream, **fields}
            reply = demo.http.post("/api/chat", json=body)
            assert reply.status_code == 400, reply.text
            assert message in reply.json()["error"]
    for fields in {"images": ["aGk="]}, {"context": [1]}, {"template": "x"}, {"raw": True, "system": "x"}:
        reply = demo.http.post("/api/generate", json={"prompt": "hi", **fields})
        assert (reply.status_code, next(iter(fields)) in reply.text or "system" in reply.text) == (400, True)


def test_keys_are_asked_for() -> None:
    with serving("toy", config={"server": {"api_keys": ["secret"]}}) as server:
        server.wait_ready()
        assert server.http.get("/api/tags").json() == {
            "error": "missing or wrong API key; send it as `Authorization: Bearer <key>` or as `x-api-key`"
        }
        headers = {"authorization": "Bearer secret"}
        assert server.http.get("/api/tags", headers=headers).status_code == 200
