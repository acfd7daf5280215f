"""Random walks over masks of `llgtrt.grammar` under schemas from the field: two validators find none invalid.

`LLGTRT_JUDGED` says how many schemas, 1,215 at most. Without it there are some.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import numpy as np

from llgtrt.grammar import Grammar, GrammarError, Vocabulary

from .test_judges import JUDGES, find
from .walks import maskbench

TOKENIZER = Path(__file__).parents[2] / "demo" / "target"
BUDGETS = (40, 150)
"""Most tokens of an output. A schema whose outputs need more gets what it needs."""
CLOSING = b'"]}'


def draw(vocabulary: Vocabulary, grammar: Grammar, budget: int, dice: random.Random) -> str:
    """A whole output: text that closes now and then, and characters that are whole."""
    matcher = grammar.matcher(max(budget, grammar.min_tokens or 0))
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    while True:
        matcher.fill_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        texts = {token: vocabulary.token_bytes(token) for token in allowed}
        plain = [token for token, text in texts.items() if text.isascii() or token in vocabulary.eos]
        closing = [token for token, text in texts.items() if text[:1] in CLOSING]
        token = dice.choice(closing if closing and dice.random() < 0.3 else plain or allowed)
        assert matcher.accept([token])
        if matcher.is_terminated():
            assert len(matcher.tokens) <= max(budget, grammar.min_tokens or 0) + 1
            return b"".join(map(vocabulary.token_bytes, matcher.tokens[:-1])).decode()


def test_outputs_of_the_library_are_valid_and_complete() -> None:
    count = int(os.environ.get("LLGTRT_JUDGED", "60"))
    cases = random.Random(2).sample(maskbench(), min(count, 1_215))
    vocabulary = Vocabulary.from_huggingface(TOKENIZER, settings={"compile_seconds": 60})
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number, case in enumerate(cases):
        try:
            grammar = vocabulary.compile_json_schema(case.schema)
        except GrammarError:
            counts["refused"] += 1
            continue
        for budget in BUDGETS:
            try:
                case.texts.append(draw(vocabulary, grammar, budget, random.Random(number)))
                counts["outputs"] += 1
            except GrammarError as e:
                counts[f"broke off: {e.why:.60}"] += 1
        for kind in JUDGES:
            wrong += find(kind, case, counts)
    print(counts)
    assert wrong == []
    assert counts["refused"] * 100 <= len(cases) + 100
    assert counts["outputs"] >= 2 * (len(cases) - counts["refused"]) * 0.98
