"""The plug-in within a real vLLM: `launch/check-vllm.sh` installs that, and runs these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .serving import PERSON, Server, schema_format, serving

pytestmark = pytest.mark.vllm
PLAIN = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
IMPOSSIBLE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}, "required": ["a"]}
PROMPTS = [f"Describe person number {n} as JSON." for n in range(6)]
FEW = 40
"""Tokens: answers of this model are longer, if nothing bounds them."""


def check(texts: list[str], schema: Any = PERSON) -> None:
    for text in texts:
        jsonschema.validate(json.loads(text), schema)


@pytest.fixture(scope="module", name="server")
def fixture_server(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ("--enable-prefix-caching", "--enable-chunked-prefill", "--max-num-batched-tokens", "64")
    with serving(model, tmp_path_factory.mktemp("vllm"), *flags, mode="always", eager=True) as server:
        yield server


@pytest.mark.parametrize("count", [FEW, 150])
def test_answers_are_valid_and_complete(server: Server, count: int) -> None:
    for prompt in PROMPTS[:3]:
        check(server.texts(prompt, max_tokens=count, **schema_format(PERSON)))


def test_every_kind_of_constraint_is_served(server: Server) -> None:
    def one(**constraint: Any) -> str:
        return server.texts("Answer.", max_tokens=FEW, structured_outputs=constraint)[0]

    assert isinstance(json.loads(one(json_object=True)), dict)
    assert isinstance(
        json.loads(server.texts("?", max_tokens=FEW, response_format={"type": "json_object"})[0]), dict
    )
    assert re.fullmatch(r"[a-z]{3,5}-(?:x|y)+", one(regex=r"[a-z]{3,5}-(?:x|y)+"))
    assert one(choice=["red", 'green "light"']) in ("red", 'green "light"')
    assert one(grammar='root ::= "yes" | "no" [!?]') in ("yes", "no!", "no?")
    assert one(grammar='start: "yes" | "no" /[!?]/') in ("yes", "no!", "no?")
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "tag",
            "begin": "<p>",
            "content": {"type": "json_schema", "json_schema": PLAIN},
            "end": "</p>",
        },
    }
    text = one(structural_tag=json.dumps(tag))
    assert text.startswith("<p>")
    assert text.endswith("</p>")
    check([text[3:-4]], PLAIN)


def test_what_cannot_be_enforced_is_refused_with_its_place(server: Server) -> None:
    answer = server.chat("?", max_tokens=FEW, **schema_format(IMPOSSIBLE))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "structured_outputs.json"
    assert "/properties/a" in error["message"]
    assert "$ref" in error["message"]
    answer = server.chat("?", max_tokens=FEW, structured_outputs={"regex": "(a"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "structured_outputs.regex")


def test_too_few_tokens_are_refused_with_the_number_that_is_enough(server: Server) -> None:
    answer = server.chat("?", max_tokens=3, **schema_format(PERSON))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"
    found = re.search(r"needs at least (\d+) tokens", answer.json()["error"]["message"])
    assert found is not None
    needed = server.chat("?", max_tokens=int(found[1]), **schema_format(PERSON)).json()["choices"][0]
    check([needed["message"]["content"]])


def test_several_choices_and_a_batch(server: Server) -> None:
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(
                server.texts,
                prompt,
                n=3,
                temperature=1.0,
                max_tokens=FEW + at,
                **schema_format(PERSON),
            )
            for at, prompt in enumerate(PROMPTS)
        ]
        free = pool.submit(server.chat, "Tell a story.", max_tokens=30)
        for answers in asked:
            assert len(answers.result()) == 3
            check(answers.result())
        assert free.result().json()["usage"]["completion_tokens"] == 30


def test_a_stop_token_of_the_request_stands_at_the_end_alone(server: Server) -> None:
    tokens = server.http.post(
        "/tokenize", json={"model": "m", "prompt": "\n", "add_special_tokens": False}
    ).json()["tokens"]
    answer = server.chat(PROMPTS[0], max_tokens=60, stop_token_ids=tokens, **schema_format(PERSON)).json()
    check([answer["choices"][0]["message"]["content"]])


def test_a_prompt_that_fills_the_context_leaves_a_complete_answer(server: Server) -> None:
    tokens = server.http.post("/tokenize", json={"model": "m", "prompt": "one two three "}).json()["tokens"]
    for left in (30, 45):
        body = {"model": "m", "prompt": (tokens * 400)[: 1024 - left], "temperature": 0.0, "max_tokens": left}
        answer = server.http.post("/v1/completions", json=body | schema_format(PERSON)).json()["choices"][0]
        assert answer["finish_reason"] == "stop"
        check([answer["text"]])


def test_streams_are_the_same_text(server: Server) -> None:
    whole = server.texts(PROMPTS[1], max_tokens=FEW, **schema_format(PERSON))[0]
    lines = server.chat(PROMPTS[1], max_tokens=FEW, stream=True, **schema_format(PERSON)).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == whole


def test_auto_leaves_to_xgrammar_what_it_enforces(model: str, tmp_path: Path) -> None:
    with serving(model, tmp_path, mode="auto", eager=True) as server:
        # In this order vLLM's back end starts after this one, in the same engine.
        check(server.texts(PROMPTS[0], max_tokens=FEW, **schema_format(PERSON)))
        long = server.chat(
            PROMPTS[0], max_tokens=FEW, **schema_format(PLAIN | {"required": ["name", "more"]})
        )
        assert long.status_code == 200
        with ThreadPoolExecutor() as pool:
            schemas: list[Any] = [PERSON, PLAIN] * 4
            asked = [pool.submit(server.chat, PROMPTS[1], max_tokens=60, **schema_format(s)) for s in schemas]
            for answer, schema in zip(asked, schemas, strict=True):
                choice = answer.result().json()["choices"][0]
                if schema is PERSON or choice["finish_reason"] == "stop":
                    check([choice["message"]["content"]], schema)
        assert server.chat("?", max_tokens=FEW, **schema_format(IMPOSSIBLE)).status_code == 400


@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_with_speculation(model: str, tmp_path: Path, method: str) -> None:
    settings: dict[str, Any] = {"method": method, "num_speculative_tokens": 3}
    if method == "draft_model":
        settings["model"] = model
    else:
        settings |= {"prompt_lookup_max": 3, "prompt_lookup_min": 1}
    with serving(
        model, tmp_path, "--speculative-config", json.dumps(settings), mode="always", eager=True
    ) as server:
        # Not in one batch: with a draft model, vLLM 0.32 then draws token 0 for some greedy requests on
        # processors, and ends them with an error, whatever the back end.
        for temperature in (0.0, 0.8):
            fields = {"temperature": temperature, "n": 2 if temperature else 1, **schema_format(PERSON)}
            with ThreadPoolExecutor() as pool:
                asked = [
                    pool.submit(server.texts, prompt, max_tokens=FEW + at, **fields)
                    for at, prompt in enumerate(PROMPTS)
                ]
                for answers in asked:
                    check(answers.result())
        assert server.metric("vllm:spec_decode_num_accepted_tokens_total") > 0
        assert "grammar rejected" not in server.log()
        assert "rejected draft" not in server.log()


def test_with_two_ranks(halves: str, tmp_path: Path) -> None:
    flags = ("--tensor-parallel-size", "2", "--load-format", "dummy")
    with serving(halves, tmp_path, *flags, mode="always", cores="0|1", eager=True) as server:
        for at in range(3):
            body = {"model": "m", "prompt": PROMPTS[at], "max_tokens": FEW}
            choice = server.http.post("/v1/completions", json=body | schema_format(PERSON)).json()["choices"][
                0
            ]
            assert choice["finish_reason"] == "stop"
            check([choice["text"]])


@pytest.mark.parametrize("drafts", [False, True])
def test_reasoning_counts_against_the_tokens_of_the_answer(
    thinking: str, tmp_path: Path, drafts: bool
) -> None:
    settings = {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 3,
        "prompt_lookup_min": 1,
    }
    flags = ["--speculative-config", json.dumps(settings)] if drafts else []
    flags += ["--reasoning-parser", "deepseek_r1"]
    with (
        serving(thinking, tmp_path, *flags, mode="always", eager=True) as server,
        ThreadPoolExecutor() as pool,
    ):
        prompts = [*PROMPTS, *(f"Tell me about {prompt}" for prompt in PROMPTS)]
        asked = [
            (most, pool.submit(server.chat, prompt, max_tokens=most, **schema_format(PERSON)))
            for most, prompt in enumerate(prompts, 48)
        ]
        complete = 0
        for most, answer in asked:
            choice = answer.result().json()["choices"][0]
            thought = {"model": "m", "prompt": choice["message"]["reasoning"], "add_special_tokens": False}
            if most - server.http.post("/tokenize", json=thought).json()["count"] > 28:
                complete += 1
                assert choice["finish_reason"] == "stop", choice
                check([choice["message"]["content"]])
        # Other answers had too few tokens left.
        assert complete > 1
        assert "grammar rejected" not in server.log()
