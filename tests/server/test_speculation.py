"""Speculation changes nothing but the time: the same answers with it and without, byte for byte."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .serving import PATIENCE, ROOT, Server, serving_demo

CHAT = "/v1/chat/completions"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "ages": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name", "ages"],
    "additionalProperties": False,
}
TEXT = "Anna Berg is 31, Tom Berg is 31, Lena Berg is 4. Repeat: Anna Berg is 31, Tom Berg is 31."
PREDICTED = '{"name": "Anna Berg", "ages": [31, 31, 4]}'
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "schema": FORM,
    # Repetitions, whatever the model: what is looked up goes on behind the stop strings.
    "regex, stop": {
        "response_format": {"type": "regex", "regex": "(ab|cd){9,30}"},
        "stop": ["abababab", "cdcdcdcd"],
    },
    "stop": {"stop": ["rg is", "34"]},
    "schema, stop": {**FORM, "stop": ["1", "ag"]},
    "penalties": {"frequency_penalty": 0.5, "repetition_penalty": 1.1, "logit_bias": {"70": 2}},
}


ALL: dict[str, Any] = {
    "draft_model": str(ROOT / "demo" / "draft"),
    "mlp_speculator": str(ROOT / "demo" / "speculator"),
    "sources": ["forced", "prediction", "prompt_lookup", "mlp_speculator", "draft_model", "grammar"],
}
SOURCES: dict[str, dict[str, Any]] = {
    "lookup": {"sources": ["forced", "prompt_lookup"], "adaptive": False},
    "grammar": {"sources": ["forced", "grammar"], "adaptive": False},
    "model": {"draft_model": str(ROOT / "demo" / "draft"), "adaptive": False, "max_draft_len": 6},
    "speculator": {"mlp_speculator": str(ROOT / "demo" / "speculator"), "adaptive": False},
    "always": {**ALL, "adaptive": False},
    "all": ALL,
}
"""By name, what `speculative` says. In the last two, a request's prediction is a source too."""


