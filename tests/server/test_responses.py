"""`/v1/responses` through the official client, with every body and event held to the published schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import jsonschema
import openai
import pydantic
import pytest

from llgtrt.openai.body import INEFFECTIVE
from llgtrt.openai.responses.fields import ResponsesRequest

from .serving import Server, until
from .test_chat import validate
from .test_tools import SCHEMAS

URL = "/v1/responses"
TOOLS: Any = [{"type": "function", "name": name, "parameters": p} for name, p in SCHEMAS.items()]
YES: Any = {"type": "json_schema", "name": "yes", "strict": True, "schema": {"type": "boolean"}}


class Order(pydantic.BaseModel):
    """An order of a customer."""

    size: Literal["small", "large"]
    express: bool


@pytest.fixture(scope="module")
def client(demo: Server) -> Iterator[openai.OpenAI]:
    with demo.client() as client:
        yield client


def ask(server: Server, **fields: Any) -> dict[str, Any]:
    answer = server.http.post(URL, json={"input": "hi", "max_output_tokens": 200, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def events(server: Server, **fields: Any) -> list[dict[str, Any]]:
    answer = server.http.post(URL, json={"input": "hi", "max_output_tokens": 200, **fields, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = []
    for block in answer.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        told.append(event)
    return told


def bare(value: Any) -> Any:
    """Without what two answers never share: ids, times and whether the answer is kept."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    own = ("id", "call_id", "item_id", "created_at", "completed_at", "store", "input_tokens_details")
    return {name: bare(part) for name, part in value.items() if name not in own}


