"""`/v1/completions` and `/v1/models` through the official client."""

from __future__ import annotations

from typing import Any

import jsonschema
import openai
import pytest
from openai.types import Completion

from .serving import Server


def complete(api: openai.OpenAI, prompt: Any, **fields: Any) -> Completion:
    settings: Any = {"model": "toy", "prompt": prompt, "max_tokens": 12, "seed": 1, **fields}
    answer: Completion = api.completions.create(**settings)
    return answer


def texts(completion: Completion) -> list[str]:
    assert [c.index for c in completion.choices] == list(range(len(completion.choices)))
    return [c.text for c in completion.choices]


def test_forms_of_a_prompt(api: openai.OpenAI) -> None:
    (a,), (b,) = texts(complete(api, "a")), texts(complete(api, "b"))
    assert a != b
    assert texts(complete(api, ["a", "b"])) == [a, b]
    assert texts(complete(api, [97])) == [a]
    assert texts(complete(api, [[97], [98]])) == [a, b]


def test_choices_are_prompt_major(api: openai.OpenAI) -> None:
    four = texts(complete(api, ["a", "b"], n=2))
    assert four[:2] == texts(complete(api, "a", n=2))
    assert four[2:] == texts(complete(api, "b", n=2))


def test_usage_counts_each_prompt_once(api: openai.OpenAI) -> None:
    usage = complete(api, ["a", "bb"], n=2, max_tokens=5, extra_body={"ignore_eos": True}).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 20)


def test_echo(api: openai.OpenAI) -> None:
    plain = texts(complete(api, ["a", "b"], n=2))
    assert texts(complete(api, ["a", "b"], n=2, echo=True)) == [
        p + t for p, t in zip("aabb", plain, strict=True)
    ]
    assert texts(complete(api, [[97]], echo=True)) == ["a" + plain[0]]


def test_a_stream(api: openai.OpenAI) -> None:
    for echo in (False, True):
        whole = texts(complete(api, ["a", "b"], echo=echo))
        streamed = ["", ""]
        for chunk in api.completions.create(
            model="toy", prompt=["a", "b"], max_tokens=12, seed=1, echo=echo, stream=True
        ):
            for choice in chunk.choices:
                streamed[choice.index] += choice.text
        assert streamed == whole


def test_logprobs(api: openai.OpenAI) -> None:
    choice = complete(api, "a", logprobs=2, extra_body={"ignore_eos": True}).choices[0]
    found = choice.logprobs
    assert found is not None
    assert found.tokens is not None
    assert found.token_logprobs is not None
    assert found.top_logprobs is not None
    assert found.text_offset is not None
    assert (
        len(found.tokens)
        == len(found.token_logprobs)
        == len(found.top_logprobs)
        == len(found.text_offset)
        == 12
    )
    for token, value, likely in zip(found.tokens, found.token_logprobs, found.top_logprobs, strict=True):
        assert likely[token] == value
        assert 2 <= len(likely) <= 3
    assert found.text_offset[0] == 0
    assert found.text_offset == sorted(found.text_offset)


def test_offsets_count_characters(api: openai.OpenAI) -> None:
    form = {"response_format": {"type": "choice", "choices": ["éx"]}}
    choice = complete(api, "a", logprobs=0, extra_body=form).choices[0]
    assert choice.text == "éx"
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["bytes:\\xc3", "bytes:\\xa9", "x"]
    assert choice.logprobs.text_offset == [0, 0, 1]


