"""Words in chat templates that identify formats of calls which cannot be learned."""

from __future__ import annotations

UNLEARNED = (
    ("<|channel|>analysis<|message|>", "gpt_oss"),  # reasoning, text and calls are channels
    ("<|tool_calls_section_begin|>", "kimi"),  # the names of functions are parts of ids
    ("<|tool_call>call:", "gemma"),  # neither arrays nor objects are JSON
    (">>>all", "functionary"),  # content is a call of `all`, and the prompt ends within the first mark
    ("open_tag('response')", "kimi_k3"),  # reasoning, content and calls are channels
    ("<atem:invoke", "muse"),  # each message has a recipient, and calls name it twice
    ("<|tool_call_start|>", "python"),  # templates do not escape quotes within strings
)
"""Signs of formats that are more than texts around names and arguments."""
UNKNOWN = (
    "]<]minimax[>[",  # MiniMax M3: objects and arrays are tags in tags
)
"""Signs of formats that are not supported."""
ABSENT = (
    # Some templates render no calls. Others render one call, although their models write several.
    ("<|/tool_call|>", "phi4"),
    ("<|tool_call|>", "granite"),
    ("functools[", "functools"),
    ("<｜tool▁calls▁begin｜>function", "deepseek"),
    ("<|python_tag|>", "llama3_json"),
    ("<|start_header_id|>", "llama3_json"),
    ("<|tool_list_start|>", "python"),
    ("List of tools: [", "python"),
    ("xml_tools", "hermes"),
    ("[ARGS]", "mistral_args"),
    ("[TOOL_CALLS]", "mistral"),
    ("<｜tool▁calls▁begin｜>", "deepseek"),
    ("<tool_call>", "hermes"),
)
"""Signs of formats that templates do not show. The first that is found counts."""