CASES: dict[str, dict[str, Any]] = {
    "text": {"instructions": "Be brief.", "metadata": {"a": "b"}, "user": "u", "safety_identifier": "s"},
    "cut": {"max_output_tokens": 3, "ignore_eos": True},
    "scores": {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 40},
    "object": {"text": {"format": {"type": "json_object"}}},
    "schema": {"text": {"format": YES}, "reasoning": {"effort": "none"}},
    "call": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    "named": {"tools": TOOLS, "tool_choice": {"type": "function", "name": "switch"}},
    "allowed": {
        "seed": 7,
        "tools": TOOLS,
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "switch"}],
        },
    },
    "either": {"tools": TOOLS, "text": {"format": YES}},
    "items": {
        "input": [
            {"role": "user", "content": "What is on?"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c1", "name": "switch", "arguments": '{"on": true}'},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "It is."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
        ],
        "tools": TOOLS,
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", ["demo", "thinker"])
def test_bodies_and_events_are_as_published(
    name: str, which: str, responses_spec: Any, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(which)
    fields = {"seed": 5, "temperature": 0.7, **CASES[name]}
    if which == "thinker":
        fields |= {"thinking_budget": 12}
        fields.pop("reasoning", None)
    whole = ask(server, **fields)
    assert whole["parallel_tool_calls"] is fields.get("parallel_tool_calls", True)
    assert [tool["name"] for tool in whole["tools"]] == [tool["name"] for tool in fields.get("tools", [])]
    validate(responses_spec, "Response", whole)
    told = events(server, **fields, store=False)
    for event in told:
        validate(responses_spec, "ResponseStreamEvent", event)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    last = told[-1]
    assert last["type"] == f"response.{whole['status']}"
    assert bare(last["response"]) == bare(whole)
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert done == last["response"]["output"]
    check(name, which, whole)


def check(name: str, which: str, whole: dict[str, Any]) -> None:
    """What the answer has to be."""
    kinds = [item["type"] for item in whole["output"]]
    usage = whole["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    if which == "thinker":
        assert kinds[0] == "reasoning" or usage["output_tokens_details"]["reasoning_tokens"] <= 12
    if name == "cut":
        assert (whole["status"], whole["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens"},
        )
        assert usage["output_tokens"] == 3
        return
    texts = [
        part["text"] for item in whole["output"] if item["type"] == "message" for part in item["content"]
    ]
    if name in ("named", "allowed"):
        assert {i["name"] for i in whole["output"] if i["type"] == "function_call"} == {"switch"}
    if name in ("call", "named", "allowed"):
        call = whole["output"][-1]
        jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])
        assert kinds.count("function_call") == (1 if name != "allowed" else kinds.count("function_call"))
        assert "message" not in kinds
    if name == "schema":
        assert texts[-1] in ("true", "false")
    if name == "scores":
        (part,) = [p for item in whole["output"] if item["type"] == "message" for p in item["content"]]
        shown = b"".join(bytes(entry["bytes"]) for entry in part["logprobs"])
        assert part["text"].strip() in shown.decode("utf-8", "replace")
        for entry in part["logprobs"]:
            tokens = [other["token"] for other in entry["top_logprobs"]]
            assert len(tokens) == 2 + (entry["token"] not in tokens[:2])
            assert entry["token"] in tokens


def test_there_is_one_call_where_only_one_may_be(thinker: Server) -> None:
    fields = {**CASES["call"], "thinking_budget": 0, "temperature": 1.0}
    counts: dict[bool, set[int]] = {}
    for parallel in True, False:
        made = [ask(thinker, **{**fields, "parallel_tool_calls": parallel, "seed": n}) for n in range(12)]
        kinds = [[item["type"] for item in one["output"]] for one in made if one["status"] == "completed"]
        counts[parallel] = {each.count("function_call") for each in kinds}
    assert max(counts[True]) > 1
    assert counts[False] == {1}


def test_the_chat_has_the_same_answer(demo: Server) -> None:
    fields: dict[str, Any] = {"seed": 9, "temperature": 0.9}
    made = ask(demo, **fields, instructions="Be brief.", speculative={"report": True})
    text = made["output"][0]["content"][0]["text"]
    assert made["usage"]["speculative"].keys() == {"sources", "acceptance"}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    chat = demo.http.post(
        "/v1/chat/completions", json={"messages": messages, "max_completion_tokens": 200, **fields}
    )
    assert chat.json()["choices"][0]["message"]["content"] == text


def test_the_official_client_creates_streams_and_parses(client: openai.OpenAI) -> None:
    made = client.responses.create(model="demo", input="Order something.", max_output_tokens=50)
    assert made.output_text == made.to_dict()["output"][0]["content"][0]["text"]  # type: ignore[index]
    with client.responses.stream(
        model="demo", input="A large one.", text_format=Order, max_output_tokens=100, temperature=0
    ) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == text
    assert isinstance(final.output_parsed, Order)
    parsed = client.responses.parse(
        model="demo",
        input="A large one, and quickly.",
        tools=[openai.pydantic_function_tool(Order)],
        tool_choice="required",
        max_output_tokens=200,
        temperature=0,
    )
    call = parsed.output[0]
    assert call.type == "function_call"
    assert isinstance(call.parsed_arguments, Order)


def test_a_loop_of_calls_with_and_without_keeping(client: openai.OpenAI) -> None:
    settings: Any = {"model": "demo", "tools": TOOLS, "parallel_tool_calls": False, "max_output_tokens": 200}
    asked: Any = [{"role": "user", "content": "Switch it on."}]
    first = client.responses.create(input=asked, tool_choice="required", extra_body={"seed": 1}, **settings)
    call = first.output[0]
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    more: Any = {"tool_choice": "none", "extra_body": {"seed": 2}, **settings}
    kept = client.responses.create(input=[result], previous_response_id=first.id, **more)
    sent = client.responses.create(input=[*asked, *first.output, result], store=False, **more)
    assert kept.output_text == sent.output_text
    assert kept.usage is not None
    assert sent.usage is not None
    assert kept.usage.input_tokens == sent.usage.input_tokens
    reference: Any = [*asked, {"type": "item_reference", "id": call.id}, result]
    referred = client.responses.create(input=reference, **more)
    assert referred.output_text == kept.output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(sent.id)


def test_kept_responses_are_retrieved_listed_and_deleted(client: openai.OpenAI, responses_spec: Any) -> None:
    given: Any = [{"role": "user", "content": f"Number {i}."} for i in range(5)]
    made = client.responses.create(model="demo", input=given, max_output_tokens=10)
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    listed = client.responses.input_items.list(made.id, limit=2)
    told: list[Any] = [item for page in listed.iter_pages() for item in page.data]
    assert [item.content[0].text for item in told] == [f"Number {i}." for i in (4, 3, 2, 1, 0)]
    for item in told:
        validate(responses_spec, "InputMessage", item.to_dict())
    forward = client.responses.input_items.list(made.id, order="asc", after=told[-1].id)
    assert [item.id for item in forward if item.type == "message"] == [item.id for item in told[-2::-1]]
    client.responses.delete(made.id)
    for gone in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError) as error:
            gone(made.id)
        assert error.value.code == "response_not_found"
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="demo", input="x", previous_response_id=made.id)
    assert (missing.value.param, missing.value.code) == (
        "previous_response_id",
        "previous_response_not_found",
    )


