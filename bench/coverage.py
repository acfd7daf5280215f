"""Writes docs/coverage.md from what the tests and coverage_peers.py found: `python bench/coverage.py`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from coverage_beside import beside

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "tests" / "core" / "grammar" / "expected"
PAGE = ROOT / "docs" / "coverage.md"
OTHERS = "the other "
DRAFTS = {"draft 7": "suite-draft7.txt", "2020-12": "suite-2020-12.txt"}

HEAD = """# Coverage of JSON Schema

Written by `python bench/coverage.py` from the files in `tests/core/grammar/expected`, which the conformance
tests hold: they compile each schema and compare its grammar with every instance; for other products, from
`bench/coverage_peers.json`.

- *enforced*: the schema compiles, and no invalid instance is accepted.
- *stricter*: it is, but a valid instance is rejected too, in every order of its keys
  (with `grammar.key_order` as by default).
- *lenient*: optional parts of the suite that may be read as annotations; an invalid instance is accepted.
- *empty*: nothing satisfies the schema, which the refusal says.
- *refused*: HTTP 400 before anything is generated.
"""

MASKBENCH = """
## Schemas from the field

Of {all} schemas of MaskBench, {good} ({share:.1f}%) are enforced as they are, or refused because nothing
satisfies them ({empty}); {stricter} are stricter, {refused} refused, and none lets anything
invalid through. By their collection:

| collection | schemas | enforced or empty | stricter | refused |
|---|---|---|---|---|
"""

WHOLE = """
Of all {all} schemas of MaskBench (one file more was not to be had), which a test reads from a checkout
of its repository (`LLGTRT_MASKBENCH`, see `tests/core/grammar/conformance.rs`), {good} ({share:.1f}%) are
enforced as they are or refused because nothing satisfies them ({empty}); {stricter} are stricter, {refused}
refused, and none lets anything invalid through. 10,090 of them had not been seen while the compiler was
written: of these, 99.3% were enforced or empty at first sight, and none let anything invalid through.
"""

SUITE = """
## The JSON-Schema-Test-Suite

Groups of the suite by the keyword whose file they are in. A dash: the draft has none. In 2020-12 formats are
annotations unless one asks for more: its groups of `format` are judged with `grammar.formats: "annotate"`,
the others, and those of `optional/format`, without.

| keyword | {drafts} |
|---|{lines}|
"""


def kind(verdict: str) -> str:
    """What one line says of its schema."""
    if verdict.startswith("nothing satisfies"):
        return "empty"
    if verdict.startswith("refused"):
        return "refused"
    if "accepts-invalid" in verdict:
        return "lenient"
    return "stricter" if "rejects-valid" in verdict else "enforced"


def lines(file: str) -> list[tuple[str, str]]:
    """Names of schemas, and what was found of each."""
    pattern = re.compile(r"(.*): ((?:ok|refused|nothing satisfies|reordered|rejects|accepts)\b.*)")
    found = [pattern.fullmatch(line) for line in (FOUND / file).read_text().splitlines()]
    return [(line[1], line[2]) for line in found if line]


def cell(counts: Counter[str]) -> str:
    """Counts in a few words."""
    if not counts:
        return "—"
    others = [
        f"{counts[name]} {name}" for name in ("empty", "stricter", "lenient", "refused") if counts[name]
    ]
    return ", ".join([f"{counts['enforced']} of {counts.total()} enforced", *others])


def maskbench() -> str:
    """The part about MaskBench."""
    of: dict[str, Counter[str]] = defaultdict(Counter)
    for name, verdict in lines("maskbench.txt"):
        of[re.split("---|_", name)[0]][kind(verdict)] += 1
    head = shares(MASKBENCH, sum(of.values(), Counter[str]()))
    rows = [
        f"| {name} | {n.total()} | {n['enforced'] + n['empty']} | {n['stricter']} | {n['refused']} |"
        for name, n in sorted(of.items())
    ]
    whole = Counter[str]()
    for name, verdict in lines("maskbench-whole.txt"):
        whole[kind(verdict)] += int(name.removeprefix(OTHERS)) if name.startswith(OTHERS) else 1
    return head + "\n".join(rows) + "\n" + shares(WHOLE, whole)


def shares(text: str, of: Counter[str]) -> str:
    """A text with counts in it."""
    good = of["enforced"] + of["empty"]
    told = {name: of[name] for name in ("empty", "stricter", "refused")}
    return text.format(all=f"{of.total():,}", good=f"{good:,}", share=100 * good / of.total(), **told)


def suite() -> str:
    """The part about the suite."""
    of: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for draft, file in DRAFTS.items():
        for name, verdict in lines(file):
            keyword = re.split(r" \d", name)[0]
            rest = "all that is optional" if keyword.startswith("optional") else "all that is required"
            of[keyword][draft][kind(verdict)] += 1
            of[rest][draft][kind(verdict)] += 1
    order = sorted(
        of, key=lambda keyword: (not keyword.startswith("all that"), "optional" in keyword, keyword)
    )
    rows = [
        f"| {keyword} | {' | '.join(cell(of[keyword][draft]) for draft in DRAFTS)} |" for keyword in order
    ]
    return (
        SUITE.format(drafts=" | ".join(DRAFTS), lines="|".join(["---"] * len(DRAFTS)))
        + "\n".join(rows)
        + "\n"
    )


def apart() -> str:
    """Whatever is not as the suite and MaskBench have it, line by line."""
    parts = ["\n## What is refused, stricter or lenient\n"]
    for title, file in {"MaskBench": "maskbench-whole.txt", **DRAFTS}.items():
        told = [
            f"- {name}: {verdict}"
            for name, verdict in lines(file)
            if kind(verdict) not in ("enforced", "empty")
        ]
        parts += [f"\n### {title}\n", *told]
    return "\n".join(parts) + "\n"


def page() -> str:
    """The whole page."""
    return HEAD + maskbench() + beside() + suite() + apart()


if __name__ == "__main__":
    PAGE.write_text(page())
