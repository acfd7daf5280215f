"""Checks the dependencies: their licences and sources, and whether they have known vulnerabilities.

`python launch/audit.py crates|packages`, from the repository's root. Exit code 1: something was found, which
is printed. 77: nothing was found, but a database of vulnerabilities cannot be reached from here, so that part
was not checked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

FOUND, UNREACHABLE = 1, 77
PATIENCE = 60
"""Seconds after which a database counts as unreachable."""

LISTS = ("run", "demo", "build", "wheel", "dev", "audit")
"""Of launch/requirements: what users install, and what the wheel and the checks are made with."""

LICENCES = frozenset(
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MPL-2.0", "PSF-2.0"]
    + [f"License :: OSI Approved :: {name} License" for name in ("Apache Software", "BSD", "MIT")]
)
"""What packages that users install may be under. Those of crates are in deny.toml."""

NO_ANSWER = ("ConnectionError", "ProxyError", "SSLError", "Timeout", " Client Error: ", " Server Error: ")
"""What pip-audit's output has of the errors of its HTTP client, one of which a proxy's refusal is, too."""


def main() -> int:
    """The exit code."""
    checks = {"crates": crates, "packages": packages}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        print(__doc__)
        return 2
    return checks[sys.argv[1]]()


def crates() -> int:
    """Licences, sources and doubled versions of the crates by cargo-deny, then RustSec's advisories."""
    deny = ["cargo-deny", "--workspace", "--locked", "--config", "launch/deny.toml", "check"]
    unneeded = [word for code in ("unmatched-skip", "unnecessary-skip") for word in ("-D", code)]
    known = subprocess.run([*deny, *unneeded, "licenses", "sources", "bans"])
    if known.returncode != 0:
        return FOUND
    advisories = bounded([*deny, "advisories"])
    print(advisories.stdout, end="")
    return verdict("RustSec", advisories, "failed to fetch advisory database")


def packages() -> int:
    """Licences of the Python packages that users install, then known vulnerabilities of all pinned ones."""
    refused = [f"{name}: {licence}" for name, licence in licences("run") if not allowed(licence)]
    if refused:
        print("licences that LICENCES in launch/audit.py lacks:", *refused, sep="\n  ")
        return FOUND
    files = [word for name in LISTS for word in ("-r", f"launch/requirements/{name}.txt")]
    audit = bounded(["pip-audit", "-s", "osv", "--disable-pip", "--require-hashes", "-f", "json", *files])
    if audit.stdout:
        found = json.loads(audit.stdout)["dependencies"]
        unknown = [one["name"] for one in found if "skip_reason" in one]
        bugs = [(one, bug["id"]) for one in found for bug in one.get("vulns", [])]
        bad = [f"{one['name']} {one['version']}: {bug}" for one, bug in bugs]
        print(f"{len(found)} packages", *bad, *(f"{name}: not audited" for name in unknown), sep="\n  ")
        return FOUND if bad or unknown else 0
    return verdict("OSV", audit, *NO_ANSWER)


def pinned(name: str) -> set[str]:
    """The packages of a list in launch/requirements."""
    text = Path(f"launch/requirements/{name}.txt").read_text()
    return set(re.findall(r"^([\w.-]+)==", text, re.M))


def licences(name: str) -> list[tuple[str, str]]:
    """The installed packages of a list, each with a licence that it names: an expression, or a classifier."""
    found: list[tuple[str, str]] = []
    for package in sorted(pinned(name)):
        try:
            facts = metadata.metadata(package)
        except metadata.PackageNotFoundError:
            continue  # for other systems, or other versions of Python
        named = facts.get_all("License-Expression", [])
        classifiers = [text for text in facts.get_all("Classifier", []) if text.startswith("License ::")]
        given = named or classifiers or facts.get_all("License", ["none"])
        found.extend((package, licence) for licence in given)
    return found


def allowed(licence: str) -> bool:
    """Whether all licences of an expression are allowed; of several to choose from, one has to be."""
    return all(
        any(one.strip(" ()") in LICENCES for one in choice.split(" OR ")) for choice in licence.split(" AND ")
    )


def bounded(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command for at most PATIENCE; its standard error says so where that was too short."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "Timeout: failed to fetch advisory database")


def verdict(database: str, done: subprocess.CompletedProcess[str], *unreachable: str) -> int:
    """The exit code of a check. Its standard error has one of the texts if its database is unreachable."""
    if done.returncode == 0:
        return 0
    if any(text in done.stderr for text in unreachable):
        print(f"notice: {database}'s database cannot be reached from here: vulnerabilities were not checked")
        return UNREACHABLE
    print(done.stderr, end="")
    return FOUND


if __name__ == "__main__":
    sys.exit(main())
