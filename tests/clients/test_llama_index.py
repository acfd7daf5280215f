"""LlamaIndex's class for servers of OpenAI's API."""

from __future__ import annotations

from typing import Any

import pytest

from .asks import EXTRACT, ORDER, TOLD, WEATHER, Order, get_weather
from .recorder import Recorder

like: Any = pytest.importorskip("llama_index.llms.openai_like")
llms: Any = pytest.importorskip("llama_index.core.llms")
prompts: Any = pytest.importorskip("llama_index.core.prompts")
tools: Any = pytest.importorskip("llama_index.core.tools")

CHAT = {"is_chat_model": True, "is_function_calling_model": True}
NATIVE = {"is_chat_model": True, "should_use_structured_outputs": True}
RAW = f"<|im_start|>user\n{EXTRACT}<|im_end|>\n<|im_start|>assistant\n"


def model(demo: Recorder, **settings: Any) -> Any:
    return like.OpenAILike(
        model="demo", api_base=demo.url + "/v1", api_key="none", max_retries=0, temperature=0, max_tokens=200,
        context_window=4096, **settings,
    )  # fmt: skip


@pytest.mark.parametrize(("settings", "text"), [(CHAT, EXTRACT), ({}, RAW)])
def test_texts_whole_and_streamed(demo: Recorder, settings: dict[str, Any], text: str) -> None:
    made = model(demo, **settings)
    whole = made.complete(text).text
    assert "".join(part.delta for part in made.stream_complete(text)) == whole
    page = "/v1/chat/completions" if settings else "/v1/completions"
    assert len(demo.on(page)) == 2
    assert "Tom Weber" in whole


def test_chats_whole_and_streamed(demo: Recorder) -> None:
    talk = [llms.ChatMessage(role="user", content=EXTRACT)]
    whole = model(demo, **CHAT).chat(talk).message.content
    assert "Tom Weber" in whole
    assert "".join(part.delta or "" for part in model(demo, **CHAT).stream_chat(talk)) == whole


@pytest.mark.parametrize("settings", [CHAT, NATIVE])
def test_structured_output(demo: Recorder, settings: dict[str, Any]) -> None:
    made = model(demo, **settings)
    assert made.structured_predict(Order, prompts.PromptTemplate("{text}"), text=EXTRACT) == ORDER
    bound = made.as_structured_llm(Order)
    assert bound.chat([llms.ChatMessage(role="user", content=EXTRACT)]).raw == ORDER
    assert Order.model_validate_json(bound.complete(EXTRACT).text) == ORDER


def test_structured_output_is_streamed(demo: Recorder) -> None:
    parts = (
        model(demo, **NATIVE)
        .as_structured_llm(Order)
        .stream_chat([llms.ChatMessage(role="user", content=EXTRACT)])
    )
    assert [part.raw for part in parts][-1] == ORDER


def test_functions(demo: Recorder) -> None:
    made, tool = model(demo, **CHAT), tools.FunctionTool.from_defaults(get_weather)
    assert made.predict_and_call([tool], user_msg=WEATHER).sources[0].raw_output == '{"weather": 17}'
    talk = [llms.ChatMessage(role="user", content=WEATHER)]
    answer = made.chat_with_tools([tool], chat_history=talk)
    (call,) = made.get_tool_calls_from_response(answer)
    assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Rome"})
    result = llms.ChatMessage(
        role="tool", content='{"weather": 17}', additional_kwargs={"tool_call_id": call.tool_id}
    )
    assert made.chat_with_tools([tool], chat_history=[*talk, answer.message, result]).message.content == TOLD
