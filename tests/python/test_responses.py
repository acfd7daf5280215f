"""Responses without a server: items as messages, what is kept, and the items and events of answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llgtrt.cluster import driver
from llgtrt.engine import Logprob
from llgtrt.openai import routes, schema
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError
from llgtrt.openai.known import FORMATS
from llgtrt.openai.parse import Grammar, Parser
from llgtrt.openai.pieces import Content
from llgtrt.openai.responses import as_chat, items
from llgtrt.openai.responses.fields import ResponsesRequest
from llgtrt.openai.responses.output import Output
from llgtrt.openai.responses.recall import Recall
from llgtrt.openai.responses.store import Bounds, Store
from llgtrt.openai.scores import Scores
from llgtrt.settings import StartError


def read(unknown: str = "refuse_known", **fields: Any) -> ResponsesRequest:
    foreign = schema.a_chats_alone(ResponsesRequest)
    return parse(json.dumps({"input": "hi", **fields}).encode(), ResponsesRequest, unknown, foreign)


def told(body: ResponsesRequest, known: dict[str, Any] | None = None) -> items.Talk:
    return items.talk(body.instructions, items.canonical(body.input, (known or {}).get))


def refusal(**fields: Any) -> tuple[int, str | None]:
    def taken() -> None:
        body = read(**fields)
        as_chat.check(body)
        as_chat.chat_request(body, told(body).messages)

    with pytest.raises(ApiError) as error:
        taken()
    assert error.value.param is None or error.value.param in error.value.message
    return error.value.status, error.value.param


def test_what_belongs_together_is_one_message() -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    body = read(
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "And kind."},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            },
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]},
            {**call, "call_id": "1"},
            {**call, "call_id": "2"},
            {"type": "function_call_output", "call_id": "2", "output": "two"},
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": [{"type": "input_text", "text": "one"}],
            },
            {"type": "item_reference", "id": "msg_known"},
            {"role": "assistant", "content": "again"},
        ],
    )
    known = {"id": "msg_known", "type": "message", "role": "assistant", "content": [{"refusal": "no"}]}
    talk = told(body, {"msg_known": known})
    shape = [(m.role, m.content, m.reasoning_content, len(m.tool_calls or ())) for m in talk.messages]
    assert shape == [
        ("system", "Be brief.\n\nAnd kind.", None, 0),
        ("user", "ab", None, 0),
        ("assistant", "so", "hm", 2),
        ("tool", "two", None, 0),
        ("tool", "one", None, 0),
        ("assistant", "no", None, 0),
        ("assistant", "again", None, 0),
    ]
    assert [m.tool_call_id for m in talk.messages[3:5]] == ["2", "1"]
    assert talk.places[2] == ("input[2]", ["input[4]", "input[5]"])


def test_errors_have_the_names_of_the_clients_fields() -> None:
    places: list[tuple[str, list[str]]] = [
        ("instructions", []),
        ("input[0]", []),
        ("input[1]", ["input[1]", "input[2]"]),
    ]
    for name, own in {
        "messages": "input",
        "messages[1].content": "input[0].content",
        "messages[2].tool_calls[1].function.arguments": "input[2].arguments",
        "response_format.json_schema.schema": "text.format.schema",
        "response_format": "text.format",
        "tools[3].function.parameters": "tools[3].parameters",
        "tool_choice.allowed_tools.tools[1].function.name": "tool_choice.tools[1].name",
        "tool_choice.function.name": "tool_choice.name",
        "max_completion_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "seed": "seed",
    }.items():
        error = as_chat.renamed(ApiError(f"{name}: is wrong", name, "unsupported_parameter"), places)
        assert (error.param, error.message, error.code) == (own, f"{own}: is wrong", "unsupported_parameter")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        *(({"tools": [{"type": kind}]}, "tools[0].type") for kind in
          ("web_search", "file_search", "mcp", "computer_use_preview", "code_interpreter")),
        ({"tool_choice": {"type": "web_search_preview"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "allowed_tools", "tools": [{"type": "mcp"}]}},
         "tool_choice.tools[0].type"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": "x", "id": ""}]}, "input[0].id"),
        ({"input": [{"type": "reasoning", "content": "x"}]}, "input[0].content"),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "1", "name": "f"}]}, "input[0].arguments"),
        ({"n": 2}, "n"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "text"}}, "response_format"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"stream_options": {"include_token_origin": True}}, "stream_options.include_token_origin"),
        ({"include": ["message.everything"]}, "include[0]"),
        ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"background": True, "stream": True}, "stream"),
        ({"background": True, "store": False}, "store"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"prediction": {"type": "content", "content": "x"}}, None),
        ({"functions": [{"name": "f"}]}, None),
        ({"truncation": "middle"}, "truncation"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(fields: dict[str, Any], param: str | None) -> None:
    assert refusal(**fields) == (400, param)


def test_unknown_fields_are_as_the_server_says() -> None:
    read("refuse_known", anything=1, stream_options={"include_obfuscation": False}, background=False)
    with pytest.raises(ApiError):
        read("refuse", anything=1)
    as_chat.check(read("ignore", conversation="conv_1"))


def test_an_item_that_is_not_kept_is_a_404() -> None:
    with pytest.raises(ApiError) as error:
        told(read(input=[{"type": "item_reference", "id": "msg_1"}]))
    assert (error.value.status, error.value.code, error.value.param) == (404, "item_not_found", "input[0].id")


def test_the_oldest_turns_are_left_out_until_the_rest_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def prompt(_: Any, body: schema.ChatRequest) -> tuple[list[int], Any]:
        sizes.append(sum(len(str(m.content)) for m in body.messages))
        return [0] * sizes[-1], None

    monkeypatch.setattr(routes, "chat_prompt", prompt)
    limits = {"limits": {"context": 100, "max_prompt": 99}}
    api = cast("Any", SimpleNamespace(engine=SimpleNamespace(info=lambda: limits)))
    given = [{"role": "system", "content": "s" * 10}]
    for letter in "abcdefgh":
        given += [{"role": "user", "content": letter * 15}, {"role": "assistant", "content": letter * 5}]
    body = read(input=given, max_output_tokens=30)
    whole = told(body)
    chat = as_chat.chat_request(body, whole.messages)
    kept = as_chat.fitted(api, chat, whole)
    assert [str(m.content)[0] for m in kept.messages] == ["s", *"ffgghh"]
    assert kept.places[1] == ("input[11]", [])
    assert len(sizes) <= 4
    long = told(read(input=[*given, {"role": "user", "content": "x" * 200}]))
    assert [str(m.content)[0] for m in as_chat.fitted(api, chat, long).messages] == ["s", "x"]


def response(
    name: str, text: str = "x", previous: str | None = None, status: str = "completed"
) -> dict[str, Any]:
    message = {"type": "message", "id": f"msg_{name}", "content": [{"type": "output_text", "text": text}]}
    return {"id": name, "previous_response_id": previous, "status": status, "output": [message]}


def names(store: Store, client: int, count: int) -> list[str]:
    """Those of `r0`, `r1`, … that are kept."""
    return [name for name in (f"r{i}" for i in range(count)) if store.get(client, name) is not None]


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "kept.db" if request.param == "file" else None


def test_responses_are_their_clients_own(place: Path | None) -> None:
    store = Store(place)
    # Numbers of keys are larger than a database's integers.
    ann, ben = 2**64 - 1, 7
    assert store.put(ann, response("r0"), [{"id": "in0"}])
    assert store.put(ann, response("r1", previous="r0"), [{"id": "in1"}])
    chain = store.chain(ann, "r1", 10_000)
    assert chain is not None
    assert [kept.body["id"] for kept in chain] == ["r0", "r1"]
    recall = Recall(store, ann, 10_000)
    assert recall.item("in0") == {"id": "in0"}
    found = recall.item("msg_r1")
    assert found is not None
    assert found["type"] == "message"
    assert Recall(store, ben, 10_000).item("in0") is None
    for lookup in (store.get, store.holding, store.delete):
        assert not lookup(ben, "r1")
    assert store.chain(ben, "r1", 10_000) is None
    assert store.delete(ann, "r0")
    assert not store.delete(ann, "r0")
    assert store.chain(ann, "r1", 10_000) is None
    assert store.holding(ann, "in0") is None
    store.close()


def test_a_short_request_does_not_become_a_long_one() -> None:
    store = Store()
    store.put(1, response("r0", "x" * 5_000), [{"id": "in0"}])
    for i in range(1, 4):
        store.put(1, response(f"r{i}", previous=f"r{i - 1}"), [])
    recall = Recall(store, 1, 20_000)
    assert [recall.item("msg_r0") is not None for _ in range(3)] == [True] * 3
    assert recall.item("in0") == {"id": "in0"}
    with pytest.raises(ApiError) as again:
        recall.item("msg_r0")
    with pytest.raises(ApiError) as behind:
        recall.before("r3")
    for error, param in (again, "input"), (behind, "previous_response_id"):
        assert (error.value.status, error.value.param) == (400, param)
        assert error.value.code == "context_length_exceeded"
    assert len(Recall(store, 1, 8_000).before("r2")) == 4
    store.close()


def test_nothing_goes_on_from_what_is_under_way() -> None:
    store = Store()
    store.put(1, response("r0", status="queued"), [])
    with pytest.raises(ApiError, match="still queued") as error:
        Recall(store, 1, 10_000).before("r0")
    assert (error.value.status, error.value.param) == (400, "previous_response_id")
    store.put(1, response("r0"), [])
    assert len(Recall(store, 1, 10_000).before("r0")) == 1
    store.close()


def test_the_least_recently_used_goes_first(place: Path | None) -> None:
    store = Store(place, Bounds(3, 10**6))
    for i in range(3):
        store.put(1, response(f"r{i}"), [])
    assert store.get(1, "r0") is not None
    store.put(1, response("r3"), [])
    assert names(store, 1, 4) == ["r0", "r2", "r3"]
    store.close()


def test_bytes_are_bounded_and_each_client_pushes_out_its_own(place: Path | None) -> None:
    store = Store(place, Bounds(100, 20_000))
    store.put(1, response("r0", "x" * 2000), [])
    for i in range(1, 50):
        store.put(2, response(f"r{i}", "x" * 2000), [])
    assert names(store, 1, 50) == ["r0"]
    kept = names(store, 2, 50)
    assert 3 <= len(kept) <= 8
    assert kept[-1] == "r49"
    assert not store.put(2, response("huge", "x" * 30_000), [])
    assert store.get(2, "huge") is None
    assert names(store, 2, 50) == kept
    store.close()


def test_a_file_keeps_them_and_ends_what_was_under_way(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    first = Store(file)
    assert file.stat().st_mode & 0o777 == 0o600
    first.put(1, response("r0"), [{"id": "in0"}])
    first.put(1, response("r1", status="queued"), [])
    with pytest.raises(StartError, match="--responses-file"):
        Store(file)
    first.close()
    second = Store(file)
    kept, ended = second.get(1, "r0"), second.get(1, "r1")
    assert kept is not None
    assert ended is not None
    assert (kept.body, kept.input) == (response("r0"), [{"id": "in0"}])
    assert (ended.body["status"], ended.body["error"]["code"]) == ("failed", "server_error")
    second.close()
    for wrong in tmp_path, tmp_path / "none" / "kept.db":
        with pytest.raises(StartError, match="--responses-file"):
            Store(wrong)
    (tmp_path / "text").write_text("not a database, but a text of some length" * 100)
    with pytest.raises(StartError, match="--responses-file"):
        Store(tmp_path / "text")


def test_replicas_do_not_share_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert driver.main(["toy", "--responses-file", str(tmp_path / "kept.db")]) == 2
    assert "--responses-file" in capsys.readouterr().err


HERMES = Grammar(("<think>", "</think>"), True, FORMATS["hermes"], {"get": {}})
TEXT = (
    "I <see>.\n</think>\nLet me <look>.\n"
    '<tool_call>\n{"name": "get", "arguments": {"a": 1}}\n</tool_call>\nDone é'
)


def grown(cuts: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """Items and events of the text, in chunks of so many characters."""
    output, parser, events = Output(lambda number: f"call_{number}"), Parser(HERMES), list[dict[str, Any]]()
    for at in range(0, len(TEXT), cuts):
        for piece in parser.feed(TEXT[at : at + cuts]):
            events += output.take(piece, [])
    for piece in parser.finish():
        events += output.take(piece, [])
    events += output.ended("completed")
    return output.items, events


@pytest.mark.parametrize("cuts", [1, 2, 7, 1000])
def test_any_cut_gives_the_same_items_and_events_that_come_to_them(cuts: int) -> None:
    made, events = grown(cuts)
    reasoning, text, call, more = made
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "I <see>."}]
    assert text["content"][0]["text"] == "Let me <look>."
    assert (call["name"], call["arguments"], call["call_id"]) == ("get", '{"a": 1}', "call_0")
    assert more["content"][0]["text"] == "Done é"
    assert {item["status"] for item in made} == {"completed"}
    ended = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert ended == made
    deltas = [""] * 4
    for event in events:
        if event["type"].endswith(".delta"):
            deltas[event["output_index"]] += event["delta"]
            assert event["item_id"] == made[event["output_index"]]["id"]
    assert deltas == ["I <see>.", "Let me <look>.", '{"a": 1}', "Done é"]
    indices = [event["output_index"] for event in events]
    assert indices == sorted(indices)


def test_the_scores_are_those_of_the_texts_tokens() -> None:
    tokens: list[bytes] = [
        b"I <see>",
        b".\n",
        b"</th",
        b"ink>",
        b"\n",
        b"Let",
        b" me",
        b" ",
        b"<lo",
        b"ok>",
        b".",
    ]
    tokens += [b"\n", b"<tool", b'_call>\n{"na', b'me": "get", "arguments": {"a": 1}}', b"\n</tool_call>\n"]
    tokens += [b"Done", b" \xc3", b"\xa9"]
    assert b"".join(tokens).decode() == TEXT
    scores = Scores(HERMES, lambda token: (tokens[token], False))
    given: list[Logprob] = [(i, -1.0, []) for i in range(len(tokens))]
    scores.feed(given)
    scores.finish()
    first = b"".join(tokens[token] for token, _, _ in scores.taken(0))
    second = b"".join(tokens[token] for token, _, _ in scores.taken(1))
    assert first == b"Let me <look>."
    assert second == "Done é".encode()
    assert scores.taken(1) == []


def test_an_answer_of_nothing_is_an_empty_message() -> None:
    output = Output(str)
    kinds = [event["type"] for event in output.ended("completed")]
    assert kinds[0] == "response.output_item.added"
    assert kinds[-1] == "response.output_item.done"
    assert output.items[0]["content"][0]["text"] == ""
    cut = Output(str)
    cut.take(Content("a"), [])
    cut.ended("incomplete")
    assert cut.items[0]["status"] == "incomplete"
