"""The table of docs/architectures.md, from what a run found.

    python -m models.table RESULTS PAGE

`models.run --page PAGE` does the same behind a run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, STOP = "<!-- architectures -->", "<!-- /architectures -->"
HEADING = "# Architectures\n"
COLUMNS = {
    "peer": "as llama-server",
    "prefixes": "prefixes",
    "drafts": "drafts",
    "as its own draft": "draft model",
    "n": "n = 2",
    "schemas": "schema",
    "among others": "among others",
}
ABOUT = """\
llama.cpp has a generator of tiny models with random weights, one for each architecture (`test-llama-archs`).
`launch/check-models.sh` gives each a vocabulary of letters, runs it, and writes this table. The results are
about the code of an architecture, not about the files of any published model.

- *promise*: how exact [equal output](determinism.md) is, as the server says at start.
- *as llama-server*: 64 greedy tokens of 3 prompts are the same as llama-server's with KV of the same type, or
  the two candidates score within 0.02 nats (*ties*). The number is the largest score difference of a token.
- *prefixes*: prompts that begin like earlier ones get the text that they get alone.
- *drafts*, *draft model*: the same for requests with drafts from prompt lookup, from the client and from the
  model itself, and for another model that it drafts for. *none*: the model has a recurrent state that
  llama.cpp cannot roll back.
- *n = 2*, *schema*: two choices; texts that a JSON schema allows.
- *among others*: 24 requests, 8 at a time, get the text and scores that each gets alone. *near*: up to
  near-ties.
"""


def section(results: dict[str, Any]) -> str:
    """The text between the markers."""
    served = {name: found for name, found in results.items() if found["state"] == "served"}
    lines = [f"{len(served)} of {len(results)} models are served.", "", ABOUT]
    lines.append("| model | promise | " + " | ".join(COLUMNS.values()) + " |")
    lines.append("|---" * (len(COLUMNS) + 2) + "|")
    for name, found in served.items():
        promise = "bit-identical" if "bit-identical" in found["promise"] else "near-ties"
        cells = [cell(found, key) for key in COLUMNS]
        lines.append(f"| {name} | {promise} | " + " | ".join(cells) + " |")
    refused = [f"- {name}: {found['reason']}" for name, found in results.items() if name not in served]
    if refused:
        lines += ["", "Refused, in the server's words:", "", *refused]
    faults = [f"- {name}, {key}: {check['faults'][0]}" for name, key, check in wrong(served)]
    if faults:
        lines += ["", "What does not hold:", "", *faults]
    return "\n".join(lines) + "\n"


def wrong(served: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Models and their checks that found faults."""
    found = ((name, key, check) for name, found in served.items() for key, check in found["checks"].items())
    return [each for each in found if each[2]["faults"]]


def cell(found: dict[str, Any], key: str) -> str:
    """What a check found, in a word or two."""
    check = found["checks"].get(key)
    if check is None:
        return ""
    if check["faults"]:
        return "**no**"
    numbers = check["numbers"]
    if key == "peer":
        return f"{numbers['drift']:.4f}" + (f", {numbers['parted']:.0f} ties" if numbers["parted"] else "")
    unused = (key == "drafts" and not found["rollback"]) or numbers.get("reused") == 0
    if unused or numbers.get("refused"):
        return "none"
    return "near" if numbers.get("differ") else "yes"


def write(page: Path, text: str) -> None:
    """Puts the section between the page's markers; makes a page with a heading where there is none."""
    old = page.read_text() if page.exists() else f"{HEADING}\n{BEGIN}\n{STOP}\n"
    before, found, rest = old.partition(BEGIN)
    _, closed, after = rest.partition(STOP)
    if not found or not closed:
        raise SystemExit(f"{page} has no place for the section: {BEGIN} … {STOP}")
    page.write_text(f"{before}{BEGIN}\n{text}{STOP}{after}")


if __name__ == "__main__":
    write(Path(sys.argv[2]), section(json.loads(Path(sys.argv[1]).read_text())))