def test_the_best_of_several(toy: Server) -> None:
    fields = {"prompt": ["a", "b"], "max_tokens": 9, "seed": 3, "temperature": 1.3, "logprobs": 0}

    def ask(**more: Any) -> Any:
        answer = toy.http.post("/v1/completions", json={**fields, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def likelihood(choice: Any) -> float:
        values = choice["logprobs"]["token_logprobs"]
        return float(sum(values) / len(values))

    every = ask(n=8, ignore_eos=True)
    best = ask(n=2, best_of=8, ignore_eos=True)
    assert best["usage"] == every["usage"]
    assert [choice["index"] for choice in best["choices"]] == [0, 1, 2, 3]
    for prompt in range(2):
        made = sorted(every["choices"][prompt * 8 :][:8], key=likelihood, reverse=True)
        wanted = [(choice["text"], choice["logprobs"]) for choice in made[:2]]
        got = best["choices"][prompt * 2 :][:2]
        assert [(choice["text"], choice["logprobs"]) for choice in got] == wanted
    plain = ask(n=2, best_of=8, ignore_eos=True, logprobs=None)["choices"]
    assert [choice["logprobs"] for choice in plain] == [None] * 4
    assert [choice["text"] for choice in plain] == [choice["text"] for choice in best["choices"]]
    echoed = ask(best_of=3, echo=True, prompt="a")["choices"]
    assert [choice["text"][0] for choice in echoed] == ["a"]
    assert ask(n=2, best_of=2)["choices"] == ask(n=2)["choices"]


def test_more_prompts_than_a_server_ever_takes(toy: Server) -> None:
    body = {"prompt": ["a"] * 2000, "max_tokens": 1}
    refused = toy.http.post("/v1/completions", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "prompt"
    assert "send fewer" in refused.json()["error"]["message"]
    as_many = {**body, "prompt": ["a"] * 1100}
    answer = toy.http.post("/v1/completions", json=as_many)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["choices"]) == 1100


def test_bodies_are_as_openai_publishes_them(toy: Server, spec: Any) -> None:
    request = {"prompt": ["a", "b"], "max_tokens": 4, "n": 2, "logprobs": 2}
    body = toy.http.post("/v1/completions", json=request).json()
    wanted = {"$ref": "#/components/schemas/CreateCompletionResponse", "components": spec["components"]}
    jsonschema.validate(body, wanted)


def test_models(api: openai.OpenAI) -> None:
    assert [m.id for m in api.models.list()] == ["toy"]
    assert api.models.retrieve("toy").owned_by == "llgtrt"
    with pytest.raises(openai.NotFoundError) as error:
        api.models.retrieve("gpt-5")
    assert error.value.code == "model_not_found"


@pytest.mark.parametrize("server", ["toy", "demo"])
def test_log_probabilities_of_the_prompt(server: str, request: pytest.FixtureRequest) -> None:
    """What lm-eval asks for: `echo` with `logprobs`, and nothing generated."""
    api: Server = request.getfixturevalue(server)

    def complete(**fields: Any) -> Any:
        done = api.http.post("/v1/completions", json={"temperature": 0, **fields})
        assert done.status_code == 200, done.text
        return done.json()

    prompt = "One, two, three and"
    drawn = complete(prompt=prompt, max_tokens=12, ignore_eos=True, logprobs=2)["choices"][0]
    text = prompt + drawn["text"]
    scored = complete(prompt=text, echo=True, logprobs=2, max_tokens=0)
    (choice,) = scored["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, "length")
    lists = choice["logprobs"]
    assert {len(values) for values in lists.values()} == {scored["usage"]["prompt_tokens"]}
    assert (lists["token_logprobs"][0], lists["top_logprobs"][0]) == (None, None)
    assert lists["text_offset"][-1] < len(text)
    tail = lists["tokens"][-12:]
    if tail == drawn["logprobs"]["tokens"]:  # the same text may have other tokens
        assert lists["token_logprobs"][-12:] == drawn["logprobs"]["token_logprobs"]
        assert lists["top_logprobs"][-12:] == drawn["logprobs"]["top_logprobs"]
    # Beside generated ones, and as vLLM tells them.
    both = complete(prompt=text, echo=True, logprobs=2, max_tokens=2, n=2, seed=1, prompt_logprobs=1)
    for choice in both["choices"]:
        assert choice["logprobs"]["token_logprobs"][: len(tail)] == lists["token_logprobs"][: len(tail)]
        assert len(choice["logprobs"]["tokens"]) >= scored["usage"]["prompt_tokens"]
        first, *rest = choice["prompt_logprobs"]
        assert first is None
        told = [next(iter(entry.values()))["logprob"] for entry in rest]
        assert len(told) == scored["usage"]["prompt_tokens"] - 1
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "prompt_logprobs": 0}
    told = api.http.post("/v1/chat/completions", json=chat).json()
    assert len(told["prompt_logprobs"]) == told["usage"]["prompt_tokens"]
    for fields in ({"echo": True, "logprobs": 1}, {"prompt_logprobs": 1}):
        refused = api.http.post("/v1/completions", json={"prompt": "x", "stream": True, **fields})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(fields)))
    assert api.http.post("/v1/completions", json={"prompt": "x", "prompt_logprobs": 21}).status_code == 400


def test_what_is_left_of_a_prompt_is_echoed(toy: Server) -> None:
    fields = {"prompt": "abcdef", "truncate_prompt_tokens": 2, "echo": True, "logprobs": 0, "max_tokens": 4}
    for n in (1, 2):
        answer = toy.http.post(
            "/v1/completions", json={**fields, "ignore_eos": True, "n": n, "seed": 1}
        ).json()
        for choice in answer["choices"]:
            lists = choice["logprobs"]
            assert choice["text"].startswith("ef")
            assert lists["tokens"][:2] == ["e", "f"]
            assert lists["text_offset"][:3] == [0, 1, 2]


def test_bad_words_are_nowhere(toy: Server) -> None:
    fields = {"prompt": "x", "max_tokens": 200, "ignore_eos": True, "n": 4, "seed": 3}
    free = "".join(c["text"] for c in toy.http.post("/v1/completions", json=fields).json()["choices"])
    common = sorted({free[i : i + 2] for i in range(100)}, key=free.count)[-5:]
    words = [*common, "(.*)", "\\", "é/"]
    answer = toy.http.post("/v1/completions", json={**fields, "bad_words": words})
    for choice in answer.json()["choices"]:
        assert len(choice["text"]) > 100
        assert not [word for word in words if word in choice["text"]]
    for wrong, said in ([""], "1 to 1024 bytes"), (["x"] * 129, "at most 128"):
        refused = toy.http.post("/v1/completions", json={**fields, "bad_words": wrong})
        assert (refused.status_code, said in refused.text) == (400, True)
    beside = {**fields, "bad_words": ["a"], "response_format": {"type": "json_object"}}
    assert "more than one constraint" in toy.http.post("/v1/completions", json=beside).text


def test_bad_words_are_nowhere_in_reasoning_either(thinker: Server) -> None:
    def asked(**more: Any) -> Any:
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 200, "seed": 5, **more}
        return thinker.http.post("/v1/chat/completions", json=body)

    def parts(**more: Any) -> tuple[str, str]:
        message = asked(thinking_budget=60, **more).json()["choices"][0]["message"]
        return message["reasoning_content"], message["content"]

    reasoning, _ = parts()
    pairs = {reasoning[i : i + 2] for i in range(len(reasoning) - 1)}
    words = sorted(pair for pair in pairs if pair.isascii() and pair not in "</think>")[:20]
    assert len(words) == 20
    for text in parts(bad_words=words):
        assert len(text) > 5
        assert not [word for word in words if word in text]
    for wrong, said in (["k>"], "part of '</think>'"), (["x" * 257], "256 bytes each"):
        refused = asked(bad_words=wrong)
        assert (refused.status_code, said in refused.text) == (400, True), refused.text
