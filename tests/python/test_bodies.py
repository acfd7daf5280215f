"""Request bodies: what is read, refused and ignored, and what the core is asked."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

import pytest

from llgtrt.llm import SamplingParams
from llgtrt.openai import schema, translate
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError

MESSAGES = [{"role": "user", "content": "hi"}]
CALLED = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WRONG = {"name": "f", "arguments": "{"}


def chat(**fields: Any) -> schema.ChatRequest:
    return parse(json.dumps({"messages": MESSAGES, **fields}).encode(), schema.ChatRequest)


def completion(**fields: Any) -> schema.CompletionRequest:
    return parse(json.dumps({"prompt": "x", **fields}).encode(), schema.CompletionRequest)


def core(**fields: Any) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(
        translate.with_prompt(translate.core_request(chat(**fields), 7), [1, 2])
    )
    return request


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"messages": [], }', "invalid_json"),
        (b'{"messages": NaN}', "invalid_json"),
        (b'{"x": "\xff"}', "invalid_utf8"),
        (b'{"messages": "\xff"}', "invalid_utf8"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "invalid_json"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json"),
        (b"[1]", None),
        (b"null", None),
        (b"{}", None),
    ],
)
def test_what_is_no_body(body: bytes, code: str | None) -> None:
    with pytest.raises(ApiError) as error:
        parse(body, schema.ChatRequest)
    assert (error.value.status, error.value.code) == (400, code)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": True}, "n"),
        ({"stop": [1]}, "stop[0]"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": "hi"}, "messages"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "choice"}}, "response_format.choices"),
        ({"response_format": "json"}, "response_format"),
        ({"logit_bias": {"1": "x"}}, "logit_bias[...]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name"),
        ({"tools": [{"type": "hosted"}]}, "tools[0].type"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"functions": [{}]}, "functions[0].name"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"prediction": {"type": "text", "content": "x"}}, "prediction.type"),
        ({"prediction": {"type": "content"}}, "prediction.content"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"moderation": {}}, "moderation"),
        ({"service_tier": "first"}, "service_tier"),
        ({"suffix": "x"}, "suffix"),
        ({"guided_decoding_backend": "x"}, "guided_decoding_backend"),
        ({"response_format": {"type": "json_object", "schem": {}}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "name": "n", "x": 1}}},
            "response_format.json_schema",
        ),
        ({"logits_processors": ["x"]}, "logits_processors"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"nvext": {"x": 1}}, "nvext"),
        ({"dry_multiplier": 0.8}, "dry_multiplier"),
        ({"xtc_probability": 0.5}, "xtc_probability"),
        ({"mirostat": 2}, "mirostat"),
        ({"echo": True}, "echo"),
        ({"chat_template": "x"}, "chat_template"),
        ({"add_special_tokens": False}, "add_special_tokens"),
        ({"no_stop_trim": True}, "no_stop_trim"),
        ({"lora": [{"id": 0, "scale": 0.5}]}, "lora"),
        ({"tfs_z": 0.5}, "tfs_z"),
        ({"typ_p": 0.5}, "typ_p"),
        ({"banned_strings": ["x"]}, "banned_strings"),
        ({"banned_tokens": [1]}, "banned_tokens"),
    ],
)
def test_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as error:
        chat(**fields)
    assert (error.value.status, error.value.param) == (400, param)
    assert error.value.message.startswith(param)


def test_fields_of_the_other_api_are_refused() -> None:
    prediction = {"type": "content", "content": "x"}
    for fields in ({"max_completion_tokens": 5}, {"prediction": prediction}):
        chat(**fields)
        with pytest.raises(ApiError, match=f"^{next(iter(fields))}: this value is not supported"):
            completion(**fields)


def test_what_has_no_effect_is_accepted() -> None:
    fields = {"user": "u", "metadata": {"a": "b"}, "store": True, "safety_identifier": "s"}
    fields |= {"service_tier": "auto", "prompt_cache_key": "k", "modalities": ["text"], "verbosity": None}
    fields |= {
        "tools": [],
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "prompt_cache_retention": "24h",
    }
    assert core(**fields) == core()


def test_unknown_fields_are_as_the_server_says() -> None:
    body = {"messages": MESSAGES, "stop_regex": "x"}
    parse(json.dumps(body).encode(), schema.ChatRequest, "ignore")
    for unknown in ("refuse", "ignore"):
        with pytest.raises(ApiError, match="guided_decoding_backend"):
            parse(
                json.dumps({**body, "stop_regex": None, "guided_decoding_backend": "x"}).encode(),
                schema.ChatRequest,
                unknown,
            )
    for name in ("zork", "z" * 1000):
        with pytest.raises(ApiError) as error:
            parse(json.dumps({"messages": MESSAGES, name: 1}).encode(), schema.ChatRequest, "refuse")
        assert (error.value.param, error.value.code) == (name[:64], "unknown_parameter")
    parse(json.dumps({"messages": MESSAGES, "zork": None}).encode(), schema.ChatRequest, "refuse")


def test_other_servers_names_and_values_mean_the_same() -> None:
    assert core(n_predict=7)["max_tokens"] == 7
    assert core(n_predict=7, max_tokens=5)["max_tokens"] == 5
    assert core(max_tokens=-1) == core(n_predict=-1) == core()
    assert core(seed=-1) == core()
    assert core(repeat_penalty=1.5) == core(repetition_penalty=1.5) != core()
    assert core(top_p=0)["sampling"]["top_p"] == 0
    assert [core(service_tier=t)["priority"] for t in ("flex", "auto", "priority")] == [1, 0, -1]
    assert core(service_tier="flex", priority=-5)["priority"] == -5


def test_a_prompt_may_be_wanted_alone() -> None:
    for fields in ({"max_tokens": 0}, {"n_predict": 0}):
        alone = completion(echo=True, **fields)
        assert translate.only_prompt(alone)
        assert translate.max_tokens(alone) == 1
        # Without `echo` the core refuses it.
        assert translate.max_tokens(completion(**fields)) == 0
    assert not translate.only_prompt(completion(echo=True, n_predict=0, max_tokens=5))


def test_sampling_params_have_what_the_core_reads() -> None:
    read = {name for name, meta in schema.metas(schema.Common).items() if (meta.extra or {})["core"]}
    own = {field.name for field in dataclasses.fields(SamplingParams)}
    assert read <= own <= set(schema.CompletionRequest.__struct_fields__)


def test_salts_are_told_apart() -> None:
    salts = [core(**fields)["cache_salt"] for fields in ({}, {"cache_salt": "a"}, {"cache_salt": "b"})]
    assert salts[0] == 0
    assert len(set(salts)) == 3
    assert core(cache_salt="a")["cache_salt"] == salts[1]
    for salt in ("", "x" * 1025):
        with pytest.raises(ApiError, match="cache_salt"):
            core(cache_salt=salt)


def test_prompts_are_cut_at_the_front() -> None:
    def cut(**fields: Any) -> list[int]:
        return list(translate.cut(chat(**fields), [1, 2, 3, 4, 5], 6))

    assert cut() == [1, 2, 3, 4, 5]
    assert cut(truncate_prompt_tokens=2) == [4, 5]
    assert cut(truncate_prompt_tokens=9) == [1, 2, 3, 4, 5]
    assert cut(truncate_prompt_tokens=-1, max_tokens=3) == [3, 4, 5]
    with pytest.raises(ApiError, match="at least 1"):
        cut(truncate_prompt_tokens=0)


def test_template_options_leave_the_servers_own_alone() -> None:
    options = translate.template_options(chat(chat_template_kwargs={"enable_thinking": False}))
    assert options == {
        "enable_thinking": False,
        "add_generation_prompt": True,
        "continue_final_message": False,
    }
    for name in ("messages", "bos_token", "add_generation_prompt"):
        with pytest.raises(ApiError, match=name):
            translate.template_options(chat(chat_template_kwargs={name: "x"}))
    with pytest.raises(ApiError, match="excludes"):
        translate.template_options(chat(continue_final_message=True, add_generation_prompt=True))


def test_unknown_fields_are_ignored_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert core(zork_once={"a": 1}) == core(zork_once=2)
    assert [r.getMessage() for r in caplog.records].count(
        "ignored the unknown request field 'zork_once' (said once)"
    ) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "tool_calls": [CALLED]}]}, "messages[0].tool_calls"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALLED, {"function": WRONG}]}]},
            "messages[0].tool_calls[1].function.arguments",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [{"role": "assistant", "content": "x", "prefix": True}]}, "messages[0].prefix"),
    ],
)
def test_messages_that_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as error:
        translate.messages(chat(**fields))
    assert (error.value.status, error.value.param) == (400, param)


def test_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "developer", "content": parts, "name": "Ann"},
        {"role": "assistant", "refusal": "no"},
    ]
    assert translate.messages(chat(messages=messages)) == [
        {"role": "developer", "content": "ab", "name": "Ann"},
        {"role": "assistant", "content": "no"},
    ]


def test_only_what_is_said_of_speculation_is_passed_on() -> None:
    said = {"enabled": True, "max_draft_len": 0, "acceptance": "exact", "sources": None}
    want = {"enabled": True, "max_draft_len": 0, "acceptance": "exact"}
    assert core(speculative=said)["speculative"] == want
    assert core(speculative={"acceptance": "tokens", "report": True})["speculative"] == {
        "acceptance": "exact"
    }
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert translate.prediction(chat(prediction={"type": "content", "content": parts})) == "ab"
    assert translate.prediction(chat()) == ""


def test_draft_tokens_are_of_one_prompt_and_alone() -> None:
    mine = {"draft_tokens": [1, 2]}
    assert translate.draft_tokens(completion(speculative=mine), 1) == [1, 2]
    assert not translate.draft_tokens(completion(), 1)
    assert not translate.draft_tokens(completion(speculative={"enabled": True}), 2)
    assert "draft_tokens" not in core(speculative=mine)["speculative"]
    with pytest.raises(ApiError, match=r"^speculative\.draft_tokens: is of one prompt"):
        translate.draft_tokens(completion(speculative=mine), 2)
    predicted = {"type": "content", "content": "x"}
    with pytest.raises(ApiError, match="excludes"):
        translate.draft_tokens(chat(speculative=mine, prediction=predicted), 1)


def test_defaults_are_the_cores() -> None:
    assert core() == {
        "prompt": [1, 2],
        "max_tokens": None,
        "sampling": {},
        "stop": [],
        "logprobs": None,
        "prompt_logprobs": None,
        "origins": False,
        "grammar": None,
        "speculative": {},
        "prediction": [],
        "client": 7,
        "priority": 0,
        "cache_salt": 0,
    }


@pytest.mark.parametrize(
    ("fields", "key", "value"),
    [
        ({"max_tokens": 5}, "max_tokens", 5),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", 6),
        ({"stop": "x"}, "stop", ["x"]),
        ({"stop": ["x", "y"]}, "stop", ["x", "y"]),
        ({"seed": -2}, "sampling", {"seed": 2**64 - 2}),
        ({"seed": -1}, "sampling", {}),
        ({"stop_token_ids": [5]}, "stop_token_ids", [5]),
        ({"allowed_token_ids": [5]}, "allowed_token_ids", [5]),
        ({"skip_special_tokens": False}, "skip_special_tokens", False),
        ({"include_stop_str_in_output": True}, "include_stop_str_in_output", True),
        ({"seed": 2**64}, "sampling", {"seed": 0}),
        ({"top_k": -1, "temperature": 0}, "sampling", {"temperature": 0.0, "top_k": 0}),
        ({"logit_bias": {"17": -100}}, "sampling", {"logit_bias": {"17": -100.0}}),
        ({"logprobs": True}, "logprobs", 0),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs", 3),
        ({"response_format": {"type": "text"}}, "grammar", None),
        ({"response_format": {"type": "json_object"}}, "grammar", "json_object"),
        ({"response_format": {"type": "regex", "regex": "a+"}}, "grammar", {"regex": "a+"}),
        ({"response_format": {"type": "regex", "pattern": "a+"}}, "grammar", {"regex": "a+"}),
        ({"response_format": {"type": "lark_grammar", "grammar": "g"}}, "grammar", {"lark_grammar": "g"}),
        ({"response_format": {"type": "llguidance", "grammar": "g\n"}}, "grammar", {"llguidance": "g\n"}),
        (
            {"response_format": {"type": "llguidance", "grammar": {"a": 1}}},
            "grammar",
            {"llguidance": '{"a": 1}'},
        ),
        ({"response_format": {"type": "choice", "choices": ["a"]}}, "grammar", {"choice": ["a"]}),
    ],
)
def test_translated(fields: dict[str, Any], key: str, value: object) -> None:
    assert core(**fields) == core() | {key: value}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"top_k": -2}, "top_k"),
        ({"response_format": {"type": "regex"}}, "response_format.regex"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_not_translated(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as error:
        core(**fields)
    assert (error.value.status, error.value.param) == (400, param)


@pytest.mark.parametrize(
    ("prompt", "result"),
    [
        ("a", translate.Texts(["a"])),
        ("", translate.Texts([""])),
        (["a", "b"], translate.Texts(["a", "b"])),
        ([1, 2], translate.Tokens([[1, 2]])),
        ([[1], [2, 3]], translate.Tokens([[1], [2, 3]])),
    ],
)
def test_prompts(prompt: object, result: object) -> None:
    assert translate.prompts(completion(prompt=prompt)) == result


@pytest.mark.parametrize("prompt", [None, [], 5, [1, "a"], [[]], [[1], "a"], [-1], [True], {"a": 1}])
def test_prompts_that_are_refused(prompt: object) -> None:
    with pytest.raises(ApiError, match="prompt"):
        translate.prompts(completion(prompt=prompt))


def test_completions_refuse_what_they_cannot_do() -> None:
    translate.check_completion(completion(best_of=2, n=2))
    translate.check_completion(completion(best_of=2))
    for fields in ({"best_of": 2, "n": 3}, {"best_of": 0}, {"best_of": 2, "stream": True}):
        with pytest.raises(ApiError, match="best_of"):
            translate.check_completion(completion(**fields))
    with pytest.raises(ApiError, match="n: "):
        translate.check_completion(completion(best_of=2, n=0))
    with pytest.raises(ApiError, match="stream"):
        translate.prompt_logprobs(completion(logprobs=1, echo=True, stream=True))
