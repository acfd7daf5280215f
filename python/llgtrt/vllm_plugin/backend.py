"""The back end: vLLM's interfaces of structured outputs, on llgtrt's grammars."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from llgtrt import grammar
from llgtrt.vllm_plugin import SETTINGS, SPEC, logger, vocabulary

if TYPE_CHECKING:
    import torch


class Backend(StructuredOutputBackend):
    """Compiles the constraints of an engine's requests."""

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        """Reads the vocabulary; `vocab_size`: the width of the logits."""
        super().__init__(vllm_config, tokenizer, vocab_size)
        self.drafting = False
        """Whether tokens that are accepted now are drafts, which vLLM takes back."""
        settings = vllm_config.additional_config.get(SETTINGS)
        self._vocabulary = vocabulary.of(vllm_config.model_config, tokenizer, settings)

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: Collection[int] | None = None,
        style: Mapping[str, str] | None = None,
    ) -> Grammar:
        """The constraint of a request; without a bound on its tokens until `Grammar.bind`.

        Args:
            request_type: the kind of the constraint.
            grammar_spec: its text.
            stop_token_ids: tokens that end the answer. The model's own end tokens are always among them.
            style: how JSON is written, of `style_of`.

        Raises:
            grammar.GrammarError: the constraint is not valid, or cannot be enforced.
        """
        compiled = compile_constraint(self._vocabulary, request_type.name, grammar_spec, style or {})
        extra = sorted(set(stop_token_ids or ()).difference(self._vocabulary.eos))
        return Grammar(self, compiled, self._vocabulary.eos, extra)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Rows of one bit per token, `int32[max_num_seqs, ceil(vocab_size / 32)]`, that allow everything."""
        import torch

        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Nothing is held beyond the life of this object."""


def style_of(constraint: Any, config: Any) -> dict[str, str]:
    """How JSON is written, as far as a request or the engine's settings say it, for `compile_json_schema`."""

    def asked(name: str) -> bool:
        return bool(getattr(constraint, name, False) or getattr(config, name, False))

    style = {}
    if getattr(constraint, "whitespace_pattern", None) is not None:
        style["whitespace_pattern"] = constraint.whitespace_pattern
    elif asked("disable_any_whitespace"):
        style["whitespace"] = "compact"
    if asked("disable_additional_properties"):
        style["undeclared_keys"] = "never"
    return style


def compile_constraint(
    vocab: grammar.Vocabulary, kind: str, text: str, style: Mapping[str, str]
) -> grammar.Grammar:
    """Compiles one of vLLM's kinds of constraints, named as in its `StructuredOutputOptions`.

    Args:
        vocab: of the model.
        kind: the name.
        text: as vLLM hands it to a back end; a list in JSON for `CHOICE`, nothing for `JSON_OBJECT`.
        style: how JSON is written.

    Raises:
        grammar.GrammarError: the constraint is not valid, or cannot be enforced.
    """
    if kind == "JSON":
        return vocab.compile_json_schema(text, **style)
    if kind == "JSON_OBJECT":
        return vocab.compile_json_object(**style)
    if kind == "CHOICE":
        return vocab.compile_choice(json.loads(text))
    if kind == "GRAMMAR" and text.startswith(SPEC):
        return vocab.compile_spec(text.removeprefix(SPEC))
    if kind == "GRAMMAR":
        # vLLM tells the two apart in this way, too.
        return vocab.compile_ebnf(text) if "::=" in text else vocab.compile_lark(text)
    others: dict[str, Callable[[str], grammar.Grammar]] = {
        "REGEX": vocab.compile_regex,
        "STRUCTURAL_TAG": vocab.compile_structural_tag,
    }
    return others[kind](text)


