"""Which of an answer's tokens are its content."""

from __future__ import annotations

from llgtrt.openai.known import FORMATS
from llgtrt.openai.parse import Grammar
from llgtrt.openai.scores import Scores

HERMES = Grammar(("<think>", "</think>"), True, FORMATS["hermes"], {"get": {}})


def test_log_probabilities_are_of_content_alone() -> None:
    tokens = [
        *(b"Hm", b"</think>", b"Let", b" me", b"<tool_call>", b'\n{"name": "get", "arguments": {}}', b"\n"),
        *(b"</tool_call>", b" Done"),
    ]
    special = {1, 4, 7}
    scores = Scores(HERMES, lambda token: (tokens[token], token in special))
    scores.feed([(token, -1.0, []) for token in range(len(tokens))])
    scores.finish()
    assert [entry[0] for entry in scores.settled()] == [2, 3, 8]
