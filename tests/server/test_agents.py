"""Conversations as agents send them, with the fields that they send besides."""

from __future__ import annotations

import json
from typing import Any

import httpx

from .serving import Server

SHELL: dict[str, Any] = {
    "type": "function",
    "name": "shell",
    "description": "Runs a shell command and returns its output.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "description": "The command"},
            "workdir": {"type": "string"},
            "timeout_ms": {"type": "number"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}
AGENTS: dict[str, Any] = {
    "type": "namespace",
    "name": "multi_agent_v1",
    "description": "Tools for agents.",
    "tools": [
        {
            "type": "function",
            "name": "close_agent",
            "description": "Closes an agent.",
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {"target": {"enum": ["a", "b"]}},
                "required": ["target"],
                "additionalProperties": False,
            },
        }
    ],
}
CODEX: dict[str, Any] = {
    "model": "toy",
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be careful."}]},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context></environment_context>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list the files"}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": None},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.txt\nb.txt"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "There are two.", "annotations": []}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
    ],
    "tools": [SHELL, {"type": "web_search", "external_web_access": False}, AGENTS],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "detailed"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0190",
    "text": {"verbosity": "low"},
    "client_metadata": {"x": "y"},
    "max_output_tokens": 30,
}
BASH: dict[str, Any] = {
    "name": "Bash",
    "description": "Executes a command.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command"],
        "additionalProperties": False,
    },
    "cache_control": {"type": "ephemeral"},
    "eager_input_streaming": True,
}
CLAUDE_CODE: dict[str, Any] = {
    "model": "toy",
    "max_tokens": 30,
    "stream": True,
    "temperature": 1,
    "metadata": {"user_id": "user_1"},
    "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>Today is Monday.</system-reminder>"},
                {"type": "text", "text": "list the files", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I run ls.", "signature": "x"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "a.txt"}],
                    "is_error": False,
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
        {"role": "system", "content": "Plan mode is off."},
    ],
    "tools": [BASH, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
}


def ignored(answer: httpx.Response) -> set[str]:
    """What the server says had no effect."""
    return set(filter(None, answer.headers.get("llgtrt-ignored", "").split(", ")))


def test_codex(toy: Server) -> None:
    answer = toy.http.post("/v1/responses", json=CODEX)
    assert answer.status_code == 200, answer.text
    expected = {"client_metadata", "text.verbosity", "reasoning.summary", "tools[1].web_search"}
    assert ignored(answer) == expected | {"reasoning_effort"}
    lines = [line for line in answer.text.split("\n") if line.startswith("data: {")]
    last = json.loads(lines[-1].removeprefix("data: "))
    assert last["type"] in ("response.completed", "response.incomplete")
    # Alone, a tool that nobody runs is refused.
    alone = toy.http.post("/v1/responses", json={**CODEX, "tools": CODEX["tools"][1:2]})
    assert (alone.status_code, alone.json()["error"]["param"]) == (400, "tools[0].type")


def test_codex_calls_its_tools(toy: Server) -> None:
    body = {**CODEX, "tool_choice": "required", "stream": False, "max_output_tokens": 900}
    called = set()
    for seed in range(20):
        answer = toy.http.post("/v1/responses", json={**body, "seed": seed}).json()
        (call,) = answer["output"]
        assert (call["type"], call["status"]) == ("function_call", "completed")
        called.add((call.get("namespace"), call["name"]))
        arguments = json.loads(call["arguments"])
        assert isinstance(arguments["command"], list) if "command" in arguments else arguments["target"]
        # The call goes back with its result.
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
        again = {**CODEX, "stream": False, "input": [*CODEX["input"], call, result], "max_output_tokens": 5}
        assert toy.http.post("/v1/responses", json=again).status_code == 200
    assert called == {(None, "shell"), ("multi_agent_v1", "close_agent")}
    assert answer["tools"][2]["tools"][0]["name"] == "close_agent"


def test_claude_code(toy: Server) -> None:
    answer = toy.http.post("/v1/messages?beta=true", json=CLAUDE_CODE)
    assert answer.status_code == 200, answer.text
    expected = {"context_management", "tools[1].web_search_20250305"}
    assert ignored(answer) == expected | {"reasoning_effort"}
    assert "event: message_stop" in answer.text
    thinking = {"type": "enabled", "budget_tokens": 1024}
    count = {key: CLAUDE_CODE[key] for key in ("model", "system", "messages", "tools")}
    assert toy.http.post("/v1/messages/count_tokens", json=count).json()["input_tokens"] > 50
    body = {**CLAUDE_CODE, "thinking": thinking, "max_tokens": 2000, "stream": False}
    other = toy.http.post("/v1/messages", json=body)
    assert other.status_code == 200
    assert {"enable_thinking", "thinking_budget"} <= ignored(other)


def test_what_chat_clients_add(toy: Server) -> None:
    body = {
        "model": "toy",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "max_completion_tokens": 10,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
        "verbosity": "low",
        "store": False,
        "metadata": {"a": "b"},
        "service_tier": "auto",
    }
    answer = toy.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert ignored(answer) == {"verbosity"}