class Grammar(StructuredOutputGrammar):
    """The constraint of one request, and how far its answer is.

    The matcher is made when the first token is due: with reasoning, only then it is known how many tokens are
    left for the answer. Until a token of the answer is accepted for good, it is made again when that number
    changes.
    """

    def __init__(
        self, backend: Backend, compiled: grammar.Grammar, eos: Iterable[int], extra: list[int]
    ) -> None:
        """`extra`: tokens beside `eos` that end the answer, where it may end, and stand nowhere else."""
        self._backend = backend
        self._compiled = compiled
        self._eos = list(eos)
        self._extra = extra
        self._ends = frozenset([*self._eos, *extra])
        self._left: Callable[[int], int | None] = lambda drafted: None
        self._matcher: grammar.Matcher | None = None
        self._budget: int | None = None
        self._accepted = 0
        self._ended = False
        self._broken = False

    def bind(self, left: Callable[[int], int | None]) -> None:
        """Bounds the answer, so that it is complete.

        Args:
            left: the number of tokens that are left for the answer, its end token included, given how many of
                the tokens that vLLM has counted already belong to the answer.
        """
        self._left = left

    @property
    def matcher(self) -> grammar.Matcher:
        """The matcher at the current place."""
        return self._at(0)

    def _at(self, counted: int) -> grammar.Matcher:
        """The matcher; `counted`: tokens of the answer that vLLM has counted, but that were not accepted."""
        if self._matcher is None or self._accepted == 0:
            budget = self._left(counted)
            if self._matcher is None or budget != self._budget:
                self._matcher, self._budget = bounded(self._compiled, budget), budget
        return self._matcher

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Goes on by `tokens`; ignores what follows an end token.

        Returns:
            Whether all of them are allowed. Where not, nothing has changed, and vLLM ends the request.
        """
        if self._ended or not tokens:
            return True
        if self._broken:
            return False
        asked, ends = self._up_to_end(tokens)
        try:
            accepted = self._at(0 if self._backend.drafting else len(tokens)).accept(asked)
        except ValueError as error:
            accepted = False
            self._break(error)
        if accepted:
            self._accepted += len(asked)
            self._ended = ends
        return accepted

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The first of `tokens` that are allowed; the place stays."""
        if self._ended or self._broken:
            return []
        try:
            return tokens[: self.matcher.validate(self._up_to_end(tokens)[0])]
        except ValueError as error:
            self._break(error)
            return []

    def _up_to_end(self, tokens: list[int]) -> tuple[list[int], bool]:
        """The tokens up to the first that ends the answer, and whether there is one.

        The grammar knows only the model's own end tokens; one stands for the request's.
        """
        for at, token in enumerate(tokens):
            if token in self._ends:
                return [*tokens[:at], token if token in self._eos else self._eos[0]], True
        return tokens, False

    def rollback(self, num_tokens: int) -> None:
        """Takes back the last tokens."""
        if num_tokens:
            self.matcher.rollback(num_tokens)
            self._accepted -= num_tokens
            self._ended = False

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Writes the allowed tokens into a row of `bitmask`, `int32[rows, words]`."""
        fill([(self, batch_index)], bitmask)

    def fill_alone(self, row: Any) -> None:
        """Writes the allowed tokens into `row`, `int32[words]`.

        Where the grammar fails, as at one of its limits, the row allows everything, and the next token ends
        the request with an error. An exception would end the engine.
        """
        if not self._broken:
            try:
                self.matcher.fill_bitmask(row)
            except ValueError as error:
                self._break(error)
        if self._broken:
            row[:] = -1

    def _break(self, error: ValueError) -> None:
        logger().error("llgtrt: a constraint cannot be followed any longer: %s", error)
        self._broken = True

    def end_elsewhere(self, row: Any) -> None:
        """Lets the request's own stop tokens stand in `row` where the answer may end, and nowhere else."""
        may_end = bool(self._extra) and any(_bit(row, token) for token in self._eos)
        for token in self._extra:
            bit = 1 << (token % 32)
            word = int(row[token // 32]) & 0xFFFFFFFF
            word = word | bit if may_end else word & ~bit
            row[token // 32] = word - (1 << 32) if word >= 1 << 31 else word

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self._ended

    def reset(self) -> None:
        """Goes back to the start."""
        self._matcher = None
        self._accepted = 0
        self._ended = self._broken = False


def bounded(compiled: grammar.Grammar, budget: int | None) -> grammar.Matcher:
    """A matcher whose answer and its end token are within `budget` tokens, or within the fewest there are."""
    if budget is None or compiled.min_tokens is None:
        return compiled.matcher()
    return compiled.matcher(max(budget - 1, compiled.min_tokens))


def fill(rows: list[tuple[Grammar, int]], bitmask: torch.Tensor) -> None:
    """Writes the allowed tokens of several requests, in parallel, into their rows of `int32[rows, words]`."""
    words = bitmask.numpy()
    try:
        grammar.fill_bitmasks([each.matcher for each, _ in rows], words, [row for _, row in rows])
    except ValueError:
        for each, row in rows:
            each.fill_alone(words[row])
    for each, row in rows:
        each.end_elsewhere(words[row])


def _bit(row: Any, token: int) -> bool:
    return bool((int(row[token // 32]) >> (token % 32)) & 1)
