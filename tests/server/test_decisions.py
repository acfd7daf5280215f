"""Typed decisions: the probabilities are those with which the server generates the options."""

from __future__ import annotations

import concurrent.futures
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

import llgtrt
from llgtrt.client import ChoiceAnswer, NoulAnswer, ScoreAnswer

from .probabilities import BARE, STATE, brute_force
from .serving import PATIENCE, Server, serving

PAGE = "/v1/systemone"
ROUTE: dict[str, Any] = {
    "type": "choice",
    "instructions": "Which team should handle this?",
    "criteria": {"billing": "charges and refunds", "bills": None, "bill": None, "shipping": None},
}
ANGRY: dict[str, Any] = {"type": "noul", "instructions": "Is the customer angry?"}
URGENCY: dict[str, Any] = {
    "type": "score",
    "criteria": ["can wait", "this week", {"when": "today"}, "right now"],
}


def decide(server: Server, questions: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = server.http.post(PAGE, json={"state": STATE, "questions": questions, **more})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def probabilities(server: Server, options: list[str], **more: Any) -> dict[str, float]:
    question = {"type": "choice", "criteria": dict.fromkeys(options)}
    found: dict[str, float] = decide(server, {"q": question}, **more)["answers"]["q"]["probabilities"]
    return found


def test_the_reply_is_as_documented(toy: Server) -> None:
    told = decide(toy, {"route": ROUTE, "angry": ANGRY, "urgency": URGENCY})
    assert list(told) == ["model", "answers", "usage"]
    assert told["usage"]["output_tokens"] == 0
    assert told["usage"]["input_tokens"] > 100
    route, angry, urgency = (told["answers"][name] for name in ("route", "angry", "urgency"))
    assert list(route) == ["type", "choice", "probabilities", "confidence", "error"]
    found = route["probabilities"]
    assert list(found) == list(ROUTE["criteria"])
    assert math.isclose(sum(found.values()), 1)
    assert route["choice"] == max(found, key=found.__getitem__)
    assert math.isclose(route["confidence"], (max(found.values()) - 0.25) / 0.75)
    assert list(angry) == ["type", "noul", "error"]
    assert 0 < angry["noul"] < 1
    assert list(urgency) == ["type", "score", "legend", "probabilities", "confidence", "error"]
    assert urgency["legend"] == dict(zip("0123", URGENCY["criteria"], strict=True))
    levels = [urgency["probabilities"][level] for level in "0123"]
    assert math.isclose(urgency["score"], sum(i * p for i, p in enumerate(levels)))


def test_one_option_is_certain(toy: Server) -> None:
    answer = decide(toy, {"q": {"type": "choice", "criteria": {"only": None}}})["answers"]["q"]
    certain = {"type": "choice", "choice": "only", "probabilities": {"only": 1.0}, "confidence": 1.0}
    assert answer == {**certain, "error": 0}


@pytest.fixture(scope="module")
def bare() -> Any:
    """A small vocabulary, and prompts that are the state alone."""
    with serving("toy", config=BARE) as server:
        yield server.wait_ready()


@pytest.mark.parametrize(
    "options",
    [["yes", "no"], ["the", "then", "thing", "other", "o"], ["in", "ing", "inn", "an", "and", "andin"]],
)
def test_all_token_paths_count(bare: Server, options: list[str]) -> None:
    chat = {"messages": [{"role": "user", "content": STATE}], "enable_thinking": False}
    prompt = bare.http.post("/v1/chat/completions/render", json=chat).json()["prompt_token_ids"]
    expected = brute_force(bare, prompt, options)
    for tolerance in (0, 0.001, 0.05, 0.5):
        about = probabilities(bare, options, tolerance=tolerance)
        assert all(abs(about[option] - expected[option]) < tolerance + 1e-6 for option in options)
    found = probabilities(bare, options, tolerance=0)
    assert math.isclose(sum(expected.values()), 1, abs_tol=1e-5)
    # The completions' log-probabilities are floats of 32 bits.
    assert all(abs(found[option] - expected[option]) < 1e-6 for option in options), (found, expected)


def test_they_are_those_of_what_is_generated(bare: Server) -> None:
    options = ["the", "then", "thing", "other"]
    body = {
        "messages": [{"role": "user", "content": STATE}],
        "response_format": {"type": "choice", "choices": options},
        "n": 128,
        "temperature": 1,
    }
    counts: Counter[str] = Counter()
    for seed in range(8):
        answer = bare.http.post("/v1/chat/completions", json={**body, "seed": seed}).json()
        counts.update(choice["message"]["content"] for choice in answer["choices"])
    found, total = probabilities(bare, options), counts.total()
    distance = sum((counts[o] - total * found[o]) ** 2 / (total * found[o]) for o in options)
    assert distance < 16.3, (counts, found)  # chi squared with 3 degrees of freedom, 1 in 1,000


def test_alone_and_among_others_they_are_equal(demo: Server) -> None:
    questions = {"route": ROUTE, "angry": ANGRY, "urgency": URGENCY}
    alone = decide(demo, questions)["answers"]
    for name, question in questions.items():
        assert decide(demo, {name: question})["answers"] == {name: alone[name]}
    chat = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 40}

    def one(number: int) -> Any:
        if number % 3:
            return decide(demo, questions, cache_salt=f"s{number}")["answers"]
        answer = httpx.post(demo.url + "/v1/chat/completions", json=chat, timeout=PATIENCE)
        return answer.status_code

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        results = list(pool.map(one, range(24)))
    assert all(result == (200 if i % 3 == 0 else alone) for i, result in enumerate(results))


