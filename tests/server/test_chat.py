"""`/v1/chat/completions` through the official client."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import jsonschema
import openai
import pydantic
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from .serving import Server, serving_demo

HI: Any = [{"role": "user", "content": "hi"}]


def chat(api: openai.OpenAI, **fields: Any) -> ChatCompletion:
    settings: Any = {"model": "toy", "messages": HI, "max_tokens": 24, **fields}
    answer: ChatCompletion = api.chat.completions.create(**settings)
    return answer


def stream(api: openai.OpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    settings = {"model": "toy", "messages": HI, "max_tokens": 24, "stream": True, **fields}
    return list(api.chat.completions.create(**settings))


def text_of(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    choices = [c for chunk in chunks for c in chunk.choices if c.index == index]
    return "".join(c.delta.content or "" for c in choices)


def validate(spec: Any, name: str, body: object) -> None:
    jsonschema.validate(body, {"$ref": f"#/components/schemas/{name}", "components": spec["components"]})


def test_an_answer(api: openai.OpenAI) -> None:
    answer = chat(api)
    assert (answer.object, answer.model, len(answer.choices)) == ("chat.completion", "toy", 1)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details is not None
    assert answer.system_fingerprint == chat(api).system_fingerprint


def test_stop_tokens_end_a_choice_and_are_no_part_of_it(api: openai.OpenAI) -> None:
    body = {"ignore_eos": True}
    free = chat(api, seed=3, extra_body=body)
    whole = free.choices[0].message.content or ""
    stop = next(
        c for c in whole[5:] if c.isascii()
    )  # the weightless vocabulary's byte tokens are their own ids
    cut = chat(api, seed=3, extra_body={**body, "stop_token_ids": [ord(stop)]})
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == (
        whole[: whole.index(stop)],
        "stop",
    )
    shown = chat(api, seed=3, stop=[stop], extra_body={**body, "include_stop_str_in_output": True})
    assert shown.choices[0].message.content == whole[: whole.index(stop) + 1]
    same = chat(api, seed=3, stop=[stop], extra_body=body)
    assert same.choices[0].message.content == cut.choices[0].message.content


def test_only_allowed_tokens_come(api: openai.OpenAI) -> None:
    body = {"allowed_token_ids": [97, 98, 99]}
    text = chat(api, extra_body=body).choices[0].message.content or ""
    assert len(text) == 24
    assert set(text) == {"a", "b", "c"}
    with pytest.raises(openai.BadRequestError) as error:
        chat(api, extra_body={**body, "guided_choice": ["xyz"]})
    assert error.value.param == "allowed_token_ids"
    assert chat(api, extra_body={**body, "guided_choice": ["cab"]}).choices[0].message.content == "cab"


def test_constraints_of_other_servers_are_enforced(api: openai.OpenAI) -> None:
    wanted: dict[str, Any] = {"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"]}
    wanted["additionalProperties"] = False
    for body in (
        {"response_format": {"type": "json_object", "schema": wanted}},
        {"guided_json": wanted},
        {"structured_outputs": {"json": wanted}},
        {"json_schema": json.dumps(wanted)},
    ):
        answer = chat(api, max_tokens=200, extra_body=body).choices[0].message.content or ""
        assert json.loads(answer) == {"a": 7}, body


def test_a_salt_keeps_prefixes_apart(api: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "a salted prompt, long enough to be worth its while " * 3}]

    def cached(salt: str) -> int:
        usage = chat(api, messages=messages, max_tokens=1, extra_body={"cache_salt": salt}).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens or 0

    first, other, again = cached("one"), cached("two"), cached("one")
    assert again > 100
    assert max(first, other) == 0


def test_a_message_can_be_continued(api: openai.OpenAI) -> None:
    messages = [*HI, {"role": "assistant", "content": "Well, "}]

    def read(**body: Any) -> int:
        usage = chat(api, messages=messages, max_tokens=1, extra_body=body).usage
        assert usage is not None
        return usage.prompt_tokens

    asked, open_ended = read(), read(continue_final_message=True)
    closed = read(add_generation_prompt=False)
    assert open_ended < closed < asked
    assert read(truncate_prompt_tokens=5) == 5


def test_the_fingerprint_is_the_same_at_the_next_start(demo: Server) -> None:
    request = {"messages": HI, "max_tokens": 1}
    with serving_demo() as again:
        bodies = [s.http.post("/v1/chat/completions", json=request).json() for s in (demo, again)]
    assert bodies[0]["system_fingerprint"] == bodies[1]["system_fingerprint"]


def test_conversations_in_turns_find_their_prefixes(demo: Server) -> None:
    """A chat template gives all of them the same first tokens; none may take another's KV for these."""
    talks = [
        [{"role": "user", "content": f"Text: the {word} is red. " * 12}] for word in ("gate", "cup", "hat")
    ]
    for turn in range(2):
        for talk in talks:
            request = {"messages": talk, "max_tokens": 1}
            usage = demo.http.post("/v1/chat/completions", json=request).json()["usage"]
            if turn == 1:
                assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_bodies_are_as_openai_publishes_them(toy: Server, spec: Any) -> None:
    request = {"messages": HI, "max_tokens": 8, "seed": 1, "n": 2, "logprobs": True, "top_logprobs": 2}
    body = toy.http.post("/v1/chat/completions", json=request).json()
    validate(spec, "CreateChatCompletionResponse", body)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    lines = toy.http.post("/v1/chat/completions", json={**request, **options}).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    for line in lines[:-2]:
        validate(spec, "CreateChatCompletionStreamResponse", json.loads(line.removeprefix("data: ")))
    error = toy.http.post("/v1/chat/completions", json={"messages": []}).json()
    validate(spec, "ErrorResponse", error)
    validate(spec, "ListModelsResponse", toy.http.get("/v1/models").json())


