"""The documentation says what is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from llgtrt import _core, flags

from .test_metrics import NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *(ROOT / f / "README.md" for f in ("bench", "demo"))])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "README.md").read_text())}
    assert {page for page in DOCS.glob("*.md") if page.name != "README.md"} <= linked


def test_the_page_of_coverage_is_what_the_tests_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    found = runpy.run_path(str(ROOT / "bench" / "coverage.py"))
    assert found["PAGE"].read_text() == found["page"](), "run `python bench/coverage.py`"


def ours(pattern: str) -> list[str]:
    """Names of this form in the right column of the page about other servers."""
    rows = re.findall(r"^\|.*\| (.*?) \|$", (DOCS / "migrating.md").read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall(rf"`({pattern})", row)]


def test_what_other_servers_flags_become_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        flags.parse(["serve", "--help"])
    there = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", capsys.readouterr().out))
    named = ours(r"--?[a-z][\w-]*")
    assert len(named) > 15
    assert set(named) <= there


def test_keys_and_metrics_are_there() -> None:
    keys = ours(r"(?:server|engine|grammar|speculative)\.\w+")
    assert len(keys) > 5
    effective = _core.print_config(_core.load_config(None, "{}"))
    assert [key for key in keys if f'"{key.split(".")[1]}"' not in effective] == []
    assert set(ours(r"llgtrt_\w+")) <= set(NAMES.split())
