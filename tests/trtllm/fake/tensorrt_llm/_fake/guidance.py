"""Constraints of the LLM API, by the package `llguidance`, as the real backend of that name has it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from tensorrt_llm._fake.model import END, WIDTH
from tensorrt_llm._fake.sampling_params import GuidedDecodingParams


@functools.cache
def _tokenizer(file: Path) -> Any:
    import llguidance

    # The real backend takes one token that ends an answer.
    return llguidance.LLTokenizer(str(file), n_vocab=WIDTH, eos_token=END[0])


class Guide:
    """One request's place in its constraint."""

    def __init__(self, file: Path, params: GuidedDecodingParams) -> None:
        """`file`: the tokenizer's.

        Raises:
            ValueError: the constraint cannot be enforced.
        """
        from llguidance import LLMatcher

        kind, value = params.chosen()
        if kind == "structural_tag":
            raise ValueError("llguidance does not support structural tags")
        if kind == "json" or kind == "json_object":
            schema = '{"type": "object"}' if kind == "json_object" else value
            text = schema if isinstance(schema, str) else json.dumps(schema)
            grammar = LLMatcher.grammar_from_json_schema(text)
        elif kind == "regex":
            grammar = LLMatcher.grammar_from_regex(value)
        else:
            grammar = LLMatcher.grammar_from_lark(value)
        self._matcher, self._taken = LLMatcher(_tokenizer(file), grammar), 0
        if self._matcher.is_error():
            raise ValueError(f"the grammar cannot be used: {self._matcher.get_error()}")

    def allowed(self, answer: list[int]) -> Any:
        """Which tokens may follow, `[vocabulary]` of bool."""
        for token in answer[self._taken :]:
            self._matcher.consume_token(token)
        self._taken = len(answer)
        if self._matcher.is_stopped():
            return np.isin(np.arange(WIDTH), END[:1])
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, bitorder="little")[:WIDTH].astype(bool)
