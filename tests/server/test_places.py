"""`probabilities`: the distribution at enums and booleans of an ordinary answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from .probabilities import BARE, STATE, brute_force
from .serving import Server, serving


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    """A small vocabulary."""
    with serving("toy", config=BARE) as server:
        yield server.wait_ready()


def answer_with(server: Server, schema: Any, pointers: list[str], **more: Any) -> dict[str, Any]:
    body = {
        "messages": [{"role": "user", "content": STATE}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "probabilities": pointers,
        **more,
    }
    answer = server.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_a_field_has_the_probabilities_of_its_place(bare: Server) -> None:
    options = ["the", "then", "in", "ing"]
    told = answer_with(bare, closed(s={"enum": options}), ["/s"], logprobs=True, seed=3)["choices"][0]
    tokens = [token["token"] for token in told["logprobs"]["content"]]
    content = told["message"]["content"]
    before = content[: content.index(json.dumps(json.loads(content)["s"]))]
    count = next(i for i in range(len(tokens)) if "".join(tokens[:i]) == before)
    chat = {"messages": [{"role": "user", "content": STATE}]}
    prompt = bare.http.post("/v1/chat/completions/render", json=chat).json()["prompt_token_ids"]
    for token in tokens[:count]:
        ask = {"prompt": token, "add_special_tokens": False}
        prompt += bare.http.post("/tokenize", json=ask).json()["tokens"]
    expected = brute_force(bare, prompt, [f'"{option}"}}' for option in options])
    found = told["probabilities"]["/s"]
    assert list(found) == options
    assert all(abs(found[o] - expected[f'"{o}"}}']) < 1e-6 for o in options), (found, expected)


def test_places_of_all_kinds(demo: Server) -> None:
    item = closed(ok={"type": ["boolean", "null"]})
    schema = closed(
        mood={"$ref": "#/$defs/mood"},
        sure={"type": "boolean"},
        rank={"enum": [1, 12, 1.5, None, "1"]},
        list={"type": "array", "items": item, "minItems": 2, "maxItems": 2},
        maybe={"anyOf": [{"const": "a/b"}, {"enum": ["é", "e"]}]},
    )
    schema["$defs"] = {"mood": {"type": "string", "enum": ["good", "goodish", "bad"]}}
    pointers = ["/mood", "/sure", "/rank", "/list/0/ok", "/list/1/ok", "/maybe"]
    refused = demo.http.post(
        "/v1/chat/completions",
        json={
            "messages": [{"role": "user", "content": "x"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            "probabilities": ["/rank"],
        },
    )
    assert refused.status_code == 400  # 1 and "1" have the same name
    schema["properties"]["rank"]["enum"].pop()
    told = answer_with(demo, schema, pointers, n=3, seed=1)
    assert len(told["choices"]) == 3
    for choice in told["choices"]:
        value = json.loads(choice["message"]["content"])
        places = [
            value["mood"],
            value["sure"],
            value["rank"],
            *(x["ok"] for x in value["list"]),
            value["maybe"],
        ]
        assert list(choice["probabilities"]) == pointers
        for pointer, there in zip(pointers, places, strict=True):
            found = choice["probabilities"][pointer]
            assert math.isclose(sum(found.values()), 1), (pointer, found)
            assert found[there if isinstance(there, str) else json.dumps(there)] > 0, (pointer, found)
    again = answer_with(demo, schema, pointers, n=3, seed=1)
    assert again["choices"] == told["choices"]


def test_a_place_that_the_answer_lacks_has_none(demo: Server) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}
    told = [answer_with(demo, schema, ["/a"], seed=seed, temperature=2)["choices"][0] for seed in range(12)]
    kinds = set()
    for choice in told:
        there = "a" in json.loads(choice["message"]["content"])
        assert (choice["probabilities"]["/a"] is not None) == there
        kinds.add(there)
    assert kinds == {True, False}


def test_a_completion_and_reasoning_have_them_too(toy: Server, thinker: Server) -> None:
    schema = closed(a={"type": "boolean"})
    body = {"prompt": ["x", "y"], "guided_json": schema, "probabilities": ["/a"], "max_tokens": 50, "n": 2}
    choices = toy.http.post("/v1/completions", json=body).json()["choices"]
    assert [list(choice["probabilities"]["/a"]) for choice in choices] == [["true", "false"]] * 4
    assert choices[0]["probabilities"] != choices[2]["probabilities"]
    told = answer_with(thinker, schema, ["/a"], thinking_budget=5)["choices"][0]
    assert told["message"]["reasoning_content"]
    assert math.isclose(sum(told["probabilities"]["/a"].values()), 1)


def test_a_schema_with_many_ways_to_a_place_is_looked_through_once(toy: Server) -> None:
    # Each definition refers to the next one twice: 2^30 ways.
    names = [f"d{i}" for i in range(31)]
    both = {name: {"anyOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in pairwise(names)}
    for last, status in (({"enum": ["a", "b"]}, 200), ({"$ref": "#/$defs/d0"}, 400)):
        schema = closed(x={"$ref": "#/$defs/d0"}) | {"$defs": {**both, names[-1]: last}}
        body = {"prompt": "x", "guided_json": schema, "probabilities": ["/x"], "max_tokens": 40}
        answer = toy.http.post("/v1/completions", json=body)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("schema", ["{", {"anyOf": 5}, {"properties": [1]}, {"enum": 3}, {"type": {}}, True])
def test_a_schema_that_is_none_is_refused(toy: Server, schema: Any) -> None:
    body = {"prompt": "x", "guided_json": schema, "probabilities": ["/a"]}
    assert toy.http.post("/v1/completions", json=body).status_code == 400


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"probabilities": ["/b"]}, "is not the place of an enum or a boolean"),
        ({"probabilities": ["/s"]}, "is not the place of an enum or a boolean"),
        ({"probabilities": ["a"]}, "write it like /sentiment"),
        ({"probabilities": ["/a"] * 33}, "send at most 32"),
        ({"probabilities": ["/a"] * 3, "n": 86}, "256 places are the most"),
        ({"stream": True}, "not in a stream"),
        ({"response_format": {"type": "json_object"}}, "needs a JSON schema"),
        ({"response_format": None}, "needs a JSON schema"),
    ],
)
def test_pointers_that_are_refused(toy: Server, change: dict[str, Any], why: str) -> None:
    schema = closed(a={"type": "boolean"}, s={"type": "string"})
    body = {
        "messages": [{"role": "user", "content": STATE}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "probabilities": ["/a"],
    }
    answer = toy.http.post("/v1/chat/completions", json={**body, **change})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "probabilities"
    assert why in answer.json()["error"]["message"]
