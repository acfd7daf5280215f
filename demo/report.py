"""Measures the shipped pair on the unseen half: `python -m demo.report --count 200`.

Names, field names, templates and requests of that half were never trained on. Where a request has a schema,
answers are greedy under llguidance's mask for it, as OpenAI's strict mode wants schemas (every field
required, no others), behind the thought where there is one; calls are held to the functions from their mark
on; else plain greedy. A token is unforced where more than one is allowed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
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

from demo.calls import KINDS, Caller
from demo.corpus import Conversation, Turn, Writer, strict
from demo.infer import Model, Session
from demo.tokenizer import END

MOST = 240
MADE_UP = 0.3
"""Share of names and words that are random syllables."""
THOUGHT_ENDS, CALL_BEGINS = "</think>", "<tool_call>"
"""Where the server begins to enforce a schema, and calls."""
CALL = re.compile("<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
WHITESPACE = r"\n {0,40}| "
"""As the server has it (`rust/grammar/src/schema`)."""


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
    """What may come next: everything, or what a schema or the functions allow."""

    def __init__(self, pair: Pair, talk: Conversation) -> None:
        """Compile what holds for the last answer; raises `ValueError` if llguidance refuses it."""
        turn = talk.turns[-1]
        self.matcher: Any = None
        self.begins = "" if turn.thought is None else THOUGHT_ENDS
        """The text behind which it holds."""
        if turn.schema is not None:
            grammar = LLMatcher.grammar_from_json_schema(
                json.dumps(strict(turn.schema)), defaults={"whitespace_pattern": WHITESPACE}
            )
        elif talk.functions:
            grammar, self.begins = LLMatcher.grammar_from_lark(callable_as(talk.functions)), CALL_BEGINS
        else:
            return
        self.matcher = LLMatcher(pair.guide, grammar)
        if self.matcher.is_error():
            raise ValueError(self.matcher.get_error())
        self.bits = masks.allocate_token_bitmask(1, pair.guide.vocab_size)
        self.active = not self.begins

    def allowed(self, size: int) -> NDArray[np.bool_]:
        """`[size]`, true where a token may come next."""
        if self.matcher is None or not self.active:
            return np.ones(size, bool)
        masks.fill_next_token_bitmask(self.matcher, self.bits, 0)
        return np.unpackbits(self.bits[0].view(np.uint8), bitorder="little")[:size].astype(bool)

    def advance(self, token: int, said: str) -> None:
        """Take `token` as the next one, with which the text is `said`."""
        if self.matcher is not None and self.active:
            self.matcher.consume_token(token)
        elif self.matcher is not None:
            self.active = said.endswith(self.begins)


def callable_as(functions: Sequence[dict[str, Any]]) -> str:
    """Lark for calls of these functions, behind the mark of the first."""
    rules = [f'start: call ("\\n{CALL_BEGINS}" call)*', 'call: "\\n{\\"name\\": \\"" one "}\\n</tool_call>"']
    rules.append("one: " + " | ".join(f"f{i}" for i in range(len(functions))))
    for i, function in enumerate(functions):
        guidance = {"x-guidance": {"whitespace_pattern": WHITESPACE}}
        schema = json.dumps(strict(function["parameters"]) | guidance)
        rules += [f'f{i}: "{function["name"]}\\", \\"arguments\\": " a{i}', f"a{i}: %json {schema}"]
    return "\n".join(rules)


def answer(pair: Pair, talk: Conversation) -> Result:
    """Answer greedily with the target, and compare the draft's choice at each unforced token."""
    target, draft, mask = Session(pair.target), Session(pair.draft), Mask(pair, talk)
    tokens = pair.tokenizer.encode(talk.prompt(len(talk.turns) - 1)).ids
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
        mask.advance(best, pair.tokenizer.decode(said))
        tokens = [best]
    text = pair.tokenizer.decode(said)
    thinks = talk.turns[-1].thought is not None
    return Result(text.partition(THOUGHT_ENDS)[2] if thinks else text, unforced, agreed)


def right(turn: Turn, said: str) -> bool:
    """Whether the answer is the wanted one: equal JSON values with a schema or in calls, else equal text."""
    wanted = CALL.findall(turn.text)
    if wanted:
        if CALL.sub("", said).strip():
            return False
        return [_lenient(call) for call in CALL.findall(said)] == [json.loads(call) for call in wanted]
    if turn.schema is None:
        return said.strip() == turn.text
    try:
        return bool(json.loads(said) == json.loads(turn.text))
    except json.JSONDecodeError:
        return False


def conversation(writer: Writer, kind: str) -> Conversation:
    """Write one whose last turn is of this kind."""
    if kind in KINDS:
        return Caller(writer).conversation(kind)
    while True:
        talk = writer.conversation(only=kind, most=1)
        if talk.turns[0].kind == kind:
            return talk


def measure(pair: Pair, kind: str, args: argparse.Namespace) -> dict[str, float]:
    """Exact matches and agreement over `args.count` first turns of one kind."""
    count, unseen = args.count, not args.seen
    writer = Writer(Random(f"{args.seed}-{kind}"), unseen, MADE_UP)
    totals: Counter[str] = Counter()
    for _ in tqdm(range(count), desc=kind, mininterval=10.0):
        talk = conversation(writer, kind)
        turn = talk.turns[-1]
        result = answer(pair, talk)
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
    parser.add_argument("--kinds", default=",".join(("flat", "nested", "classify", "ask", "yes-no", *KINDS)))
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
