"""The server with a real vLLM as its engine; `launch/check-vllm.sh` installs that, and runs these."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import openai
import pytest

from llgtrt.openai.schema import ChatRequest

from .serving import PATIENCE, PERSON, Server, llgtrt, schema_format

pytestmark = pytest.mark.vllm
PLACE = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PLACE}}
ANSWERED: dict[str, Any] = {
    "stream": False,
    "n": 2,
    "max_tokens": 4,
    "n_predict": 4,
    "min_tokens": 3,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "presence_penalty": 1.0,
    "frequency_penalty": 1.0,
    "repetition_penalty": 1.1,
    "repeat_penalty": 1.1,
    "logit_bias": {"30": -5},
    "stop": ["x"],
    "stop_token_ids": [30],
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "allowed_token_ids": [30, 31, 32],
    "bad_words": ["the"],
    "logprobs_of": "raw",
    "prompt_logprobs": 1,
    "truncate_prompt_tokens": 5,
    "priority": 1,
    "cache_salt": "a",
    "service_tier": "flex",
    "ignore_eos": True,
    "response_format": {"type": "json_object"},
    "structured_outputs": {"choice": ["yes", "no"]},
    "guided_json": {"enum": [1, 2]},
    "guided_regex": "[ab]",
    "guided_choice": ["yes", "no"],
    "json_schema": {"enum": [1, 2]},
    "guided_grammar": 'start: "a"',
    "grammar": 'root ::= "a"',
    "ebnf": 'root ::= "a"',
    "regex": "[ab]",
    "timings_per_token": True,
    "chat_template_kwargs": {"a": 1},
    "max_completion_tokens": 4,
    "prediction": {"type": "content", "content": "Hello!"},
    "tools": [WEATHER],
    "functions": [WEATHER["function"]],
    "logprobs": True,
    "add_generation_prompt": False,
}
"""A value of each field that vLLM's requests have."""
REFUSED: dict[str, Any] = {
    # On processors alone: vLLM 0.32 loses requests with a seed there.
    "seed": {"seed": 1, "temperature": 1.0},
    "logprobs_of": {"logprobs": True, "logprobs_of": "allowed"},
    "probabilities": {
        "probabilities": ["/a"],
        **schema_format({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}),
    },
    "speculative": {"speculative": {"enabled": False}},
    "min_tokens": {"min_tokens": 2, "guided_choice": ["yes", "no"]},
}
"""Bodies that vLLM cannot answer, by the field that is blamed."""
BESIDE = {
    # With another field, or of every request.
    *("model", "messages", "stream_options", "json_style", "guided_whitespace_pattern", "structural_tag"),
    *("tool_choice", "parallel_tool_calls", "function_call", "top_logprobs", "continue_final_message"),
    # Of templates that think; those of this model do not.
    *("enable_thinking", "thinking_budget", "thinking_token_budget", "thinking_budget_tokens"),
    "reasoning_effort",
    # Of templates that take documents.
    "documents",
}
"""Fields that are tried in other tests, or on other engines alone."""


def check(texts: list[str], schema: Any = PERSON) -> None:
    for text in texts:
        jsonschema.validate(json.loads(text), schema)


@pytest.fixture(scope="module", name="server")
def fixture_server(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with llgtrt(model, tmp_path_factory.mktemp("engine"), "--set", "max_num_tokens=128") as server:
        yield server


@pytest.mark.parametrize("count", [40, 150])
def test_answers_are_valid_and_complete(server: Server, count: int) -> None:
    for n in range(3):
        check(server.texts(f"Describe person {n}.", max_tokens=count, **schema_format(PERSON)))


def test_many_at_once_are_as_valid(server: Server) -> None:
    def one(n: int) -> list[str]:
        fields = {"temperature": 1.0, "max_tokens": 40 + n, "n": 2}
        return server.texts(f"Describe person {n}.", **fields, **schema_format(PERSON))

    with ThreadPoolExecutor(16) as pool:
        for texts in pool.map(one, range(24)):
            check(texts)


def test_what_does_not_fit_is_refused_before_it_begins(server: Server) -> None:
    answer = server.chat("?", max_tokens=3, **schema_format(PERSON))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")
    impossible = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}, "required": ["a"]}
    answer = server.chat("?", **schema_format(impossible))
    assert answer.status_code == 400
    assert "/properties/a" in answer.text
    answer = server.chat("word " * 2000, max_tokens=5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize("field", ANSWERED)
def test_fields_that_are_answered(server: Server, field: str) -> None:
    body = {field: ANSWERED[field]}
    answer = server.chat("Say hello.", **{"max_tokens": 8, **body})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("field", REFUSED)
def test_fields_that_are_refused(server: Server, field: str) -> None:
    answer = server.chat("Say hello.", **{"max_tokens": 8, **REFUSED[field]})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == field
    assert "vLLM" in answer.json()["error"]["message"]
    assert f"`{field}`" in (Path(__file__).parents[2] / "docs/vllm-engine.md").read_text()


def test_no_field_is_forgotten() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(ChatRequest)}
    assert fields - BESIDE == fields & (ANSWERED.keys() | REFUSED.keys())