def test_a_seed_gives_the_same_text_streamed_or_not(api: openai.OpenAI) -> None:
    for seed in (1, -5):
        text = chat(api, seed=seed).choices[0].message.content
        assert text == chat(api, seed=seed).choices[0].message.content
        assert text == text_of(stream(api, seed=seed))
    assert chat(api, seed=1, temperature=2).choices[0] != chat(api, seed=2, temperature=2).choices[0]


def test_a_stream(api: openai.OpenAI) -> None:
    chunks = stream(api, seed=1)
    first, last = chunks[0].choices[0], chunks[-1].choices[0]
    assert (first.delta.role, first.delta.content, first.finish_reason) == ("assistant", "", None)
    assert last.finish_reason in ("stop", "length")
    assert [c for c in chunks if c.choices[0].finish_reason] == [chunks[-1]]
    assert len({c.id for c in chunks}) == 1
    assert all(c.usage is None for c in chunks)


def test_usage_of_a_stream(api: openai.OpenAI) -> None:
    whole = chat(api, seed=1).usage
    assert whole is not None
    *chunks, last = stream(api, seed=1, stream_options={"include_usage": True})
    assert last.usage is not None
    assert (last.choices, last.usage.completion_tokens) == ([], whole.completion_tokens)
    assert all(c.usage is None for c in chunks)
    every = stream(api, seed=1, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [c.usage.completion_tokens for c in every if c.usage is not None]
    assert len(counts) == len(every)
    assert counts == sorted(counts)
    assert counts[-1] == whole.completion_tokens


def test_several_choices(api: openai.OpenAI) -> None:
    texts = [c.message.content for c in chat(api, n=3, seed=1, temperature=1.5).choices]
    assert len(set(texts)) == 3
    chunks = stream(api, n=3, seed=1, temperature=1.5)
    assert [text_of(chunks, i) for i in range(3)] == texts
    assert texts[0] == chat(api, seed=1, temperature=1.5).choices[0].message.content


def test_stop_strings(api: openai.OpenAI) -> None:
    text = chat(api, seed=1, max_tokens=60, extra_body={"ignore_eos": True}).choices[0].message.content
    assert text is not None
    stop = text[5:8]
    stopped = chat(api, seed=1, max_tokens=60, stop=stop, extra_body={"ignore_eos": True}).choices[0]
    assert (stopped.message.content, stopped.finish_reason) == (text[: text.index(stop)], "stop")
    chunks = stream(api, seed=1, max_tokens=60, stop=[stop, "never"], extra_body={"ignore_eos": True})
    assert text_of(chunks) == stopped.message.content


def test_limits_on_length(api: openai.OpenAI) -> None:
    for limit in ({"max_tokens": 3}, {"max_completion_tokens": 3, "max_tokens": None}):
        answer = chat(api, **limit, extra_body={"ignore_eos": True})
        assert answer.usage is not None
        assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (3, "length")


def test_logprobs(api: openai.OpenAI) -> None:
    answer = chat(api, seed=1, logprobs=True, top_logprobs=3)
    assert answer.choices[0].logprobs is not None
    entries = answer.choices[0].logprobs.content or []
    assert entries
    for entry in entries:
        tokens = [t.token for t in entry.top_logprobs]
        # The drawn token is listed, too, where it is none of the three.
        assert len(tokens) == 3 + (entry.token not in tokens[:3])
        assert entry.token in tokens
        values = [t.logprob for t in entry.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert entry.logprob <= values[0] <= 0
    written = b"".join(bytes(e.bytes or []) for e in entries)
    assert written.decode("utf-8", "replace") == answer.choices[0].message.content
    chunks = stream(api, seed=1, logprobs=True, top_logprobs=3)
    streamed = [e for c in chunks for e in (c.choices[0].logprobs and c.choices[0].logprobs.content) or []]
    assert streamed == entries


class Person(pydantic.BaseModel):
    """What a client wants to have."""

    name: str
    age: int
    tags: list[bool]


def test_the_parse_helper(api: openai.OpenAI) -> None:
    # Ids of the weightless engine's tokens are bytes: its texts and lists come to an end sooner or later.
    bias = {str(ord(c)): 6 for c in '"]'}
    answer = api.chat.completions.parse(
        model="toy", messages=HI, max_tokens=3000, response_format=Person, seed=1, logit_bias=bias
    )
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(answer.choices[0].message.parsed, Person)


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        ({"type": "regex", "regex": "[ab]{3}"}, "[ab]{3}"),
        ({"type": "regex", "pattern": "[ab]{3}"}, "[ab]{3}"),
        ({"type": "choice", "choices": ["yes", "no"]}, "yes|no"),
        ({"type": "lark_grammar", "grammar": 'start: "x" /[0-9]/'}, "x[0-9]"),
        ({"type": "llguidance", "grammar": {"grammars": [{"json_schema": {"const": 5}}]}}, " ?5"),
        ({"type": "text"}, "(?s).*"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, 2]}}}, " ?[12]"),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}, "strict": False}},
            " ?7",
        ),
    ],
)
def test_response_formats(api: openai.OpenAI, wanted: Any, pattern: str) -> None:
    choice = chat(api, response_format=wanted, max_tokens=40).choices[0]
    assert re.fullmatch(pattern, choice.message.content or "")


