"""What a release says of itself: one version, in all places, and notes about it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import llgtrt

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'^\[workspace\.package\]\nversion = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.split("\0") if name]


def test_all_places_have_the_version_of_the_workspace() -> None:
    assert VERSION is not None
    version = VERSION[1]
    assert llgtrt.__version__ == version
    own = re.findall(r'^name = "(llgtrt[\w-]*)"\nversion = "(.+)"', (ROOT / "Cargo.lock").read_text(), re.M)
    assert own == [(name, version) for name in ("llgtrt", "llgtrt-grammar", "llgtrt-load")]
    for manifest in tracked("Cargo.toml", "*/Cargo.toml"):
        assert re.findall(r"^version.*", manifest.read_text(), re.M) in (
            ["version.workspace = true"],
            ["version.workspace = true", f'version = "{version}"'],
        ), manifest


def test_pages_name_the_wheel_of_this_version() -> None:
    assert VERSION is not None
    found = [(page, name) for page in tracked("*.md") for name in wheels(page.read_text())]
    assert len({page for page, _ in found}) >= 2
    assert {name for _, name in found} == {VERSION[1]}


def wheels(text: str) -> list[str]:
    return re.findall(r"llgtrt-(\d+\.\d+\.\d+)-cp310", text)


def test_the_changelog_has_notes_about_it() -> None:
    assert VERSION is not None
    heads = re.findall(r"^## (\S+)(?: \((\d{4}-\d{2}-\d{2})\))?$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    released = [(name, date) for name, date in heads if name != "Unreleased"]
    assert released[0][0] == VERSION[1]
    assert all(date for _, date in released)
    assert [name for name, _ in heads].index(VERSION[1]) <= 1, "what is unreleased stands before it, once"
