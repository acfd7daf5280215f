"""Text that arrives in chunks, for parsers that are generators. They yield None if they need more of it."""

from __future__ import annotations

from collections.abc import Sequence

from llgtrt.openai.pieces import Steps

SPACE = " \t\n\r"
"""White space around the parts of an answer, which is in none of them."""


class Buffer:
    """The text that has arrived and is not read yet."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        """No more text arrives."""
        self.cut = False
        """The model was stopped before it ended its answer."""
        self.short = False
        """The text ended in the middle of a mark."""
        self._read: str | None = None
        """The text read since `keep`; None if nothing is kept."""

    def take(self, size: int | None = None) -> str:
        """Reads `size` characters, or all."""
        size = len(self.text) if size is None else size
        taken, self.text = self.text[:size], self.text[size:]
        if self._read is not None:
            self._read += taken
        return taken

    def keep(self) -> None:
        """Keeps what is read from here on, so that `release` can put it back."""
        self._read = ""

    def release(self, put_back: bool) -> None:
        """Puts back what was read since `keep`, or forgets it."""
        self.text = (self._read or "") + self.text if put_back else self.text
        self._read = None

    def one_of(self, marks: Sequence[str]) -> Steps[str | None]:
        """Reads the longest of the marks that comes next, and returns it; None if none of them comes.

        White space before and within a mark is ignored. After a mark, only its own white space is read.
        """
        bare = {"".join(mark.split()): mark for mark in marks}
        while True:
            fits = {mark: _fit(self.text, mark) for mark in bare}
            longer = any(size == _SHORT for size in fits.values())
            if not longer or self.ended:
                break
            yield None
        found = max((mark for mark, size in fits.items() if size >= 0), key=len, default=None)
        self.short = longer
        if found is None or longer:
            return None
        mark = bare[found]
        # An empty mark takes no white space, which another may begin with.
        if found:
            self.take(fits[found])
            yield from self.space(mark[len(mark.rstrip(SPACE)) :])
        return mark

    def space(self, expected: str) -> Steps[str]:
        """Reads the longest beginning of `expected` that comes next."""
        while len(self.text) < len(expected) and expected.startswith(self.text) and not self.ended:
            yield None
        size = next((n for n in range(len(expected), 0, -1) if self.text.startswith(expected[:n])), 0)
        return self.take(size)

    def run(self, characters: str) -> Steps[str]:
        """Reads letters, digits and the given characters, up to the first other one."""
        size = 0
        while True:
            while size < len(self.text) and (self.text[size].isalnum() or self.text[size] in characters):
                size += 1
            if size < len(self.text) or self.ended:
                return self.take(size)
            yield None


_OTHER, _SHORT = -1, -2


def _fit(text: str, mark: str) -> int:
    """The number of characters at the beginning of the text that a mark without white space takes.

    `_OTHER` if the text begins differently, and `_SHORT` if it ends before the mark does.
    """
    at = 0
    for c in mark:
        while text[at : at + 1].isspace():
            at += 1
        if at == len(text):
            return _SHORT
        if text[at] != c:
            return _OTHER
        at += 1
    return at


def overlap(text: str, mark: str) -> int:
    """The length of the longest end of `text` that is a beginning of `mark`, but not all of it."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)
