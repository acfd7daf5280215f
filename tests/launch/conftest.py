"""A copy of the launcher in a folder of its own, with fakes for everything that takes time or a network.

The fakes log what they are called for; `.venv/bin/python` prints its arguments instead of serving.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BASICS = [
    "bash",
    "basename",
    "cat",
    "chmod",
    "cmp",
    "cp",
    "cut",
    "dirname",
    "env",
    "find",
    "flock",
    "grep",
    "head",
    "id",
    "ln",
    "mkdir",
    "mv",
    "printf",
    "readlink",
    "rm",
    "sed",
    "sha256sum",
    "sort",
    "tail",
    "timeout",
    "touch",
    "tr",
    "uname",
    "xargs",
]

LOG = 'log() { printf "%s\\n" "$*" >>"$FAKE_LOG"; }\n'

PYTHON = r"""
case "$*" in
    "-c import sys"*) exit "${FAKE_PYTHON_OLD:-0}" ;;
    "-c import ensurepip"*) exit "${FAKE_NO_VENV:-0}" ;;
    "-m venv"*)
        log venv
        rm -rf "${!#}"
        mkdir -p "${!#}/bin"
        cp "$FAKE_BIN/venv-python" "${!#}/bin/python"
        ;;
esac
"""

VENV_PYTHON = r"""
case "$*" in
    "-m pip"*)
        log "pip $(basename "${!#}")"
        [[ $(basename "${!#}") != "${FAKE_PIP_FAILS:-}" ]]
        ;;
    "-c import sysconfig"*)
        site=$(dirname "$0")/../site
        mkdir -p "$site"
        echo "$site"
        ;;
    "-I -m llgtrt"*) printf '%s\n' "$PWD" "${CFLAGS:-no CFLAGS}" "$@" ;;
esac
"""

CARGO = r"""
case "$1" in
    --version) echo "cargo ${FAKE_CARGO:-1.95.0} (0 2026-01-01)" ;;
    build)
        log "build $CC $CXX ${CFLAGS:-}"
        echo "some output of the build"
        mkdir -p target/release
        touch target/release/libllgtrt.so
        exit "${FAKE_BUILD_FAILS:-0}"
        ;;
    *) log "cargo $*" ;;
esac
"""

CMAKE = r"""
case "$1" in
    -S) log "cmake $*" ;;
    --build)
        log "cmake --build"
        mkdir -p "$2"
        touch "$2/base" "$2/${!#/#/lib}.so"
        ln -sf base "$2/libggml-base.so.0"
        ;;
esac
"""

COMPILER = r"""
name=$(basename "$0")
case "$*" in
    --version) echo "$name version ${FAKE_COMPILER:-14}" ;;
    *-fsyntax-only*) [[ " ${FAKE_BROKEN:-} " != *" $name "* ]] ;;
    *) echo /usr/include ;;
esac
"""


@dataclasses.dataclass
class Tree:
    """The copy: its root, the folder of fakes, and the log of their calls."""

    root: Path
    fakes: Path
    log: Path
    link: Path

    def run(self, *args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Calls the launcher through a symlink in another folder."""
        return self._run([str(self.link), *args], cwd or self.link.parent, env)

    def build_gpu(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Calls the script that compiles a backend for GPUs."""
        return self._run([str(self.root / "launch" / "build-gpu.sh"), *args], self.link.parent, env)

    def _run(self, command: list[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd,
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        home = self.fakes / "home"
        return {
            "PATH": str(self.fakes),
            "HOME": str(home),
            "FAKE_LOG": str(self.log),
            "FAKE_BIN": str(self.fakes),
            **extra,
        }

    def calls(self) -> list[str]:
        """What the fakes were called for since the last look."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines

    def without(self, *names: str) -> None:
        """Takes tools away."""
        for name in names:
            (self.fakes / name).unlink()


def _fake(path: Path, body: str) -> None:
    path.write_text("#!/usr/bin/env bash\nset -eu\n" + LOG + body)
    path.chmod(0o755)


def _fakes(folder: Path) -> None:
    folder.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found, f"{name} is missing on this machine"
        (folder / name).symlink_to(found)
    _fake(folder / "python3", PYTHON)
    _fake(folder / "venv-python", VENV_PYTHON)
    _fake(folder / "cargo", CARGO)
    _fake(folder / "cmake", CMAKE)
    for name in ("clang", "clang++", "gcc", "g++", "cc"):
        _fake(folder / name, COMPILER)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A launcher that has never run, in a folder with spaces in its name."""
    root = tmp_path / "a tree with spaces"
    shutil.copytree(ROOT / "launch", root / "launch")
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "rust-toolchain.toml"):
        shutil.copy(ROOT / name, root / name)
    (root / ".cargo").mkdir()
    (root / "rust" / "src").mkdir(parents=True)
    (root / "rust" / "src" / "lib.rs").write_text("// the core\n")
    (root / "python" / "llgtrt").mkdir(parents=True)
    fakes, log = tmp_path / "fakes", tmp_path / "log"
    _fakes(fakes)
    log.touch()
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    link = elsewhere / "llgtrt launcher"
    link.symlink_to(os.path.relpath(root / "launch" / "launch-llgtrt.sh", elsewhere))
    return Tree(root, fakes, log, link)
