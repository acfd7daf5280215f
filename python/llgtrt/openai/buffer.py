"""Text that arrives in chunks, for parsers that are generators: they yield None where they need more."""

from __future__ import annotations

from collections.abc import Sequence

from llgtrt.openai.pieces import Steps

SPACE = " \t\n\r"
"""White space around the parts of an answer, which is in none of them."""


class Buffer:
    """What has come and was not read yet."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        """No more comes."""
        self.cut = False
        """The text was ended, and not by the model."""
        self.short = False
        """It ended in the middle of a mark."""
        self._read: str | None = None
        """What was read since `keep`, if that is to be put back perhaps."""

    def take(self, size: int | None = None) -> str:
        """Reads so many characters, or all."""
        size = len(self.text) if size is None else size
        taken, self.text = self.text[:size], self.text[size:]
        if self._read is not None:
            self._read += taken
        return taken

    def keep(self) -> None:
        """What is read from here on may be put back."""
        self._read = ""

    def release(self, put_back: bool) -> None:
        """Puts back what was read since `keep`, or forgets it."""
        self.text = (self._read or "") + self.text if put_back else self.text
        self._read = None

    def one_of(self, marks: Sequence[str]) -> Steps[str | None]:
        """Reads the longest of some marks that comes next and returns it; None where none does.

        White space before and within a mark does not count. Of that at its end no more is read than it has.
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
        """Reads this white space, as far as it is there."""
        while len(self.text) < len(expected) and expected.startswith(self.text) and not self.ended:
            yield None
        size = next((n for n in range(len(expected), 0, -1) if self.text.startswith(expected[:n])), 0)
        return self.take(size)

    def run(self, characters: str) -> Steps[str]:
        """Reads a run of characters that are among these, or are letters or digits."""
        size = 0
        while True:
            while size < len(self.text) and (self.text[size].isalnum() or self.text[size] in characters):
                size += 1
            if size < len(self.text) or self.ended:
                return self.take(size)
            yield None


_OTHER, _SHORT = -1, -2


def _fit(text: str, mark: str) -> int:
    """How many characters of the text a mark without white space takes.

    `_OTHER` where the text is another, and `_SHORT` where it ends before the mark does.
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