def test_token_probabilities(server: Server) -> None:
    choice = server.chat("Hi", max_tokens=3, logprobs=True, top_logprobs=2).json()["choices"][0]
    for entry in choice["logprobs"]["content"]:
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] <= 0
        assert len(entry["top_logprobs"]) == 2
    whole = server.http.post(
        "/v1/completions",
        json={"model": "m", "prompt": "one two three", "max_tokens": 1, "prompt_logprobs": 1},
    ).json()
    entries = whole["choices"][0]["prompt_logprobs"]
    assert entries[0] is None
    assert all(entry for entry in entries[1:])


def test_tools(server: Server) -> None:
    answer = server.chat("Weather?", max_tokens=60, tools=[WEATHER], tool_choice="required").json()
    (call,) = answer["choices"][0]["message"]["tool_calls"][:1]
    assert call["function"]["name"] == "weather"
    jsonschema.validate(json.loads(call["function"]["arguments"]), PLACE)
    named = {"type": "function", "function": {"name": "weather"}}
    answer = server.chat("Weather?", max_tokens=60, tools=[WEATHER], tool_choice=named).json()
    assert answer["choices"][0]["message"]["tool_calls"]


def test_clients(server: Server) -> None:
    url = str(server.http.base_url)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=PATIENCE) as client:
        messages: Any = [{"role": "user", "content": "Describe a person."}]
        whole = client.chat.completions.create(
            model="m", messages=messages, max_tokens=50, temperature=0, extra_body=schema_format(PERSON)
        )
        stream = client.chat.completions.create(
            model="m",
            messages=messages,
            max_tokens=50,
            temperature=0,
            stream=True,
            extra_body=schema_format(PERSON),
        )
        text = "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
        assert text == whole.choices[0].message.content
        check([text])
        reply = client.responses.create(model="m", input="Say hello.", max_output_tokens=16)
        assert reply.output_text
    body = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}
    message = server.http.post("/v1/messages", json=body).json()
    assert message["content"][0]["type"] == "text"


def test_a_client_that_leaves_ends_its_request(server: Server) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Count."}], "stream": True}
    with server.http.stream("POST", "/v1/chat/completions", json=body | {"ignore_eos": True}) as answer:
        assert next(answer.iter_lines()).startswith("data: ")
    deadline = time.monotonic() + PATIENCE
    while server.metric("llgtrt_running_sequences"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_worker_that_dies_is_started_again(model: str, tmp_path: Path) -> None:
    with llgtrt(model, tmp_path) as server:
        server.texts("Pick.", guided_choice=["yes", "no"])
        (child,) = children(server.process.pid, "engine_child")
        victims = children(child, "")
        assert victims
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        # What runs then is lost; who asks later waits for the new engine.
        deadline = time.monotonic() + PATIENCE
        while not server.metric("llgtrt_engine_restarts_total"):
            server.chat("Hello", max_tokens=2)
            assert time.monotonic() < deadline
        server.texts("Pick.", guided_choice=["yes", "no"])


def children(parent: int, name: str) -> list[int]:
    """Processes that `parent` has started, whose command line has `name` in it."""
    listed = subprocess.run(
        ["ps", "--no-headers", "-o", "pid,args", "--ppid", str(parent)], capture_output=True, check=False
    )
    lines = [line.split(None, 1) for line in listed.stdout.decode().splitlines()]
    return [int(pid) for pid, command in lines if name in command]


def test_a_draft_model(model: str, tmp_path: Path) -> None:
    with llgtrt(model, tmp_path, model, "--num-speculative-tokens", "3") as server:
        fields = {"max_tokens": 60, "speculative": {"report": True}, **schema_format(PERSON)}
        answer = server.chat("Describe a person.", **fields).json()
        check([answer["choices"][0]["message"]["content"]])
        drafts = answer["usage"]["speculative"]["sources"]["draft_model"]
        assert drafts["drafted"] >= drafts["accepted"] > 0
        assert server.metric("llgtrt_accepted_tokens_total") == drafts["accepted"]
        assert server.metric("llgtrt_drafted_tokens_total") == drafts["drafted"]
        for field in ("min_p", "logit_bias", "ignore_eos"):
            refused = server.chat("?", **{field: ANSWERED[field]})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)


def test_speculation_of_vllms_own(model: str, tmp_path: Path) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    with llgtrt(model, tmp_path, "--speculative-config", json.dumps(config)) as server:
        check(server.texts('Repeat: {"name": "Ann"}', max_tokens=60, **schema_format(PERSON)))


def test_two_ranks(halves: str, tmp_path: Path) -> None:
    flags = ("--tp", "2", "--engine-args", '{"load_format": "dummy"}')
    with llgtrt(halves, tmp_path, *flags, cores="0|1") as server:
        check(server.texts("Describe a person.", max_tokens=60, **schema_format(PERSON)))


def test_a_setting_that_vllm_refuses_ends_the_start(model: str, tmp_path: Path) -> None:
    command = [os.environ["LLGTRT_VLLM_PYTHON"], "-I", "-m", "llgtrt", "serve", model, "--engine", "vllm"]
    command += ["--port", "0", "--engine-args", '{"no_such_argument": 1}']
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert "no_such_argument" in ended.stderr
    assert str(tmp_path) not in ended.stderr
