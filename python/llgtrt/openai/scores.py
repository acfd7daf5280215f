"""Finds the tokens of an answer that belong to its content."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Callable, Sequence

from llgtrt.engine import Logprob
from llgtrt.openai.parse import Grammar, Parser
from llgtrt.openai.pieces import Call, Content, Piece


class Scores:
    """Collects the log-probabilities of the content, without those of reasoning and calls.

    A parser of its own reads the tokens one by one. The tokens since its last piece belong to its next one.
    """

    def __init__(self, grammar: Grammar, lookup: Callable[[int], tuple[bytes, bool]]) -> None:
        """`lookup`: a token's bytes, and whether it is special."""
        self._parser = Parser(grammar)
        self._lookup = lookup
        self._marks = "\n".join(grammar.texts())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[tuple[str, Logprob]] = []
        self._of: defaultdict[int, list[Logprob]] = defaultdict(list)
        self._calls = 0

    def feed(self, logprobs: Sequence[Logprob]) -> None:
        """Reads further tokens."""
        for logprob in logprobs:
            written, special = self._lookup(logprob[0])
            # The text of a special token counts only if it is part of a mark.
            is_text = not special or written.decode("utf-8", "replace") in self._marks
            text = self._decoder.decode(written if is_text else b"")
            self._held.append((text, logprob))
            self._settle(self._parser.feed(text))

    def finish(self) -> None:
        """The answer has ended."""
        self._settle(self._parser.finish())

    def taken(self, calls: int) -> list[Logprob]:
        """Those of the content after this many calls, without those that were taken before."""
        return self._of.pop(calls, [])

    def settled(self) -> list[Logprob]:
        """All that were not taken before."""
        found = [logprob for of_text in self._of.values() for logprob in of_text]
        self._of.clear()
        return found

    def _settle(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Call):
                self._calls += 1
            elif isinstance(piece, Content):
                self._of[self._calls] += self._under(piece.text)
        if pieces:
            self._held = []

    def _under(self, text: str) -> list[Logprob]:
        """The held tokens whose text overlaps this one."""
        begin = "".join(written for written, _ in self._held).rfind(text)
        if begin < 0:
            return [self._held[-1][1]] if self._held else []
        end, at, found = begin + len(text), 0, []
        for written, logprob in self._held:
            # If several tokens make one character, only the last of them has text.
            if begin <= at < end or at < begin < at + len(written):
                found.append(logprob)
            at += len(written)
        return found