def test_members_come_in_the_schemas_order(api: openai.OpenAI) -> None:
    properties = {name: {"type": "boolean"} for name in ("z", "a", "m")}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": ["z", "a", "m"]}
    schema["additionalProperties"] = False
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    choice = chat(api, response_format=wanted, max_tokens=300).choices[0]
    assert choice.finish_reason == "stop"
    assert list(json.loads(choice.message.content or "")) == ["z", "a", "m"]


def test_a_demo_answer_obeys_its_schema(demo: Server) -> None:
    name = {"type": "string", "maxLength": 40}
    schema: dict[str, Any] = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    schema["additionalProperties"] = False
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with demo.client() as api:
        messages: Any = [{"role": "user", "content": "Extract name: Ann Lee bought a lamp."}]
        choice = chat(api, model="demo", messages=messages, response_format=wanted, max_tokens=200).choices[0]
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content or ""), schema)


def test_logprobs_among_what_is_allowed(toy: Server) -> None:
    def read(**fields: Any) -> Any:
        request = {"messages": HI, "seed": 1, "logprobs": True, "top_logprobs": 3, **fields}
        choice = {"response_format": {"type": "choice", "choices": ["red", "green", "blue"]}}
        body = toy.http.post("/v1/chat/completions", json={**request, **choice}).json()
        return body["choices"][0]["logprobs"]["content"]

    raw, allowed = read(), read(logprobs_of="allowed")
    assert [entry["token"] for entry in allowed] == [entry["token"] for entry in raw]
    for entry, beside in zip(allowed, raw, strict=True):
        likely = sum(math.exp(other["logprob"]) for other in entry["top_logprobs"])
        assert likely == pytest.approx(1, abs=1e-3), "no more than three tokens may come"
        assert entry["logprob"] >= beside["logprob"]
    answer = toy.http.post("/v1/chat/completions", json={"messages": HI, "logprobs_of": "allowed"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "logprobs_of")
