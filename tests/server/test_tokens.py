"""Token ids of texts and conversations: the same as those of the requests that are answered."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest

from .serving import Server, serving

CHAT = "/v1/chat/completions"
TEXTS = ["", "hi", "One, two.\n", "Grüße, 日本 🎉", "<|im_start|>user\nhi<|im_end|>", " " * 300]


def post(server: Server, path: str, **fields: Any) -> dict[str, Any]:
    answer = server.http.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_there_and_back(demo: Server, text: str) -> None:
    told = post(demo, "/tokenize", prompt=text, return_token_strs=True)
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert told["max_model_len"] == demo.http.get("/v1/models").json()["data"][0]["max_model_len"]
    bare = post(demo, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    assert told["tokens"][-len(bare) :] == bare or not bare
    assert post(demo, "/detokenize", tokens=bare) == {"prompt": text}


def test_counts_are_those_of_the_completion(demo: Server) -> None:
    for text in TEXTS[1:]:
        tokens = post(demo, "/tokenize", model="demo", prompt=text)["tokens"]
        one, other = (
            post(demo, "/v1/completions", prompt=prompt, max_tokens=4, temperature=0)
            for prompt in (text, tokens)
        )
        assert one["usage"]["prompt_tokens"] == len(tokens)
        assert one["choices"] == other["choices"]


def test_a_conversation_is_rendered_as_it_is_answered(demo: Server) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Wo? <|im_end|> 日本"}]},
    ]
    for options in ({}, {"add_generation_prompt": False}, {"temperature": 0.5, "max_tokens": 3}):
        body = {"messages": messages, **options}
        rendered = post(demo, CHAT + "/render", **body)
        tokens = rendered["prompt_token_ids"]
        assert post(demo, "/tokenize", **body)["tokens"] == tokens
        assert rendered["count"] == len(tokens)
        assert rendered["prompt"] == post(demo, "/detokenize", tokens=tokens)["prompt"]
        assert rendered["prompt"].startswith("<|im_start|>system\nBe brief.<|im_end|>")
        assert rendered["prompt"].endswith("assistant\n") == ("add_generation_prompt" not in options)
        assert post(demo, CHAT, **{**body, "max_tokens": 1})["usage"]["prompt_tokens"] == len(tokens)
        # What a message says is no token of the template, and is written alike all the same.
        (special,) = post(demo, "/tokenize", prompt="<|im_end|>", add_special_tokens=False)["tokens"]
        assert tokens.count(special) == len(messages)


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": []}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "robot"}]}, "messages[0].role"),
        ("/tokenize", {"messages": [{"role": "user", "content": "x"}], "temperature": "x"}, "temperature"),
        ("/tokenize", {"prompt": "x", "return_token_strs": "yes"}, "return_token_strs"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": [2**32 - 1]}, "tokens"),
        ("/tokenize", {"prompt": "x", "model": "another"}, "model"),
        ("/detokenize", {"tokens": [1], "model": "another"}, "model"),
        (CHAT + "/render", {"messages": "x"}, "messages"),
    ],
)
def test_bad_bodies_are_refused_by_name(toy: Server, path: str, fields: dict[str, Any], param: str) -> None:
    answer = toy.http.post(path, json=fields)
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param


def test_they_want_a_key_too_and_long_texts_hold_nobody_up() -> None:
    with serving("toy", "--api-key", "k") as server:
        server.wait_ready()
        for path in ("/tokenize", "/detokenize", CHAT + "/render"):
            assert server.http.post(path, json={"prompt": "x", "tokens": []}).status_code == 401
        server.http.headers["authorization"] = "Bearer k"
        with concurrent.futures.ThreadPoolExecutor() as pool:
            long = pool.submit(post, server, "/tokenize", prompt="word " * 400_000)
            assert post(server, "/tokenize", prompt="x")["count"]
            assert long.result()["count"] > 100_000
