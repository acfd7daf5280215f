"""Batches: conversations as ids, packed into rows; and the repetition that training begins with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from demo.calls import Caller
from demo.corpus import Conversation, Writer

Ints: TypeAlias = NDArray[np.int32]
Ids: TypeAlias = tuple[list[int], list[bool]]
TURNS = 8
"""Most turns of a conversation that is trained on: the more, the more answers to learn from in a text."""
LOSS_SHARE = 0.25
CALLS = 0.28
"""Share of conversations with functions or reasoning."""
HARD = 0.4
"""Share of facts that are made easy to confuse, see `Writer`. Where it is measured there are none."""


@dataclass(frozen=True)
class Batch:
    """What one step learns from.

    `tokens` and `segments` are `[rows, time]`. `index`, `labels` and `weight` are `[picks]`: flat positions
    whose next id counts, that id, and 1 (0 where there are fewer than `picks`).
    """

    tokens: Ints
    segments: Ints
    index: Ints
    labels: Ints
    weight: NDArray[np.float32]

    def arrays(self) -> tuple[Any, ...]:
        """The fields in their order, for compiled functions."""
        return self.tokens, self.segments, self.index, self.labels, self.weight


def encode(tokenizer: Tokenizer, talk: Conversation) -> Ids:
    """Ids of a conversation, and which of them count for the loss: those that begin in a span marked so."""
    spans = list(talk.spans())
    ends = list(accumulate(len(text) for text, _ in spans))
    encoding = tokenizer.encode("".join(text for text, _ in spans))
    trained, at = [], 0
    for start, _ in encoding.offsets:
        while start >= ends[at]:
            at += 1
        trained.append(spans[at][1])
    return encoding.ids, trained


def repetition(rng: Random, size: int, vocab: int) -> Ids:
    """Random ids, then the same ids again, from which a reader learns to copy."""
    once = [rng.randrange(4, vocab) for _ in range(rng.randint(10, min(60, size // 2)))]
    return once + once, [False] * (len(once) + 1) + [True] * (len(once) - 1)


def long_list(tokenizer: Tokenizer, writer: Writer, size: int) -> Ids:
    """Many conversations one after the other as a single one of about `size` ids, for long contexts."""
    ids: list[int] = []
    trained: list[bool] = []
    while True:
        more, counts = encode(tokenizer, writer.conversation(most=2))
        if len(ids) + len(more) > size:
            return ids, trained
        ids += more
        trained += counts


class Packer:
    """Fills rows with whole conversations, first fit; those that are too long are dropped."""

    def __init__(self, tokenizer: Tokenizer, seed: int, vocab: int, unseen: bool = False) -> None:
        """Pack what the half that is trained on, or the other, yields for `seed`."""
        self.tokenizer = tokenizer
        self.vocab = vocab
        self.rng = Random(seed)
        pieces = tuple(sorted(text for text in tokenizer.get_vocab() if text.isascii() and text.isalpha()))
        self.writer = Writer(self.rng, unseen, hard=0.0 if unseen else HARD, pieces=pieces)
        self.caller = Caller(self.writer)
        self.waiting: list[Ids] = []

    def source(self, repeats: float, size: int) -> Ids:
        """One conversation, or with probability `repeats` plain repetition."""
        if self.rng.random() < repeats:
            return repetition(self.rng, size, self.vocab)
        if self.rng.random() < CALLS:
            return encode(self.tokenizer, self.caller.conversation())
        return encode(self.tokenizer, self.writer.conversation(most=TURNS, more=0.85))

    def row(self, size: int, repeats: float) -> list[Ids]:
        """Conversations that fit one row, the waiting ones first."""
        row: list[Ids] = []
        room, misses = size, 0
        for item in list(self.waiting):
            if len(item[0]) <= room:
                self.waiting.remove(item)
                row.append(item)
                room -= len(item[0])
        while misses < 3 and room > 40:
            item = self.source(repeats, size)
            if len(item[0]) <= room:
                row.append(item)
                room -= len(item[0])
            else:
                misses += 1
                if len(item[0]) <= size and len(self.waiting) < 64:
                    self.waiting.append(item)
        return row

    def batch(self, rows: int, time: int, repeats: float = 0.0) -> Batch:
        """Pack a batch of rows; rows of more than 1,024 ids are one long conversation each."""
        tokens, segments = np.zeros((rows, time), np.int32), np.zeros((rows, time), np.int32)
        counts = np.zeros((rows, time), bool)
        for r in range(rows):
            items = [long_list(self.tokenizer, self.writer, time)] if time > 1024 else self.row(time, repeats)
            at = 0
            for number, (ids, trained) in enumerate(items, 1):
                tokens[r, at : at + len(ids)] = ids
                segments[r, at : at + len(ids)] = number
                counts[r, at : at + len(ids)] = trained
                at += len(ids)
        picks = int(rows * time * LOSS_SHARE) // 64 * 64
        chosen = np.flatnonzero(counts.reshape(-1))
        if len(chosen) > picks:
            chosen = np.array(sorted(self.rng.sample(list(chosen), picks)))
        index, labels, weight = (
            np.zeros(picks, np.int32),
            np.zeros(picks, np.int32),
            np.zeros(picks, np.float32),
        )
        index[: len(chosen)] = chosen - 1
        labels[: len(chosen)] = tokens.reshape(-1)[chosen]
        weight[: len(chosen)] = 1.0
        return Batch(tokens, segments, index, labels, weight)