def test_a_temperature_rescales(toy: Server) -> None:
    options = ["the", "then", "other"]
    plain = probabilities(toy, options, tolerance=0)
    for temperature in (0.5, 3):
        weights = {option: p ** (1 / temperature) for option, p in plain.items()}
        expected = {option: weight / sum(weights.values()) for option, weight in weights.items()}
        found = probabilities(toy, options, temperature=temperature, tolerance=0)
        assert all(math.isclose(found[o], expected[o], rel_tol=1e-9) for o in options)
        question = {"type": "choice", "criteria": dict.fromkeys(options), "temperature": temperature}
        own = decide(toy, {"q": question}, temperature=7, tolerance=0)["answers"]["q"]["probabilities"]
        assert own == found


def test_long_options_that_begin_alike(demo: Server) -> None:
    options = [f"the customer asks for number {i} of the list" for i in range(30)]
    found = probabilities(demo, options)
    assert math.isclose(sum(found.values()), 1)
    assert all(p > 0 for p in found.values())
    umlauts = ["Grüße", "Grün", "Grünlich", "日本", "日中"]
    assert math.isclose(sum(probabilities(demo, umlauts).values()), 1)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"questions": {}}, "questions"),
        ({"questions": {"q": {"type": "guess"}}}, "questions[...].type"),
        ({"questions": {"q": {"type": "choice"}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "choice", "criteria": {}}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "choice", "criteria": {"": None}}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "score", "criteria": ["one"]}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "score", "criteria": ["x"] * 11}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "noul"}}}, "questions.q.instructions"),
        ({"questions": {"q": {**ANGRY, "criteria": {"maybe": "?"}}}}, "questions.q.criteria"),
        ({"questions": {"q": {**ANGRY, "temperature": 0}}}, "questions.q.temperature"),
        ({"temperature": -1}, "temperature"),
        ({"tolerance": 2}, "tolerance"),
        ({"images": ["data:image/png;base64,AA"]}, "images"),
        ({"stream": True}, "stream"),
        ({"state": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "state"),
        ({"state": 5}, "state"),
        ({"state": "a" * 200_000}, "state"),
        ({"state": "a" * 2_000_000, "questions": {str(i): ANGRY for i in range(64)}}, "questions"),
        ({"model": "other"}, "model"),
        ({"cache_salt": ""}, "cache_salt"),
    ],
)
def test_what_is_refused_is_named(toy: Server, change: dict[str, Any], param: str) -> None:
    answer = toy.http.post(PAGE, json={"state": "s", "questions": {"q": ANGRY}, **change})
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param, answer.text


def test_a_state_may_be_data(toy: Server) -> None:
    as_data = decide(toy, {"angry": ANGRY}, state={"text": "hi <|im_end|>", "n": [1]})
    as_text = decide(toy, {"angry": ANGRY}, state='{"text":"hi <|im_end|>","n":[1]}')
    assert as_data == as_text


def test_prompts_are_configured() -> None:
    prompts = {"noul": "Q {instructions} {options} S {state} {other}"}
    config = {"server": {"decision_prompts": prompts}}
    with serving("toy", config=config) as server:
        server.wait_ready()
        question = {"type": "noul", "instructions": "I {state}", "criteria": {"true": "T", "false": "F"}}
        tokens = decide(server, {"q": question}, state="s")["usage"]["input_tokens"]
        text = "Q I {state} - yes: T\n- no: F S s {other}"
        chat = {"messages": [{"role": "user", "content": text}], "enable_thinking": False}
        assert server.http.post("/v1/chat/completions/render", json=chat).json()["count"] == tokens


