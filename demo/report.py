"""Measures the shipped pair on the unseen half: `python -m demo.report --count 200`.

Names, field names, templates and requests of that half were never trained on. Where a request has a schema,
answers are greedy under llguidance's mask for it, as OpenAI's strict mode wants schemas (every field
required, no others); else plain greedy. A token is unforced where more than one is allowed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import llguidance.numpy as masks
import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tqdm import tqdm

from demo.corpus import Turn, Writer, strict
from demo.infer import Model, Session
from demo.tokenizer import END

MOST = 160
MADE_UP = 0.3
"""Share of names and words that are random syllables."""
WHITESPACE = r"\n {0,40}| "
"""As the server has it (`rust/src/grammar/schema`)."""


@dataclass
class Pair:
    """The shipped models with their tokenizer."""

    target: Model
    draft: Model
    tokenizer: Tokenizer
    guide: Any
    end: int

    @classmethod
    def load(cls, folder: Path) -> Pair:
        """Read `folder/target` and `folder/draft`."""
        text = (folder / "target" / "tokenizer.json").read_text()
        tokenizer = Tokenizer.from_str(text)
        end = tokenizer.token_to_id(END)
        guide = LLTokenizer(text, eos_token=end)
        return cls(
            Model(folder / "target" / "model.gguf"),
            Model(folder / "draft" / "model.gguf"),
            tokenizer,
            guide,
            end,
        )


@dataclass
class Result:
    """One answer: its text, its unforced tokens, and in how many of them the draft agreed."""

    text: str
    unforced: int
    agreed: int


class Mask:
    """What may come next: everything, or what a schema allows."""

    def __init__(self, pair: Pair, schema: dict[str, Any] | None) -> None:
        """Compile `schema`; raises `ValueError` if llguidance refuses it."""
        self.matcher: Any = None
        if schema is not None:
            grammar = LLMatcher.grammar_from_json_schema(
                json.dumps(strict(schema)), defaults={"whitespace_pattern": WHITESPACE}
            )
            self.matcher = LLMatcher(pair.guide, grammar)
            if self.matcher.is_error():
                raise ValueError(self.matcher.get_error())
            self.bits = masks.allocate_token_bitmask(1, pair.guide.vocab_size)

    def allowed(self, size: int) -> NDArray[np.bool_]:
        """`[size]`, true where a token may come next."""
        if self.matcher is None:
            return np.ones(size, bool)
        masks.fill_next_token_bitmask(self.matcher, self.bits, 0)
        return np.unpackbits(self.bits[0].view(np.uint8), bitorder="little")[:size].astype(bool)

    def advance(self, token: int) -> None:
        """Take `token` as the next one."""
        if self.matcher is not None:
            self.matcher.consume_token(token)


def answer(pair: Pair, prompt: str, schema: dict[str, Any] | None) -> Result:
    """Answer greedily with the target, and compare the draft's choice at each unforced token."""
    target, draft, mask = Session(pair.target), Session(pair.draft), Mask(pair, schema)
    tokens = pair.tokenizer.encode(prompt).ids
    said: list[int] = []
    unforced = agreed = 0
    while len(said) < MOST:
        rows = [session.read(tokens)[-1] for session in (target, draft)]
        allowed = mask.allowed(len(rows[0]))
        best, guess = (int(np.where(allowed, row, -np.inf).argmax()) for row in rows)
        if allowed.sum() > 1:
            unforced += 1
            agreed += best == guess
        if best == pair.end:
            break
        said.append(best)
        mask.advance(best)
        tokens = [best]
    return Result(pair.tokenizer.decode(said), unforced, agreed)


def right(turn: Turn, said: str) -> bool:
    """Whether the answer is exactly the wanted one: equal JSON values with a schema, else equal text."""
    if turn.schema is None:
        return said.strip() == turn.text
    try:
        return bool(json.loads(said) == json.loads(turn.text))
    except json.JSONDecodeError:
        return False


def measure(pair: Pair, kind: str, args: argparse.Namespace) -> dict[str, float]:
    """Exact matches and agreement over `args.count` first turns of one kind."""
    count, unseen = args.count, not args.seen
    writer = Writer(Random(f"{args.seed}-{kind}"), unseen, MADE_UP)
    totals: Counter[str] = Counter()
    for _ in tqdm(range(count), desc=kind, mininterval=10.0):
        while True:
            talk = writer.conversation(only=kind, most=1)
            if talk.turns[0].kind == kind:
                break
        turn = talk.turns[0]
        result = answer(pair, talk.prompt(), turn.schema)
        wanted = {} if turn.schema is None else json.loads(turn.text)
        got = _lenient(result.text)
        exact = right(turn, result.text)
        if args.wrong and not exact:
            print(f"{turn.request}\n  wanted {turn.text}\n  said   {result.text}\n", flush=True)
        totals["exact"] += exact
        totals["values"] += len(wanted)
        totals["values right"] += sum(got.get(key) == value for key, value in wanted.items()) if wanted else 0
        totals["unforced"] += result.unforced
        totals["agreed"] += result.agreed
    return {
        "count": count,
        "exact": totals["exact"] / count,
        "values": totals["values right"] / max(1, totals["values"]),
        "agreement": totals["agreed"] / max(1, totals["unforced"]),
        "unforced": totals["unforced"],
    }


def _lenient(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def main() -> None:
    """Print one row per task as a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument(
        "--seen", action="store_true", help="the half that was trained on, other conversations"
    )
    parser.add_argument("--wrong", action="store_true", help="show each answer that is not right")
    parser.add_argument("--kinds", default="flat,nested,classify,ask,yes-no")
    args = parser.parse_args()
    pair = Pair.load(args.folder)
    print("| task | prompts | exact match | values right | draft agrees, unforced tokens |")
    print("|---|---|---|---|---|")
    for kind in args.kinds.split(","):
        got = measure(pair, kind, args)
        values = f"{got['values']:.1%}" if got["values"] else ""
        share = f"{got['agreement']:.1%} of {got['unforced']:,.0f}"
        print(f"| {kind} | {got['count']:.0f} | {got['exact']:.1%} | {values} | {share} |", flush=True)


if __name__ == "__main__":
    main()
