"""Functions and reasoning in requests: what is refused, what the core is asked, what the template is told."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pytest

from llgtrt import _core, settings
from llgtrt.openai import schema, tools, translate
from llgtrt.openai.body import parse
from llgtrt.openai.chat import Model, ready
from llgtrt.openai.errors import ApiError, from_core
from llgtrt.openai.known import FORMATS
from llgtrt.prompt import Vocabulary
from llgtrt.templates import PRESETS, ChatTemplate

from . import fake_core

ENGINE = fake_core.Engine("toy", "{}")
while ENGINE.state()[0] == "loading":
    time.sleep(0.001)
VOCABULARY = Vocabulary(cast("_core.Engine", ENGINE))
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
CHATML = (PRESETS / "chatml.j2").read_text()
NATIVE = (
    "{% if tools %}TOOLS{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '\\n' if not loop.first }}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}{% endfor %}[assistant]"
)
CALLED = '<tool_call>\n{"name": "get", "arguments": {"n": 1}}\n</tool_call>'
THINKING = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]<think>\n{# </think> #}"
)
HYBRID = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    given = {} if parameters is None else {"parameters": parameters}
    return {"type": "function", "function": {"name": name, "description": f"does {name}", **given}}


TOOLS = [tool("get", {"type": "object", "properties": {"n": {"type": "integer"}}}), tool("put"), tool("cut")]


def chat(**fields: Any) -> schema.ChatRequest:
    asked = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return parse(json.dumps(asked).encode(), schema.ChatRequest)


def made(template: str = CHATML, server: dict[str, Any] | None = None, **fields: Any) -> tuple[str, Any, Any]:
    """The prompt, the core's grammar, and the parser's."""
    group = {"tool_format": "auto", "reasoning_markers": None, **(server or {})}
    asked = cast("settings.ServerSettings", type("Server", (), group)())
    body = chat(**fields)
    model = Model.of(ChatTemplate(template, SPECIAL), VOCABULARY, asked)
    prompt, reply = ready(model, body, translate.messages(body))
    written = b"".join(VOCABULARY.lookup(token)[0] for token in prompt).decode()
    core = json.loads(translate.core_request(body, reply=reply))["grammar"]
    return written.removeprefix("<|bos|>"), core, reply.parts()


def kinds(core: Any) -> list[str]:
    return [next(iter(section)) for section in core["sections"]]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [tool("a b")]}, "tools[0].function.name"),
        ({"tools": [tool("")]}, "tools[0].function.name"),
        ({"tools": [tool("x" * 129)]}, "tools[0].function.name"),
        ({"tools": [tool("get"), tool("get")]}, "tools[1].function.name"),
        ({"tools": [tool(f"f{i}") for i in range(129)]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "get"}}}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "no"}}, "tools": TOOLS},
            "tool_choice.function.name",
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "auto",
                        "tools": [{"type": "function", "function": {"name": n}} for n in ("get", "no")],
                    },
                },
                "tools": TOOLS,
            },
            "tool_choice.allowed_tools.tools[1].function.name",
        ),
        ({"functions": [{"name": "f"}], "tools": TOOLS}, "functions"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call.name"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as error:
        tools.tools(chat(**fields))
    assert (error.value.status, error.value.param) == (400, param)


def names(**fields: Any) -> tuple[str, list[str], bool]:
    asked = tools.tools(chat(tools=TOOLS, **fields))
    assert asked is not None
    return asked.mode, list(asked.names), asked.parallel


def test_who_may_be_called() -> None:
    assert tools.tools(chat()) is None
    assert tools.tools(chat(tools=[], tool_choice="auto")) is None
    assert names() == ("auto", ["cut", "get", "put"], True)
    assert names(parallel_tool_calls=False) == ("auto", ["cut", "get", "put"], False)
    assert names(tool_choice="none")[0] == "none"
    named = {"type": "function", "function": {"name": "put"}}
    assert names(tool_choice=named) == ("required", ["put"], False)
    allowed = {"mode": "required", "tools": [named]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    assert names(tool_choice=choice) == ("required", ["put"], True)


def test_the_older_fields_mean_the_same() -> None:
    asked = tools.tools(chat(functions=[t["function"] for t in TOOLS], function_call={"name": "put"}))
    assert asked is not None
    assert (asked.mode, asked.names, asked.parallel, asked.legacy) == ("required", ["put"], False, True)


def test_calls_hold_in_free_text_from_the_trigger_on() -> None:
    _, core, parts = made(NATIVE, tools=TOOLS)
    free, block, bound = core["sections"]
    assert free["free"]["triggers"][0] == {"text": "<tool_call>", "next": 2, "at_start": False}
    assert free["free"]["may_end"]
    calls = bound["bound"]["grammar"]["calls"]
    assert bound["bound"]["next"] == 0, "text and more calls may follow"
    assert [t["name"] for t in calls["tools"]] == ["get", "put", "cut"]
    assert calls["tools"][0]["schema"] == json.dumps(TOOLS[0]["function"]["parameters"])
    assert (calls["begun"], calls["or"], calls["separator"]) == ("<tool_call>", None, None)
    assert parts.format == FORMATS["hermes"]
    # Calls also come in blocks of code, where the name of a function decides.
    begun = [(t["text"], t["next"], t["at_start"]) for t in free["free"]["triggers"][1:]]
    assert begun[0] == ('```json\n{"name": "', 1, False)
    assert begun[-1] == ('{{"name": "', 1, True)
    assert block["bound"]["next"] == 0
    assert block["bound"]["grammar"]["calls"]["tools"] == calls["tools"]
    assert block["bound"]["grammar"]["calls"]["except"] == ["cut", "get", "put"]
    one = made(NATIVE, tools=TOOLS, parallel_tool_calls=False)[1]
    assert one["sections"][2]["bound"]["next"] is None


def test_a_call_may_be_required_or_forbidden() -> None:
    core = made(NATIVE, tools=TOOLS, tool_choice="required")[1]
    assert core["calls"]["separator"] == "\n"
    named = {"type": "function", "function": {"name": "put"}}
    core = made(NATIVE, tools=TOOLS, tool_choice=named)[1]
    assert [t["name"] for t in core["calls"]["tools"]] == ["put"]
    assert core["calls"]["separator"] is None
    prompt, core, parts = made(NATIVE, tools=TOOLS, tool_choice="none")
    triggers = core["sections"][0]["free"]["triggers"]
    assert triggers[0] == {"text": "<tool_call>", "next": None, "at_start": False}
    assert {t["next"] for t in triggers[1:]} == {1}
    blocked = core["sections"][1]["bound"]["grammar"]["calls"]
    assert (blocked["tools"], blocked["except"]) == ([], ["cut", "get", "put"])
    assert parts is None
    assert "TOOLS" not in prompt


def test_calls_or_the_schema_are_one_grammar() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    core = made(NATIVE, tools=TOOLS, response_format=wanted)[1]
    assert core["calls"]["or"] == {"json_schema": '{"type": "object"}'}
    core = made(NATIVE, tools=TOOLS, response_format=wanted, tool_choice="none")[1]
    assert core == {"json_schema": '{"type": "object"}'}
    core = made(NATIVE, tools=TOOLS, response_format=wanted, tool_choice="required")[1]
    assert core["calls"]["or"] is None


def test_without_any_of_this_the_core_is_asked_as_before() -> None:
    assert made() == ("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", None, None)
    assert made(regex="a+")[1:] == ({"regex": "a+"}, None)


def test_the_templates_own_tools_are_used() -> None:
    prompt = made(NATIVE, tools=TOOLS[:1])[0]
    assert prompt.startswith('TOOLS[{"type": "function", "function": {"name": "get"')
    call = {"id": "1", "type": "function", "function": {"name": "get", "arguments": '{"n": 1}'}}
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "7"},
    ]
    prompt = made(NATIVE, tools=TOOLS, messages=history)[0]
    assert prompt.endswith(
        '[assistant]<tool_call>\n{"name": "get", "arguments": {"n": 1}}\n</tool_call>[tool]7[assistant]'
    )
    # Some templates take the arguments as text.
    source = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '>' + c.function.arguments }}{% endfor %}"
    )
    assert made(source + "{% endfor %}{{ tools }}", messages=history)[0] == '>{"n": 1}None'


def test_the_older_history_is_read() -> None:
    call = {"name": "get", "arguments": '{"n": 1}'}
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "get", "content": "7"},
    ]
    prompt = made(NATIVE, messages=history)[0]
    assert prompt.endswith(
        '[assistant]<tool_call>\n{"name": "get", "arguments": {"n": 1}}\n</tool_call>[tool]7[assistant]'
    )


def test_templates_without_tools_are_told_in_words() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get", "arguments": '{"n": 1}'}}
    history = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Well.", "tool_calls": [call, call]},
        {"role": "tool", "tool_call_id": "1", "content": "7"},
        {"role": "tool", "tool_call_id": "1", "content": "8", "name": "get"},
        {"role": "user", "content": "go on"},
    ]
    prompt, core, _ = made(tools=TOOLS[:1], messages=history)
    system, *others = [part.split("<|im_end|>")[0] for part in prompt.split("<|im_start|>")[1:]]
    assert system.startswith("system\nBe kind.\n\nYou can call functions.")
    assert '"name": "get", "description": "does get"' in system
    assert others == [
        "user\nhi",
        'assistant\nWell.\n{"name": "get", "arguments": {"n": 1}}\n{"name": "get", "arguments": {"n": 1}}',
        "user\nResult: 7\nResult of get: 8\ngo on",
        "assistant\n",
    ]
    first = core["sections"][0]["free"]["triggers"][0]
    assert first == {"text": '{"name": "', "next": 2, "at_start": True}


@pytest.mark.parametrize("template", [NATIVE, CHATML])
def test_the_model_is_not_told_of_the_dialect(template: str) -> None:
    parameters = {"type": "object", "properties": {"$schema": {"type": "string"}}}
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#"}
    plain, *_ = made(template, tools=[tool("get", parameters)])
    named, core, _ = made(template, tools=[tool("get", dialect | parameters)])
    assert named == plain
    assert '"$schema": {"type": "string"}' in plain
    (asked,) = core["sections"][1]["bound"]["grammar"]["calls"]["tools"]
    assert json.loads(asked["schema"]) == dialect | parameters


def test_templates_without_a_system_are_told_by_the_user() -> None:
    source = CHATML.replace(
        "{%- for",
        "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system') }}{%- endif -%}{%- for",
        1,
    )
    prompt = made(source, tools=TOOLS[:1])[0]
    assert prompt.startswith("<|im_start|>user\nYou can call functions.")
    assert prompt.endswith("\n\nhi<|im_end|>\n<|im_start|>assistant\n")
    with pytest.raises(ApiError, match="no system"):
        made(source, messages=[{"role": "system", "content": "x"}])


def test_a_system_message_may_come_late() -> None:
    strict = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system') }}"
        "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    late = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "hello"},
        {"role": "system", "content": "Go on."},
    ]
    assert made(strict, messages=late)[0] == (
        "[system]Be kind.[user]hi\n\nBe brief.[assistant]hello[user]Go on."
    )
    lax = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    assert made(lax, messages=late)[0].count("[system]") == 3


def test_clients_cannot_write_special_tokens_in_tools() -> None:
    parameters = {"type": "object", "properties": {"<|im_end|>": {"description": "<|im_start|>"}}}
    source = NATIVE + "<|im_start|>"
    body = chat(tools=[tool("get", parameters)])
    server = cast(
        "settings.ServerSettings", type("Server", (), {"tool_format": "auto", "reasoning_markers": None})()
    )
    model = Model.of(ChatTemplate(source, {}), VOCABULARY, server)
    prompt, _ = ready(model, body, translate.messages(body))
    special = [t for t in prompt if t >= fake_core.FIRST_SPECIAL]
    assert special == [fake_core.FIRST_SPECIAL + 3, fake_core.FIRST_SPECIAL], "the template's own alone"


def test_ids_as_mistrals_template_wants_them() -> None:
    style = FORMATS["mistral"]
    call: dict[str, Any] = {"id": "call_123", "function": {"name": "get", "arguments": {}}}
    asked: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "abc123XYZ"}]},
        {"role": "tool", "content": "7", "tool_call_id": "call_123"},
    ]
    first, second = tools.fitting(asked, style)
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert len(second["tool_call_id"]) == 9
    assert first["tool_calls"][1]["id"] == "abc123XYZ"
    assert len(tools.call_id(style, "x")) == 9
    assert tools.call_id(FORMATS["hermes"], "x").startswith("call_")


def test_faults_in_schemas_name_the_function() -> None:
    error = fake_core.unsupported("/tools/1/function/parameters/properties/a", "not", "cannot be enforced")
    told = from_core(cast("_core.CoreError", error))
    assert told.param == "tools[1].function.parameters"
    assert "not at /properties/a" in told.message


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    assert tools.decoded("[" * 200 + "]" * 200, "a") != []
    for deep in (201, 995, 100_000):
        with pytest.raises(ApiError, match=r"a: .*(nested deeper|not JSON)"):
            tools.decoded("[" * deep + "]" * deep, "a")
        with pytest.raises(ApiError, match=r"a: .*(nested deeper|not JSON)"):
            tools.decoded('{"a":' * deep + "1" + "}" * deep, "a")


RAG = (
    "{% for d in documents or [] %}<{{ d.title }}>{{ d.text }}{% endfor %}"
    "{{ messages[0].content }}[assistant]"
)


def test_documents_come_into_prompts() -> None:
    documents = [{"title": "A", "text": "one <|eot_id|>"}]
    for fields in ({"documents": documents}, {"chat_template_kwargs": {"documents": documents}}):
        assert made(RAG, **fields)[0] == "<A>one <|eot_id|>hi[assistant]"
    assert made(RAG, documents=[])[0] == "hi[assistant]"


@pytest.mark.parametrize(
    ("template", "fields", "param"),
    [
        (CHATML, {"documents": [{"text": "x"}]}, "documents"),
        (CHATML, {"chat_template_kwargs": {"documents": [{"text": "x"}]}}, "documents"),
        (RAG, {"chat_template_kwargs": {"documents": ["x"]}}, "chat_template_kwargs.documents"),
        (
            RAG,
            {"documents": [{}], "chat_template_kwargs": {"documents": [{}]}},
            "chat_template_kwargs.documents",
        ),
    ],
)
def test_documents_without_a_place(template: str, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as error:
        made(template, **fields)
    assert error.value.param == param
