"""The part of docs/coverage.md about other products, from what coverage_peers.py has found."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from coverage_strict import PROFILE, SOURCE

PEERS = Path(__file__).with_name("coverage_peers.json")
TITLES = {
    "llgtrt": "llgtrt",
    "llguidance": "llguidance alone",
    "xgrammar": "XGrammar",
    "xgrammar-strict": "XGrammar, strict",
    "outlines-core": "Outlines (outlines-core)",
    "llama.cpp": "llama.cpp",
}
"""Products in the order of the tables."""
REASONS = 4
"""Reasons that are told of why schemas are outside OpenAI's subset."""

HEAD = """
## Beside other products

Measured by `bench/coverage_peers.py` on {date}: {versions}. All products get the same schemas and
instances. A valid instance is tried with its keys in up to {tries} orders until one is accepted. Two more
verdicts:

- *accepts invalid*: an invalid instance is accepted.
- *failed*: a crash, more than {patience:g} s of computing, or more than 4 GiB.

XGrammar ran twice: with `strict_mode=False`, and with its default (*strict*), which closes objects to
undeclared keys although the schema allows them. If a row names fewer schemas, they are an even sample.
llama.cpp's row is its conversion to GBNF, without a model. OpenAI's strict mode was **not run**: its row
says how many schemas are within the subset of its [documentation]({source}), by [a profile of
it]({profile}) of February 2026. The most frequent reasons against: {reasons}.

| {schemas} schemas of MaskBench | enforced or empty | stricter | accepts invalid | refused | failed |
|---|---|---|---|---|---|
"""

OUTPUTS = """
MaskBench's instances find few mistakes. So {walks} outputs of each schema that compiles were drawn at
random from the product's own masks, byte by byte, with the same weights for all products. Python's
`jsonschema` {jsonschema} judged them, formats included. Outputs that do not end within 1,500 bytes, or that
it cannot judge, do not count. A leap second is second 60 at a time other than the end of a day in UTC.

| product | schemas | outputs | invalid | share | only by a leap second | schemas with an invalid output |
|---|---|---|---|---|---|---|
"""

EXAMPLES = """
Some short invalid outputs, without leap seconds:

| product | schema | output |
|---|---|---|
"""

SUITE = """
Groups of the required part of the JSON-Schema-Test-Suite that are enforced (or refused because nothing
satisfies them); in brackets those of which an invalid instance is accepted. The suite expects some schemas
on a web server. This server gets them through `grammar.documents`; the other products have no such setting.
Most of these schemas have no `type`: XGrammar and llama.cpp then ignore keywords (`{"maximum": 3}` accepts
4), and Outlines refuses the schema.

"""


def told(text: str, **values: Any) -> str:
    """A text with its values, paragraphs wrapped anew."""
    blocks = text.format(**values).split("\n\n")
    plain = [
        block if block.lstrip()[:1] in ("|", "-", "#") else textwrap.fill(block, 108) for block in blocks
    ]
    return "\n\n".join(plain)


def row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |\n"


def verdicts(found: Any, products: dict[str, Any]) -> str:
    """What became of MaskBench's schemas."""
    table = ""
    for name, product in products.items():
        n = Counter(product["maskbench"]["all"])
        cells = (n["enforced"] + n["empty"], n["stricter"], n["lenient"], n["refused"], n["failed"])
        table += row(
            TITLES[name] + (f", {n.total()} schemas" if n.total() != found["schemas"] else ""), *cells
        )
    within = found["strict"]["within"]
    return table + row(
        "OpenAI's strict mode, by its documentation", within, "", "", found["schemas"] - within, ""
    )


def outputs(products: dict[str, Any]) -> str:
    """Outputs drawn at random, and some of the invalid ones."""
    table, examples = "", EXAMPLES
    for name, product in products.items():
        n = Counter({key: value for key, value in product["outputs"].items() if key != "examples"})
        wrong = n["invalid"] + n["leap"]
        judged = n["valid"] + wrong
        share = f"{100 * wrong / max(judged, 1):.1f} %"
        table += row(TITLES[name], n["schemas"], judged, wrong, share, n["leap"], n["schemas_invalid"])
        for one in product["outputs"]["examples"]:
            output = one["output"].replace("\n", " ").replace("|", "\\|")
            examples += row(TITLES[name], one["schema"], f"`{output}`")
    return table + examples


def groups(counts: dict[str, int]) -> str:
    """Groups of the suite in a few characters."""
    n = Counter(counts)
    return f"{n['enforced'] + n['empty']}" + (f" ({n['lenient']})" if n["lenient"] else "")


def suite(products: dict[str, Any]) -> str:
    """The suite: draft 7 in all, 2020-12 by keyword."""
    table = (
        row("keyword", "groups", *(TITLES[name] for name in products)) + "|---" * (len(products) + 2) + "|\n"
    )
    for draft, each in (("draft 7", False), ("2020-12", True)):
        parts = [product[draft] for product in products.values()]
        alls = [sum(map(Counter, part.values()), Counter[str]()) for part in parts]
        table += row(f"all of {draft}", alls[0].total(), *map(groups, alls))
        for keyword in sorted(parts[0]) if each else ():
            total = sum(parts[0][keyword].values())
            table += row(keyword, total, *(groups(part[keyword]) for part in parts))
    return SUITE + table


def beside() -> str:
    """The whole part."""
    found = json.loads(PEERS.read_text())
    products = {name: found["products"][name] for name in TITLES if name in found["products"]}
    all_versions = [f"{TITLES[name]} {product['version']}" for name, product in products.items()]
    versions = ", ".join(one for one in all_versions[1:] if "strict" not in one)
    most = list(found["strict"]["outside"].items())[:REASONS]
    reasons = ", ".join(f"“{reason}” ({count})" for reason, count in most)
    head = told(HEAD, versions=versions, source=SOURCE, profile=PROFILE, reasons=reasons, **found)
    parts = [head, verdicts(found, products), OUTPUTS.format(**found), outputs(products), suite(products)]
    return "".join(parts)
