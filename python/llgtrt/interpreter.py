"""The command line that starts Python again."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def command(module: str) -> list[str]:
    """The command line that runs a module in this Python, which finds what this process finds, and no more.

    `-m` would look into the working folder first. Python 3.10 has no flag against that.
    """
    flags = ["-I"] if sys.flags.isolated else []
    if not flags and sys.version_info >= (3, 11) and not _looks_here():
        flags = ["-P"]
    return [sys.executable, *flags, "-m", module]


def _looks_here() -> bool:
    """Whether this process finds modules in the working folder."""
    with contextlib.suppress(FileNotFoundError):
        return not {"", str(Path.cwd())}.isdisjoint(sys.path)
    return False
