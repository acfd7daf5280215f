"""Lints the documentation's prose with proselint, and with a list of words that readers do not know.

`python launch/prose.py [PAGE...]`, from the repository's root; all pages by default. Code, names in
backquotes and addresses are not prose.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from proselint.checks import __register__ as known
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, types
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
OFF = ("typography", "annotations", "lexical_illusions", "misc.phrasal_adjectives")
"""Checks of texts for print, and some that find nothing but false alarms in technical texts."""

GENERATED = ("architectures.md", "coverage-suite.md")

WORDS = {
    "told": "said, shown, described or passed",
    "obeys?": "follows",
    "hope[sd]?": "expects, or estimates",
    "doubt(?:s|ed)?": "counts less, or is uncertain",
    "nobody": "no client, no user",
    "anyhow": "in any case",
    "but for": "except",
    "in place of": "instead of",
    "goes? on": "continues",
    "as said above": "as described above",
    "what becomes? of": "name the thing",
    "asks? (?:nothing|anything) of": "restricts, or does not restrict",
    "(?:is|are) not there": "is missing, or does not exist",
    "behind the (?:text|answer|last|first|next|end)": "after",
    "whatever ended": "in any case",
    "which is what": "say it in two sentences",
    "so it is": "say it directly",
    "the more the": "say it directly",
}
"""The project's own words and turns, each with what to write instead."""


def prose(text: str) -> str:
    """The text with everything that is no prose blanked out; lines keep their numbers."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    for code in (
        r"^ *```.*?^ *```",
        r"<!--.*?-->",
        r"^    .*?$",
        r"`[^`\n]*`",
        r"\]\([^)]*\)",
        r"https?://\S+",
    ):
        text = re.sub(code, blank, text, flags=re.DOTALL | re.MULTILINE)
    return text


def pages() -> list[Path]:
    """Every page, except those that are generated from other texts."""
    found = sorted(page for folder in ("docs", "bench", "demo") for page in (ROOT / folder).rglob("*.md"))
    return [ROOT / "README.md", *(page for page in found if page.name not in GENERATED)]


def main(names: list[str]) -> int:
    """Prints what is found; the exit code."""
    registry = CheckRegistry()
    registry.register_many(known)
    for words, instead in WORDS.items():
        message = f"the project's own words; write: {instead}"
        registry.register(Check(types.Existence((words,)), path="own", message=message))
    # The first name that fits decides.
    enabled = dict.fromkeys(OFF, False) | {"own": True} | DEFAULT["checks"] | dict.fromkeys(OFF, False)
    count = 0
    for page in [Path(name).resolve() for name in names] or pages():
        content = prose(page.read_text())
        for found in LintFile(page, content).lint({"max_errors": 1000, "checks": enabled}):
            line, column = found.pos
            print(f"{page.relative_to(ROOT)}:{line}:{column}: {found.check_result.message}")
            count += 1
    print(f"{count} found")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
