"""launch/sbom.py: a valid CycloneDX file of all that is in the wheel, and of nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import llgtrt

schema = pytest.importorskip("cyclonedx.schema", reason="skipped: no CycloneDX here")
validation = pytest.importorskip("cyclonedx.validation.json")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="text", scope="module")
def fixture_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = []
    for name in ("once.json", "twice.json"):
        file = tmp_path_factory.mktemp("sbom") / name
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = [sys.executable, str(ROOT / "launch" / "sbom.py"), str(file)]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, check=True, timeout=300)
        texts.append(file.read_text())
    assert texts[0] == texts[1], "equal sources give equal files"
    return texts[0]


@pytest.fixture(name="components", scope="module")
def fixture_components(text: str) -> dict[str, Any]:
    return {one["bom-ref"]: one for one in json.loads(text)["components"]}


def named(components: dict[str, Any], kind: str, **facts: str) -> set[str]:
    start = f"pkg:{kind}/"
    found = (one for ref, one in components.items() if ref.startswith(start))
    return {one["name"] for one in found if facts.items() <= one.items()}


def test_the_file_is_valid(text: str) -> None:
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"required"', '"needed"')) is not None
    assert str(ROOT) not in text
    assert json.loads(text)["metadata"]["component"]["version"] == llgtrt.__version__


def test_what_runs_is_told_from_what_compiles(components: dict[str, Any]) -> None:
    runs = named(components, "cargo", scope="required")
    compiles = named(components, "cargo", scope="excluded")
    assert {"llgtrt", "llgtrt-grammar", "llguidance", "tokenizers", "pyo3", "llama-cpp-sys-2"} <= runs
    assert {"bindgen", "cc", "serde_derive", "pyo3-macros"} <= compiles
    assert not (runs | compiles) & {"proptest", "jsonschema", "llgtrt-load", "windows-sys"}


def test_python_packages_are_those_that_a_server_needs(components: dict[str, Any]) -> None:
    packages = named(components, "pypi")
    assert {"fastapi", "starlette", "pydantic", "uvicorn", "msgspec", "hf-xet"} <= packages
    assert not packages & {"pytest", "pip", "pip-audit", "maturin", "numpy", "llgtrt"}


def test_each_component_has_a_licence_and_each_file_its_hash(components: dict[str, Any]) -> None:
    assert all(one["licenses"] for one in components.values())
    assert named(components, "npm") == {"marked", "dompurify"}
    assert components["pkg:github/ggml-org/llama.cpp"]["version"].count(".") == 2
    own = {"llgtrt", "llgtrt-grammar"}
    downloaded = [one for ref, one in components.items() if ref.startswith(("pkg:cargo/", "pkg:npm/"))]
    assert all(len(one["hashes"][0]["content"]) == 64 for one in downloaded if one["name"] not in own)


def test_all_are_needed_by_something(text: str, components: dict[str, Any]) -> None:
    found = json.loads(text)
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    seen: set[str] = set()
    waiting = [found["metadata"]["component"]["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        if ref not in seen:
            seen.add(ref)
            waiting += needs.get(ref, [])
    assert components.keys() == seen - {found["metadata"]["component"]["bom-ref"]}
