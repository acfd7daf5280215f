"""Which of an answer's tokens are its content."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Callable, Sequence

from llgtrt.engine import Logprob
from llgtrt.openai.parse import Grammar, Parser
from llgtrt.openai.pieces import Call, Content, Piece


class Scores:
    """Which tokens are texts of messages, where there may be reasoning and calls among them.

    Tokens are read one after the other by a parser of their own: those that it has held back are of the text
    that comes of them.
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
        """Takes further tokens."""
        for logprob in logprobs:
            written, special = self._lookup(logprob[0])
            # Special tokens are a part of the text where they belong to marks.
            is_text = not special or written.decode("utf-8", "replace") in self._marks
            text = self._decoder.decode(written if is_text else b"")
            self._held.append((text, logprob))
            self._settle(self._parser.feed(text))

    def finish(self) -> None:
        """There are no more."""
        self._settle(self._parser.finish())

    def taken(self, calls: int) -> list[Logprob]:
        """Those of the text behind so many calls that were not taken yet."""
        return self._of.pop(calls, [])

    def settled(self) -> list[Logprob]:
        """Those of all texts that were not taken yet."""
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
        """The held tokens that have some of this text in them."""
        begin = "".join(written for written, _ in self._held).rfind(text)
        if begin < 0:
            return [self._held[-1][1]] if self._held else []
        end, at, found = begin + len(text), 0, []
        for written, logprob in self._held:
            # The parts of a character that are not its last have no text of their own.
            if begin <= at < end or at < begin < at + len(written):
                found.append(logprob)
            at += len(written)
        return found
