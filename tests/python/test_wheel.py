"""What only a wheel has: processors that it is not for, and the demo pair in the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llgtrt import baseline, demo
from llgtrt.settings import StartError

V3 = "fpu sse4_2 abm avx avx2 bmi1 bmi2 f16c fma movbe"


def package(folder: Path, flags: str) -> tuple[Path, Path]:
    """A package that was compiled for x86-64-v3, and a machine's processors."""
    (folder / "baseline.txt").write_text("x86-64-v3\n")
    processors = folder / "cpuinfo"
    processors.write_text(f"processor\t: 0\nmodel name\t: old\nflags\t\t: {flags}\nbugs\t\t:\n")
    return folder, processors


def test_a_processor_that_has_all_is_taken(tmp_path: Path) -> None:
    baseline.check(*package(tmp_path, V3 + " avx512f"))


@pytest.mark.parametrize("missing", ["avx2", "movbe"])
def test_an_older_one_is_told_of_the_source(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ImportError, match=f"lacks {missing}, .*launch-llgtrt.sh"):
        baseline.check(*package(tmp_path, V3.replace(missing, "mmx")))


def test_what_was_built_here_is_not_asked(tmp_path: Path) -> None:
    _, processors = package(tmp_path, "fpu")
    (tmp_path / "baseline.txt").unlink()
    baseline.check(tmp_path, processors)


def test_what_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    names = ("__init__.py", "__main__.py", "baseline.py")
    own = tmp_path / "llgtrt"
    own.mkdir()
    for name in names:
        (own / name).write_text((Path(baseline.__file__).parent / name).read_text())
    done = subprocess.run(
        [sys.executable, "-m", "llgtrt", "serve", "toy"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("llgtrt: ")


def test_the_demo_pair_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [Path(folder).name for folder in demo.pair()] == ["target", "draft"]
    package = tmp_path / "lib" / "llgtrt"
    monkeypatch.setattr(demo, "__file__", str(package / "demo.py"))
    with pytest.raises(StartError, match="is in neither"):
        demo.pair()
    for name in ("target", "draft"):
        (package / "demo_pair" / name).mkdir(parents=True)
    assert demo.pair()[1] == str(package / "demo_pair" / "draft")