@pytest.fixture(scope="module", params=SOURCES)
def drafting(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server on the demo model that drafts."""
    with serving_demo(config={"speculative": SOURCES[request.param]}) as server:
        yield server


def requests(rounds: int = 1) -> list[dict[str, Any]]:
    """144 in a round, each with a seed of its own; half of them predict their text."""
    bodies = []
    forms = (
        (t, n, s, p) for t in (0, 0.8, 1.4) for n in (1, 3) for s in (False, True) for p in (False, True)
    )
    for number, (temperature, n, stream, logprobs) in enumerate(list(forms) * rounds):
        for mode, fields in MODES.items():
            message = {"role": "user", "content": f"{TEXT} ({number % 4})"}
            asked: dict[str, Any] = {
                "temperature": temperature,
                "n": n,
                "stream": stream,
                "logprobs": logprobs,
                "seed": number,
            }
            usage: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
            if number % 2:
                asked["prediction"] = {"type": "content", "content": PREDICTED}
            bodies.append({"messages": [message], "max_tokens": 60, **asked, **usage, **fields, "user": mode})
    return bodies


def essence(body: dict[str, Any], text: str) -> Any:
    """What must be equal: of each choice its text, logprobs and end; the counts."""
    if not body["stream"]:
        whole = json.loads(text)
        scored = [(c["logprobs"] or {}).get("content") or [] for c in whole["choices"]]
        said = [(c["message"]["content"], c["finish_reason"]) for c in whole["choices"]]
        return [*zip(said, scored, strict=True), whole["usage"]["completion_tokens"]]
    lines = text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    choices: list[list[Any]] = [["", [], None] for _ in range(body["n"])]
    for choice in (c for chunk in chunks for c in chunk["choices"]):
        mine = choices[choice["index"]]
        mine[0] += choice["delta"].get("content") or ""
        mine[1] += (choice.get("logprobs") or {}).get("content") or []
        mine[2] = choice["finish_reason"] or mine[2]
    return [*choices, chunks[-1]["usage"]["completion_tokens"]]


async def answers(server: Server, bodies: list[dict[str, Any]]) -> list[Any]:
    """The essence of all answers, 16 at a time."""
    limits = httpx.Limits(max_connections=16)
    async with httpx.AsyncClient(base_url=server.url, limits=limits, timeout=PATIENCE) as client:

        async def ask(body: dict[str, Any]) -> Any:
            response = await client.post(CHAT, json=body)
            assert response.status_code == 200, response.text
            return essence(body, response.text)

        return list(await asyncio.gather(*(ask(body) for body in bodies)))


def test_answers_are_equal_byte_for_byte(
    demo: Server, drafting: Server, request: pytest.FixtureRequest
) -> None:
    assert "bit-identical" in drafting.http.get("/ready").text
    how = r"speculation: \S.* draft (as many as pay, up to|always) \d+ tokens; acceptance: Exact"
    assert re.search(how, drafting.log())
    # 576 for the server that drafts from everything.
    bodies = requests(4 if "[all]" in request.node.name else 1)
    before = demo.metric("llgtrt_drafted_tokens_total")
    want = asyncio.run(answers(demo, [{**body, "speculative": {"enabled": False}} for body in bodies]))
    got = asyncio.run(answers(drafting, bodies))
    for body, one, other in zip(bodies, want, got, strict=True):
        assert one == other, body
    drafted = drafting.metric("llgtrt_drafted_tokens_total")
    accepted = drafting.metric("llgtrt_accepted_tokens_total")
    assert 0 < accepted < drafted
    names = ("forced", "prediction", "prompt_lookup", "mlp_speculator", "draft_model", "grammar")
    fates = {name: drafting.fates(name) for name in names}
    assert sum(sum(counts.values()) for counts in fates.values()) == drafted, fates
    assert sum(counts["accepted"] for counts in fates.values()) == accepted, fates
    # Where only what pays is asked, all of this depends on the machine; what costs nothing is always asked.
    if request.node.callspec.id != "all":
        # Stop strings and ends fell inside of drafts.
        assert sum(counts["stop"] for counts in fates.values()) > 0, fates
    for name in {"always": names, "all": names[:2]}.get(request.node.callspec.id, ()):
        assert fates[name]["accepted"] > 0, fates
    assert drafting.metric("llgtrt_drafters_failed") == 0
    assert demo.metric("llgtrt_drafted_tokens_total") == before


def test_a_request_may_refuse_drafts(drafting: Server, request: pytest.FixtureRequest) -> None:
    # A schema forces tokens, whatever the model says.
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 60, **MODES["schema"]}
    drafting.wait_idle()
    before = drafting.metric("llgtrt_drafted_tokens_total")
    refusals: list[dict[str, Any]] = [{"enabled": False}, {"max_draft_len": 0}, {"sources": []}]
    for refused in refusals:
        assert drafting.http.post(CHAT, json={**body, "speculative": refused}).status_code == 200
    drafting.wait_idle()
    assert drafting.metric("llgtrt_drafted_tokens_total") == before
    assert drafting.http.post(CHAT, json={**body, "speculative": {"acceptance": "exact"}}).status_code == 200
    drafting.wait_idle()
    # What pays for a single request depends on the machine.
    if request.node.callspec.id != "all":
        assert drafting.metric("llgtrt_drafted_tokens_total") > before


def test_predicted_outputs(demo: Server) -> None:
    # Every server takes drafts from predictions, unless it is told not to.
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 60, "temperature": 0}
    plain = demo.http.post(CHAT, json=body).json()
    text = plain["choices"][0]["message"]["content"]
    details = plain["usage"]["completion_tokens_details"]
    counts = ("reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
    assert details == dict.fromkeys(counts, 0)

    def predicted(content: Any, **fields: Any) -> dict[str, Any]:
        more = {"prediction": {"type": "content", "content": content}, **fields}
        answer = demo.http.post(CHAT, json={**body, **more}).json()
        assert all(c["message"]["content"] == text for c in answer["choices"]), answer
        usage: dict[str, Any] = answer["usage"]
        return usage

    predicted([{"type": "text", "text": text}])
    predicted(f"{text[:20]}, {text[25:]}", n=3)
    off = predicted(text, speculative={"enabled": False})["completion_tokens_details"]
    assert set(off.values()) == {0}


def test_predictions_are_counted() -> None:
    # The tokens that a model puts white space into are not those of the text.
    config = {
        "speculative": {"sources": ["prediction"], "adaptive": False},
        "grammar": {"whitespace": "compact"},
    }
    with serving_demo(config=config) as server:
        body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 60, "temperature": 0}
        body |= MODES["schema"]
        plain = server.http.post(CHAT, json=body).json()
        text = plain["choices"][0]["message"]["content"]
        counts = []
        # The edit is in the name; what comes later may repeat itself, and be taken up again anywhere.
        for content in (text, f"{text[:12]} Hm. {text[12:]}", "Hm."):
            prediction = {"type": "content", "content": content}
            report = {"prediction": prediction, "speculative": {"report": True}}
            answer = server.http.post(CHAT, json={**body, **report}).json()
            assert answer["choices"] == plain["choices"]
            counts.append(answer["usage"]["completion_tokens_details"])
            said = answer["usage"]["speculative"]
            accepted = said["sources"].get("prediction", {"accepted": 0})["accepted"]
            assert accepted == counts[-1]["accepted_prediction_tokens"]
            assert 0 <= (said["acceptance"] or 0) <= 1
        right, edited, wrong = counts
        most = plain["usage"]["completion_tokens"]
        assert right["rejected_prediction_tokens"] == 0
        assert most // 3 < right["accepted_prediction_tokens"] <= most
        assert edited["rejected_prediction_tokens"] > 0
        assert 0 < edited["accepted_prediction_tokens"] <= right["accepted_prediction_tokens"]
        # What the schema does not allow is not tried.
        assert wrong == {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        }
        prediction = {"type": "content", "content": text}
        three = server.http.post(CHAT, json={**body, "prediction": prediction, "n": 3}).json()
        summed = three["usage"]["completion_tokens_details"]
        assert summed == {name: 3 * count for name, count in right.items()}


def test_clients_may_bring_drafts_of_their_own() -> None:
    with serving_demo(config={"speculative": {"sources": ["prediction"], "adaptive": False}}) as server:

        def complete(**fields: Any) -> dict[str, Any]:
            answer = server.http.post("/v1/completions", json={"temperature": 0, **fields})
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        body = {"prompt": TEXT, "max_tokens": 30, "ignore_eos": True}
        plain = complete(**body)
        both = complete(prompt=TEXT + plain["choices"][0]["text"], max_tokens=1, prompt_logprobs=0)
        ids = [int(next(iter(told))) for told in both["choices"][0]["prompt_logprobs"][1:]]
        for tokens, right in ((ids[-30:], True), ([5, 6, 7], False)):
            drafted = complete(**body, speculative={"draft_tokens": tokens})
            assert drafted["choices"] == plain["choices"]
            details = drafted["usage"]["completion_tokens_details"]
            assert (details["accepted_prediction_tokens"] > 10) is right
        refused = {**body, "prompt": ["a", "b"], "speculative": {"draft_tokens": [1]}}
        assert server.http.post("/v1/completions", json=refused).status_code == 400
        outside = {**body, "speculative": {"draft_tokens": [10**6]}}
        error = server.http.post("/v1/completions", json=outside).json()["error"]
        assert error["param"] == "speculative.draft_tokens"


def test_rejection_keeps_the_schema(demo: Server, drafting: Server) -> None:
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 200, **MODES["schema"]}
    body["speculative"] = {"acceptance": "rejection"}
    for seed in range(8):
        answer = drafting.http.post(CHAT, json={**body, "temperature": 1, "seed": seed}).json()
        choice = answer["choices"][0]
        if choice["finish_reason"] == "stop":
            assert set(json.loads(choice["message"]["content"])) == {"name", "ages"}
    greedy = {**body, "temperature": 0}
    one, other = (s.http.post(CHAT, json=greedy).json()["choices"] for s in (demo, drafting))
    assert one == other
