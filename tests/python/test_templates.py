"""Chat templates: the presets' golden renderings, and what published templates use."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from llgtrt import settings, templates
from llgtrt.templates import ChatTemplate, RenderError

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Hi <b>there</b>\n"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "1 < 2?"},
]
SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def preset(name: str) -> ChatTemplate:
    return ChatTemplate((templates.PRESETS / f"{name}.j2").read_text(), SPECIAL)


def test_chatml_golden() -> None:
    assert preset("chatml").render(CHAT) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n  Hi <b>there</b>\n<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n"
        "<|im_start|>user\n1 < 2?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_llama_3_golden() -> None:
    assert preset("llama-3").render(CHAT) == (
        "<|begin_of_text|>"
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi <b>there</b><|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n1 < 2?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


OPEN = {"add_generation_prompt": True, "continue_final_message": True}


def opened(source: str, last: str) -> str:
    """The prompt whose last message is this one, and stays open."""
    return ChatTemplate(source, SPECIAL).render([*CHAT[:2], {"role": "assistant", "content": last}], OPEN)


def test_the_last_message_can_stay_open() -> None:
    chatml = preset("chatml").source
    for last in ("Well, I <b> ", "\n\nWell", "m", "im_end", "<|im_start|>", "\n", " ", ""):
        assert opened(chatml, last).endswith(f"<|im_start|>assistant\n{last}"), "as it is, up to its end"
    trims = preset("llama-3").source
    for last in ("Well, I <b> ", "\n\nWell", "o", "eot_id", "\n", " ", ""):
        written = f"<|start_header_id|>assistant<|end_header_id|>\n\n{last.strip()}"
        assert opened(trims, last).endswith(written), "as the template would begin it"
    for changes in ("{{ messages[0].content }}", "{{ messages[-1].content | upper }}"):
        with pytest.raises(RenderError, match="cannot be continued"):
            opened(changes, "x")
    talk = [*CHAT[:2], {"role": "assistant", "content": "Well, I <b> "}]
    closed = preset("chatml").render(talk, {"add_generation_prompt": False})
    assert closed.endswith("Well, I <b> <|im_end|>\n")


def test_reasoning_has_the_names_that_templates_know() -> None:
    answer = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    for name in ("reasoning_content", "thinking"):
        template = ChatTemplate(f"{{% for m in messages %}}[{{{{ m.{name} }}}}]{{% endfor %}}", {})
        assert template.render([CHAT[1], answer]) == "[][hm]"


def test_variables_of_the_client_reach_the_template_and_not_the_models_own() -> None:
    template = ChatTemplate("{{ enable_thinking }} {{ eos_token }}", SPECIAL)
    options = {"add_generation_prompt": True, "enable_thinking": False, "eos_token": "x"}
    assert template.render(CHAT, options) == "False <|eot_id|>"


def render(source: str, *contents: str) -> str:
    return ChatTemplate(source, SPECIAL).render([{"role": "user", "content": c} for c in contents])


def test_a_developer_is_a_system_where_the_template_knows_no_developer() -> None:
    developer = [{"role": "developer", "content": "x"}]
    assert ChatTemplate("{{ messages[0].role }}", {}).render(developer) == "system"
    knows = "{% if messages[0].role == 'developer' %}yes{% endif %}"
    assert ChatTemplate(knows, {}).render(developer) == "yes"


def test_from_json_reads_arguments() -> None:
    assert render("{{ ('{\"a\": [1, 2]}' | from_json).a[1] }}", "") == "2"
    with pytest.raises(RenderError):
        render("{{ '{' | from_json }}", "")


def test_tojson_leaves_html_and_key_order_alone() -> None:
    assert render("{{ {'b': '<é>', 'a': 1} | tojson }}", "") == '{"b": "<é>", "a": 1}'
    assert (
        render("{{ {'b': '<é>'} | tojson(indent=2, ensure_ascii=true) }}", "") == '{\n  "b": "<\\u00e9>"\n}'
    )


def test_blocks_are_trimmed_and_loops_have_controls() -> None:
    stops = "  {% if loop.index == 2 %}{% break %}{% endif %}\n"
    source = "{% for m in messages %}\n" + stops + "{{ m.content }}\n{% endfor %}\n"
    assert render(source, "a", "b") == "a\n"


def test_generation_blocks_are_transparent() -> None:
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}b", "x") == "axb"


def test_strftime_now() -> None:
    assert re.fullmatch(r"\d\d \w{3} \d{4}", render("{{ strftime_now('%d %b %Y') }}", ""))


def test_raise_exception_is_the_clients_error() -> None:
    with pytest.raises(RenderError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}", "")


def test_templates_cannot_reach_python() -> None:
    with pytest.raises(RenderError):
        render("{{ messages.__class__.__mro__[1].__subclasses__() }}", "")
    for change in ("messages.clear()", "messages.insert(0, 1)", "messages[0].update(role='x')"):
        with pytest.raises(RenderError):
            render(f"{{{{ {change} }}}}", "")
    assert render("{% set l = [1] %}{{ l.append(2) or l.pop() }}", "") == "2"


def test_a_broken_template_stops_the_start() -> None:
    with pytest.raises(settings.StartError, match="line 2"):
        ChatTemplate("\n{% if %}", {})


def test_the_folders_special_tokens_come_before_the_model_files(tmp_path: Path) -> None:
    named = {"eos_token": {"content": "<|im_end|>"}, "chat_template": "{{ bos_token }}{{ eos_token }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**named, "bos_token": None}))
    wanted = settings.load(str(tmp_path), None, {})
    found = templates.load(wanted, {"eos_text": "<|endoftext|>", "bos_text": "<s>"})
    assert found is not None
    assert found.render(CHAT) == "<s><|im_end|>"


def test_where_a_template_comes_from(tmp_path: Path) -> None:
    def rendered(named: str | None = None) -> str:
        wanted = settings.load(str(tmp_path), None, {"server": {"chat_template": named}})
        found = templates.load(wanted, {"chat_template": "of the model file"})
        assert found is not None
        return found.render(CHAT)

    assert rendered() == "of the model file"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "of the tokenizer"}))
    assert rendered() == "of the tokenizer"
    (tmp_path / "chat_template.j2").write_text("of the folder")
    assert rendered() == "of the folder"
    (tmp_path / "own.j2").write_text("of the flag")
    assert rendered(str(tmp_path / "own.j2")) == "of the flag"
    assert rendered("chatml").startswith("<|im_start|>system")


def test_models_may_have_a_template_for_functions(tmp_path: Path) -> None:
    def rendered(info: dict[str, str]) -> tuple[str, str]:
        found = templates.load(settings.load(str(tmp_path), None, {}), info)
        assert found is not None
        return found.render(CHAT), found.render(CHAT, {"tools": [{"name": "put"}]})

    functions = "{{ tools[0].name }}"
    info = {"chat_template": "chat", "tool_use_template": functions}
    assert rendered(info) == ("chat", "put")
    assert rendered(info | {"tool_use_template": ""}) == ("chat", "chat")
    given = {"default": "tokenizer", "tool_use": f"a {functions}", "rag": "x"}
    listed = [{"name": name, "template": text} for name, text in given.items()]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": listed}))
    assert rendered(info) == ("tokenizer", "a put")
    (tmp_path / "chat_template.jinja").write_text("folder")
    assert rendered(info) == ("folder", "folder")
    other = tmp_path / "additional_chat_templates" / "tool_use.jinja"
    other.parent.mkdir()
    other.write_text(f"the {functions}")
    assert rendered(info) == ("folder", "the put")


def test_models_may_have_a_template_for_documents(tmp_path: Path) -> None:
    tools, documents = [{"name": "put"}], [{"title": "A", "text": "b"}]

    def rendered(info: dict[str, str], **options: Any) -> str | None:
        found = templates.load(settings.load(str(tmp_path), None, {}), info)
        assert found is not None
        return found.render(CHAT, options) if found.has_place(options) else None

    rag = "{{ documents[0].title }}"
    info = {"chat_template": "chat {{ tools }}"}
    assert rendered(info) == "chat None"
    assert rendered(info, documents=documents) is None
    info["rag_template"] = rag
    assert rendered(info, documents=documents) == "A"
    assert rendered(info, documents=[]) == "chat None"
    assert rendered(info, documents=documents, tools=tools) is None, "that template would drop the functions"
    info["rag_template"] = f"{rag} {{{{ tools[0].name }}}}"
    assert rendered(info, documents=documents, tools=tools) == "A put"
    info["tool_use_template"] = "{{ tools[0].name }} {{ documents }}"
    assert rendered(info, documents=documents, tools=tools) == f"put {documents}"
    # A name of a macro's own is no place.
    macro = "{% macro told(documents) %}{{ documents }}{% endmacro %}chat"
    assert rendered({"chat_template": macro}, documents=documents) is None
    given = {"default": "tokenizer", "rag": rag}
    listed = [{"name": name, "template": text} for name, text in given.items()]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": listed}))
    assert rendered({}, documents=documents) == "A"
    (tmp_path / "chat_template.jinja").write_text("folder")
    assert rendered({}, documents=documents) is None
    other = tmp_path / "additional_chat_templates" / "rag.jinja"
    other.parent.mkdir()
    other.write_text(f"the {rag}")
    assert rendered({}, documents=documents) == "the A"


def test_special_tokens_of_the_model_are_variables() -> None:
    assert render("{{ bos_token }}{{ eos_token }}{{ unknown_token }}", "") == "<|begin_of_text|><|eot_id|>"