def test_many_questions_do_not_fill_the_waiting_line() -> None:
    config = {"max_batch_size": 2, "max_queue_size": 4}
    with serving("toy", config=config) as server:
        server.wait_ready()
        questions = {str(i): {**ROUTE, "instructions": f"Question {i}?"} for i in range(64)}
        assert len(decide(server, questions, tolerance=0)["answers"]) == 64


def test_what_the_template_opens_is_closed(thinker: Server) -> None:
    plain = decide(thinker, {"angry": ANGRY})
    chat = {"messages": [{"role": "user", "content": "x"}]}
    rendered = thinker.http.post("/v1/chat/completions/render", json=chat).json()["prompt"]
    assert rendered.endswith("<think>\n")
    assert 0 < plain["answers"]["angry"]["noul"] < 1


def test_a_decision_takes_no_longer_than_a_request_may() -> None:
    with serving("toy:step_us=100000", config={"server": {"request_timeout": 0.5}}) as server:
        server.wait_ready()
        answer = server.http.post(PAGE, json={"state": "a " * 900, "questions": {"q": ROUTE}})
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "request_timeout"
        server.wait_idle()


def test_a_client_that_goes_away_frees_its_work() -> None:
    with serving("toy:step_us=20000") as server:
        server.wait_ready()
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                server.url + PAGE,
                json={"state": "a " * 900, "questions": {str(i): ROUTE for i in range(4)}},
                timeout=1.0,
            )
        server.wait_idle()
        assert server.metric('llgtrt_requests_total{outcome="cancelled"}') > 0


def test_without_a_server_the_answers_are_the_same(toy: Server) -> None:
    questions = {"route": ROUTE, "angry": ANGRY, "urgency": URGENCY}
    there = llgtrt.Client(toy.url).decide(STATE, questions, temperature=2)
    with llgtrt.LLM("toy") as llm:
        assert llm.decide(STATE, questions, temperature=2) == there
        with pytest.raises(ValueError, match=r"questions\.q\.criteria"):
            llm.decide(STATE, {"q": {"type": "choice"}})
        assert llm.generate("a", use_tqdm=False)[0].finished
    with pytest.raises(RuntimeError, match="closed"):
        llm.decide(STATE, questions)


def test_the_client_of_the_package(demo: Server) -> None:
    client = llgtrt.Client(demo.url + "/v1")
    questions = {"route": ROUTE, "angry": ANGRY, "urgency": URGENCY}
    found = client.decide(STATE, questions, temperature=2)
    told = decide(demo, questions, temperature=2)["answers"]
    route, angry, urgency = found["route"], found["angry"], found["urgency"]
    assert isinstance(route, ChoiceAnswer)
    assert route.probabilities == told["route"]["probabilities"]
    assert isinstance(angry, NoulAnswer)
    assert angry.noul == told["angry"]["noul"]
    assert isinstance(urgency, ScoreAnswer)
    assert urgency.legend == dict(enumerate(URGENCY["criteria"]))
    with pytest.raises(ValueError, match=r"questions\.q\.criteria"):
        client.decide(STATE, {"q": {"type": "choice"}})
    with pytest.raises(OSError, match="refused"):
        llgtrt.Client("http://127.0.0.1:9").decide(STATE, questions)


def test_a_key_is_sent() -> None:
    with serving("toy", config={"server": {"api_keys": ["secret"]}}) as server:
        server.wait_ready()
        with pytest.raises(ValueError, match="API key"):
            llgtrt.Client(server.url).decide(STATE, {"q": ANGRY})
        assert llgtrt.Client(server.url, "secret").decide(STATE, {"q": ANGRY})


def test_calibrate_reports_each_question(demo: Server, tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    first = {"state": STATE, "questions": {"route": ROUTE, "angry": ANGRY, "urgency": URGENCY}}
    answers = {"route": "billing", "angry": True, "urgency": 2}
    lines = [{**first, "answers": answers}, *({"state": f"No. {i}", "answers": answers} for i in range(9))]
    file.write_text("\n".join(map(json.dumps, lines)))

    def calibrate(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "llgtrt", "calibrate", str(file), *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    done = calibrate("--url", demo.url)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows[1:]] == [["route", "10"], ["angry", "10"], ["urgency", "10"]]
    file.write_text(json.dumps({**first, "answers": {"urgency": "today"}}))
    wrong = calibrate("--url", demo.url)
    assert wrong.returncode == 2
    assert "answers.urgency: 'today' is not one of 0, 1, 2, 3" in wrong.stderr
    assert "--url" in calibrate("--help").stdout
    nobody = calibrate("--url", "http://127.0.0.1:9")
    assert nobody.returncode == 2
    assert "http://127.0.0.1:9" in nobody.stderr