def test_in_the_background(client: openai.OpenAI, demo: Server, responses_spec: Any) -> None:
    settings: Any = {"model": "demo", "background": True, "input": "Order something."}
    made = client.responses.create(**settings, max_output_tokens=20)
    assert made.status == "queued"
    for _ in until():
        now = client.responses.retrieve(made.id)
        if now.status not in ("queued", "in_progress"):
            break
    assert now.status in ("completed", "incomplete")
    validate(responses_spec, "Response", now.to_dict())
    assert client.responses.cancel(made.id).status == now.status
    long = client.responses.create(**settings, max_output_tokens=3000, extra_body={"ignore_eos": True})
    ended = client.responses.cancel(long.id)
    assert ended.status == "cancelled"
    assert client.responses.retrieve(long.id).status == "cancelled"
    validate(responses_spec, "Response", ended.to_dict())
    demo.wait_idle()
    other = client.responses.create(model="demo", input="hi", max_output_tokens=5)
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(other.id)


def test_errors_name_the_fields_and_disturb_nobody(demo: Server) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "text.format": {"text": {"format": {**YES, "schema": {"type": "odd"}}}},
        "tools[0].parameters": {
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "odd"}}],
            "tool_choice": "required",
        },
        "tools[0].name": {"tools": [{"type": "function", "name": "no spaces"}]},
        "tools[0].type": {"tools": [{"type": "web_search"}]},
        "tool_choice.name": {"tools": TOOLS, "tool_choice": {"type": "function", "name": "other"}},
        "tool_choice": {"tool_choice": "required"},
        "input[1].arguments": {
            "input": [
                {"role": "user", "content": "x"},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"},
            ]
        },
        "input": {"input": []},
        "max_output_tokens": {"max_output_tokens": 0},
        "temperature": {"temperature": 3},
        "top_logprobs": {"top_logprobs": 21},
    }
    alone = ask(demo, seed=3, ignore_eos=True)["output"][0]["content"]

    def refused(item: tuple[str, dict[str, Any]]) -> None:
        param, fields = item
        for stream in False, True:
            answer = demo.http.post(URL, json={"input": "hi", **fields, "stream": stream})
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, param), error
            assert error.keys() == {"message", "type", "param", "code"}

    with ThreadPoolExecutor(4) as pool:
        beside = pool.submit(ask, demo, seed=3, ignore_eos=True)
        list(pool.map(refused, wrong.items()))
    assert beside.result()["output"][0]["content"] == alone


def test_what_is_too_long_is_refused_or_loses_its_oldest_turns(demo: Server) -> None:
    turns = [{"role": "user", "content": f"{i} " * 60} for i in range(200)]
    answer = demo.http.post(URL, json={"input": turns, "max_output_tokens": 16})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert answer.json()["error"]["param"] == "input"
    cut = ask(demo, input=turns, max_output_tokens=16, truncation="auto")
    most = demo.http.get("/v1/models").json()["data"][0]["max_model_len"]
    assert most / 2 < cut["usage"]["input_tokens"] <= most - 16


def test_every_field_of_the_published_body_is_known(responses_spec: Any) -> None:
    parts = responses_spec["components"]["schemas"]["CreateResponse"]["allOf"]
    names: set[str] = set()
    while parts:
        part = parts.pop()
        if "$ref" in part:
            part = responses_spec["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]
        parts.extend(part.get("allOf", ()))
        names |= part.get("properties", {}).keys()
    known = {*ResponsesRequest.__struct_fields__, *ResponsesRequest.refused, *INEFFECTIVE}
    assert names - known == {"moderation", "prompt_cache_options", "prompt_cache_retention"}


def test_effort_has_no_effect_where_nothing_reasons(toy: Server) -> None:
    body = {"input": "hi", "reasoning": {"effort": "high"}, "max_output_tokens": 5}
    answer = toy.http.post(URL, json=body)
    assert (answer.status_code, answer.headers["llgtrt-ignored"]) == (200, "reasoning_effort")
