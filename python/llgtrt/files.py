"""Reads the lines of files for commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llgtrt.settings import StartError


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, and their numbers from 1.

    Raises:
        StartError: it cannot be read.
    """
    try:
        with file.open("rb") as source:
            yield from ((number, line) for number, line in enumerate(source, 1) if line.strip())
    except OSError as e:
        raise StartError(f"{file}: cannot be read ({e.strerror}); check the path") from e
