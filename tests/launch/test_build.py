"""What the embedded engine was built with, and what its build refuses to be built without."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RENAMED = [
    "ggml_tiled_wdata_size",
    "ggml_compute_forward_mul_mat_tiled",
    "ggml_compute_forward_mul_mat_id_tiled",
    "ggml_compute_forward_flash_attn_ext",
]


@pytest.fixture(name="built")
def fixture_built() -> Path:
    """The folder of the newest build of llama.cpp."""
    caches = TARGET.glob("release/build/llama-cpp-sys-2-*/out/build/CMakeCache.txt")
    newest = max(caches, key=lambda cache: cache.stat().st_mtime, default=None)
    if newest is None:
        pytest.skip("skipped: the embedded engine was not built here yet")
    return newest.parent


def test_llama_cpp_was_built_for_speed_and_equal_bits(built: Path) -> None:
    lines = (built / "CMakeCache.txt").read_text().splitlines()
    cache = dict(re.split(r":\w+=", line, maxsplit=1) for line in lines if re.match(r"\w+:\w+=", line))
    assert cache["CMAKE_BUILD_TYPE"] == "Release"
    assert (cache["GGML_LLAMAFILE"], cache["GGML_CPU_REPACK"]) == ("OFF", "OFF")


def test_every_file_of_ggml_was_compiled_as_wanted(built: Path) -> None:
    entries = json.loads((built / "compile_commands.json").read_text())
    commands = [entry["command"] for entry in entries if "/ggml-cpu/" in entry["file"]]
    assert len(commands) > 10
    for command in commands:
        # The last one counts.
        assert re.findall(r" -O(\S*)", command)[-1] == "3", command
    defining = [entry["command"] for entry in entries if entry["file"].endswith(("/ops.cpp", "/tiled.cpp"))]
    assert len(defining) == 2
    for command in defining:
        assert all(f" -D{name}={name}_stock " in command for name in RENAMED), command


@pytest.fixture(name="script", scope="module")
def fixture_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The crate's build script as a program."""
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("skipped: there is no rustc")
    program = tmp_path_factory.mktemp("build") / "script"
    source = ROOT / "rust" / "build.rs"
    subprocess.run([rustc, "--edition=2024", "-o", str(program), str(source)], check=True, timeout=120)
    return program


def run(script: Path, change: str) -> subprocess.CompletedProcess[str]:
    """Runs the build script in the build environment after a change to it, written in bash."""
    text = f'. "{ROOT}/launch/env.sh"; export CARGO_FEATURE_LLAMA=1; {change}; exec "{script}"'
    names = "CXXFLAGS CFLAGS LLAMA_LIB_PROFILE GGML_LLAMAFILE GGML_CPU_REPACK"
    settings = names.split()
    env = {name: value for name, value in os.environ.items() if name not in settings}
    return subprocess.run(
        ["bash", "-c", text], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_build_environment_is_enough(script: Path) -> None:
    done = run(script, "true")
    assert done.returncode == 0, done.stderr
    assert "-Bsymbolic" in done.stdout
    assert run(script, "unset CARGO_FEATURE_LLAMA CXXFLAGS").returncode == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("unset LLAMA_LIB_PROFILE", "LLAMA_LIB_PROFILE=Release"),
        ("LLAMA_LIB_PROFILE=Debug", "LLAMA_LIB_PROFILE=Release"),
        ("GGML_LLAMAFILE=ON", "GGML_LLAMAFILE=OFF"),
        *((f"CXXFLAGS=${{CXXFLAGS//-D{name}=/-Dno_{name}=}}", f"-D{name}=") for name in RENAMED),
    ],
)
def test_what_the_environment_lacks_is_named(script: Path, change: str, named: str) -> None:
    done = run(script, change)
    assert done.returncode != 0
    assert "launch/env.sh" in done.stderr
    assert named in done.stderr
