"""The documentation says what is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from llgtrt import _core, flags

from .questions import QUESTIONS
from .test_metrics import NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", *(p for f in ("docs", "bench", "demo") for p in (ROOT / f).rglob("*.md"))]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE_LINES = 300
"""A page may have so many lines."""


def headings(page: Path) -> dict[str, str]:
    """The text below each heading of a page, by the anchor that GitHub gives the heading."""
    code = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    text = code.sub(lambda block: block[0].replace("\n#", "\n "), page.read_text())
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    kept = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in parts[1::2])
    anchors = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in kept)
    return dict(zip(anchors, parts[2::2], strict=True))


def broken(page: Path) -> list[str]:
    """Links to files or headings that are not there."""
    found = []
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        file = page.parent / path if path else page
        if "://" not in link and not (file.exists() and (not anchor or anchor in headings(file))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= PAGE_LINES


def linked(page: Path) -> set[Path]:
    """The pages that a page links to."""
    return {(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())}


def test_every_page_is_in_the_index() -> None:
    assert set(DOCS.rglob("*.md")) <= linked(DOCS / "README.md") | {DOCS / "README.md"}


def test_the_pages_of_coverage_are_what_the_tests_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    found = runpy.run_path(str(ROOT / "bench" / "coverage.py"))
    for name, text in found["pages"]().items():
        assert (DOCS / name).read_text() == text, "run `python bench/coverage.py`"


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


def quoted() -> list[str]:
    """The messages that the page about troubleshooting quotes."""
    page = (DOCS / "troubleshooting.md").read_text()
    starts, requests = page.split("\n## ")[1:3]
    rows = re.findall(r"^\| `(.*?)` \|", starts, re.MULTILINE)
    return rows + re.findall(r"^\| \d{3}[^|]*\| `(.*?)` \|", requests, re.MULTILINE)


def test_messages_that_are_quoted_are_in_the_sources() -> None:
    files = [*(ROOT / "python" / "llgtrt").rglob("*.py"), *(ROOT / "rust").rglob("*.rs")]
    # Literals that go on in the next line, as Python and as Rust write them.
    sources = re.sub(r'"\n\s*f?"|\\\n\s*', "", "\n".join(file.read_text() for file in files))
    messages = quoted()
    assert len(messages) > 35
    parts = [part.strip() for message in messages for part in message.split("…")]
    assert [part for part in parts if part not in sources] == []


@pytest.mark.parametrize(("question", "place", "words"), QUESTIONS, ids=lambda text: text[:40])
def test_questions_of_new_users_are_answered(question: str, place: str, words: str) -> None:
    path, _, anchor = place.partition("#")
    page = ROOT / path
    answer = headings(page)[anchor]
    assert words
    assert [word for word in words.split() if word not in answer] == []
    # Found within two pages from README.
    first = linked(ROOT / "README.md") | {ROOT / "README.md"}
    assert page in first or any(page in linked(other) for other in first if other.suffix == ".md"), question
