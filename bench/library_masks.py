"""Masks of a batch through Python packages, in turns: `llgtrt.grammar`, XGrammar and llguidance.

For `bench/run library`, in an environment that has xgrammar, llguidance and transformers. The arguments are a
tokenizer.json, its end token, a file with a line of JSON for each schema (MaskBench's sample), rows and
rounds. Prints a line of JSON for each engine and round.
"""

# ruff: noqa: D102 -- what the methods do is said where they are abstract
from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np


class Engine(ABC):
    """Follows a batch of texts."""

    name: str

    def __init__(self) -> None:
        self.compiling: list[float] = []
        """Seconds of each schema."""

    @abstractmethod
    def compile(self, schema: dict[str, Any]) -> Any:
        """A compiled schema; raises where it is refused."""

    @abstractmethod
    def begin(self, compiled: list[Any]) -> None:
        """Begins a text for each."""

    @abstractmethod
    def fill(self, rows: list[int]) -> None:
        """Fills the rows of these texts."""

    @abstractmethod
    def accept(self, text: int, token: int) -> bool:
        """Takes a token of a text."""


class Llgtrt(Engine):
    """`llgtrt.grammar`; `budget`: with the most tokens that an answer may have."""

    def __init__(self, tokenizer: Path, end: int, rows: int, budget: int | None) -> None:
        from llgtrt import grammar

        super().__init__()
        self.name = "llgtrt.grammar" if budget is None else f"the same, max_tokens {budget}"
        self.budget, self.grammar = budget, grammar
        self.vocabulary = grammar.Vocabulary.from_huggingface(tokenizer, [end])
        self.mask = np.zeros((rows, (self.vocabulary.size + 31) // 32), dtype=np.int32)

    def compile(self, schema: dict[str, Any]) -> Any:
        return self.vocabulary.compile_json_schema(schema)

    def begin(self, compiled: list[Any]) -> None:
        self.texts = [grammar.matcher(self.budget) for grammar in compiled]

    def fill(self, rows: list[int]) -> None:
        self.grammar.fill_bitmasks([self.texts[row] for row in rows], self.mask, rows)

    def accept(self, text: int, token: int) -> bool:
        return bool(self.texts[text].accept([token]))


class XGrammar(Engine):
    """Its matcher of batches, on as many threads as it takes."""

    def __init__(self, tokenizer: Path, end: int, rows: int) -> None:
        import xgrammar
        from transformers import PreTrainedTokenizerFast

        super().__init__()
        self.name = "XGrammar"
        fast = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer))
        info = xgrammar.TokenizerInfo.from_huggingface(fast, stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=2)
        self.matcher, self.batch = xgrammar.GrammarMatcher, xgrammar.BatchGrammarMatcher()
        self.mask = xgrammar.allocate_token_bitmask(rows, info.vocab_size)

    def compile(self, schema: dict[str, Any]) -> Any:
        return self.compiler.compile_json_schema(json.dumps(schema))

    def begin(self, compiled: list[Any]) -> None:
        self.texts = [self.matcher(grammar) for grammar in compiled]

    def fill(self, rows: list[int]) -> None:
        self.batch.batch_fill_next_token_bitmask([self.texts[row] for row in rows], self.mask, rows)

    def accept(self, text: int, token: int) -> bool:
        return bool(self.texts[text].accept_token(token))


class Llguidance(Engine):
    """Its parallel filling."""

    def __init__(self, tokenizer: Path, end: int, rows: int) -> None:
        import llguidance
        import llguidance.numpy as arrays

        super().__init__()
        self.name = "llguidance"
        self.library, self.arrays = llguidance, arrays
        self.tokenizer = llguidance.LLTokenizer(tokenizer.read_text(), eos_token=end)
        self.executor = llguidance.LLExecutor()
        self.mask = arrays.allocate_token_bitmask(rows, self.tokenizer.vocab_size)

    def compile(self, schema: dict[str, Any]) -> Any:
        matcher = self.library.LLMatcher(self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, compiled: list[Any]) -> None:
        self.texts = [matcher.deep_copy() for matcher in compiled]

    def fill(self, rows: list[int]) -> None:
        self.arrays.fill_next_token_bitmask_par(
            self.executor, [(self.texts[row], row) for row in rows], self.mask
        )

    def accept(self, text: int, token: int) -> bool:
        return bool(self.texts[text].consume_token(token))


def timed(engine: Engine, schema: dict[str, Any]) -> Any:
    """The compiled schema; notes what that took."""
    begun = time.perf_counter()
    compiled = engine.compile(schema)
    engine.compiling.append(time.perf_counter() - begun)
    return compiled


def chosen(
    engines: list[Engine], lines: list[str], rows: int, encode: Any
) -> list[tuple[list[int], list[Any]]]:
    """Texts that all engines take to their end, and the schema as each has compiled it."""
    found: list[tuple[list[int], list[Any]]] = []
    for line in lines:
        case = json.loads(line)
        valid = [test["data"] for test in case["tests"] if test["valid"]]
        if not valid:
            continue
        tokens = encode(json.dumps(valid[0], ensure_ascii=False, separators=(", ", ": ")))
        try:
            compiled = [timed(engine, case["schema"]) for engine in engines]
            for engine, one in zip(engines, compiled, strict=True):
                engine.begin([one])
                if not all(engine.accept(0, token) for token in tokens):
                    break
            else:
                found.append((tokens, compiled))
        except Exception:  # each engine has its own
            continue
        if len(found) == rows:
            break
    return found


def walk(engine: Engine, compiled: list[Any], texts: list[list[int]]) -> list[float]:
    """Seconds for the rows of each step."""
    engine.begin(compiled)
    times = []
    for step in range(max(map(len, texts))):
        rows = [row for row, text in enumerate(texts) if step < len(text)]
        begun = time.perf_counter()
        engine.fill(rows)
        times.append((time.perf_counter() - begun) / len(rows))
        for row in rows:
            engine.accept(row, texts[row][step])
    return times


def main(tokenizer: Path, end: int, lines: list[str], rows: int, rounds: int) -> None:
    """Walks all texts with each engine in turn, several times, and prints what a row took."""
    own = Llgtrt(tokenizer, end, rows, None)
    engines = [
        own,
        Llgtrt(tokenizer, end, rows, 2000),
        XGrammar(tokenizer, end, rows),
        Llguidance(tokenizer, end, rows),
    ]
    found = chosen(engines, lines, rows, own.vocabulary.encode)
    texts = [tokens for tokens, _ in found]
    tokens = sum(map(len, texts))
    for round_ in range(rounds):
        for number, engine in enumerate(engines):
            times = walk(engine, [compiled[number] for _, compiled in found], texts)
            told = {"engine": engine.name, "round": round_, "rows": len(found), "tokens": tokens}
            steps = np.array(times) * 1e6
            told |= {
                "mean_us": float(steps.mean()),
                "p50_us": float(np.median(steps)),
                "max_us": float(steps.max()),
                "compile_ms": float(np.mean(engine.compiling)) * 1e3,
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    path, stop, sample, width, count = sys.argv[1:]
    main(Path(path), int(stop), Path(sample).read_text().splitlines(), int(width), int(count))
