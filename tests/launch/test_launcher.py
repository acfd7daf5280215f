"""The launcher's own work, on fakes: what is made when, what is missing, and how the server is called."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Tree

FIRST = ["venv", "pip run.txt", "pip build.txt"]
FLAGS = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16 -D_mm_pause=llgtrt_pause"


def served(output: str) -> list[str]:
    """The server's arguments, out of the fake's output."""
    lines = output.splitlines()
    assert lines[2:6] == ["-I", "-m", "llgtrt", "serve"]
    return lines[6:]


def steps(calls: list[str]) -> list[str]:
    """Calls by name only: a build's settings are another test's matter."""
    return ["build" if call.startswith("build") else call for call in calls]


def test_demo_through_a_symlink_with_spaces(tree: Tree) -> None:
    done = tree.run("--demo", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert steps(tree.calls()) == [*FIRST, "pip demo.txt", "build"]
    assert served(done.stdout) == ["--demo", "--port", "0"]
    assert "step 3: release build" in done.stderr


def test_the_small_demo_fetches_no_model(tree: Tree) -> None:
    tree.run("--demo=tiny")
    assert steps(tree.calls()) == [*FIRST, "build"]


def test_a_demo_whose_model_cannot_be_fetched_goes_on_without_it(tree: Tree) -> None:
    done = tree.run("--demo", FAKE_PIP_FAILS="demo.txt")
    assert served(done.stdout) == ["--demo"]
    assert "the demo's model cannot be fetched now" in done.stderr
    assert steps(tree.calls()) == [*FIRST, "pip demo.txt", "build"]
    tree.run("--demo")
    assert tree.calls() == ["pip demo.txt"]


def test_the_list_of_models_needs_no_set_up(tree: Tree) -> None:
    done = tree.run("models")
    assert (tree.calls(), done.stderr) == ([], "")
    assert done.returncode == 0


def test_the_package_is_found_from_anywhere(tree: Tree) -> None:
    tree.run("m")
    venv = tree.root / ".venv"
    assert (venv / "site" / "llgtrt.pth").read_text() == f"{tree.root / 'python'}\n"
    script = subprocess.run([venv / "bin" / "llgtrt", "a b"], capture_output=True, text=True, check=True)
    assert script.stdout.splitlines()[-2:] == ["llgtrt", "a b"]


def test_arguments_and_folder_of_the_caller_reach_the_server(tree: Tree) -> None:
    folder = tree.link.parent / "models here"
    folder.mkdir()
    done = tree.run("a model", "--chat-template", "x y", "--what", cwd=folder)
    assert done.stdout.splitlines()[0] == str(folder)
    assert served(done.stdout) == ["a model", "--chat-template", "x y", "--what"]


def test_the_server_does_not_inherit_build_settings(tree: Tree) -> None:
    assert tree.run("m").stdout.splitlines()[1] == "no CFLAGS"


def test_second_start_makes_nothing(tree: Tree) -> None:
    tree.run("m")
    tree.calls()
    start = time.monotonic()
    done = tree.run("m")
    assert time.monotonic() - start < 5
    assert (tree.calls(), done.stderr) == ([], "")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("rust/src/lib.rs", ["build"]),
        ("rust/src/new.rs", ["build"]),
        ("Cargo.lock", ["build"]),
        ("pyproject.toml", ["build"]),
        ("launch/requirements/run.txt", ["pip run.txt", "build"]),
    ],
)
def test_a_change_makes_what_changed(tree: Tree, file: str, expected: list[str]) -> None:
    tree.run("m")
    tree.calls()
    with (tree.root / file).open("a") as opened:
        opened.write("# changed\n")
    tree.run("m")
    assert steps(tree.calls()) == expected
    tree.run("m")
    assert tree.calls() == []


def test_a_missing_extension_is_built_again(tree: Tree) -> None:
    tree.run("m")
    tree.calls()
    (tree.root / "python/llgtrt/_core.abi3.so").unlink()
    tree.run("m")
    assert steps(tree.calls()) == ["build"]


def test_a_moved_folder_gets_a_new_environment(tree: Tree) -> None:
    tree.run("m")
    tree.calls()
    moved = tree.root.rename(tree.root.parent / "moved")
    tree.link.unlink()
    tree.link.symlink_to(moved / "launch" / "launch-llgtrt.sh")
    tree.run("m")
    assert steps(tree.calls()) == [*FIRST, "build"]


def test_clang_is_preferred_and_amx_is_off(tree: Tree) -> None:
    tree.run("m")
    assert tree.calls()[-1] == f"build clang clang++ {FLAGS}"


@pytest.mark.parametrize("broken", ["clang++", "clang++ nothing"])
def test_gcc_serves_where_clang_finds_no_headers(tree: Tree, broken: str) -> None:
    tree.run("m", FAKE_BROKEN=broken)
    assert tree.calls()[-1] == f"build gcc g++ {FLAGS}"


def test_gcc_serves_where_clang_is_missing(tree: Tree) -> None:
    tree.without("clang", "clang++")
    tree.run("m")
    assert tree.calls()[-1] == f"build gcc g++ {FLAGS}"


def test_another_compiler_rebuilds_the_engine(tree: Tree) -> None:
    tree.run("m")
    tree.calls()
    done = tree.run("m", CC="gcc", CFLAGS="-O2")
    assert tree.calls() == ["cargo clean --quiet --release -p llama-cpp-sys-2", f"build gcc g++ -O2 {FLAGS}"]
    assert "another C++ compiler" in done.stderr


MISSING = [
    (["python3"], {}, "apt-get install -y python3 python3-venv"),
    ([], {"FAKE_PYTHON_OLD": "1"}, "apt-get install -y python3 python3-venv"),
    ([], {"FAKE_NO_VENV": "1"}, "apt-get install -y python3-venv"),
    (["cargo"], {}, "https://sh.rustup.rs | sh -s -- -y"),
    ([], {"FAKE_CARGO": "1.63.0"}, "https://sh.rustup.rs | sh -s -- -y"),
    (["clang", "gcc"], {}, "apt-get install -y build-essential clang"),
    ([], {"FAKE_BROKEN": "clang++ g++"}, "apt-get install -y build-essential clang"),
]


@pytest.mark.parametrize(("without", "env", "line"), MISSING)
def test_what_is_missing_is_told_with_the_line_that_installs_it(
    tree: Tree, without: list[str], env: dict[str, str], line: str
) -> None:
    tree.without(*without)
    done = tree.run("m", cwd=None, **env)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(line)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ([], "usage: build-gpu.sh cuda|vulkan [FOLDER]"),
        (["metal"], "usage: build-gpu.sh cuda|vulkan [FOLDER]"),
        (["vulkan"], "apt-get install -y glslc libvulkan-dev spirv-headers"),
        (["cuda"], "apt-get install -y nvidia-cuda-toolkit"),
    ],
)
def test_what_a_backend_needs_is_told(tree: Tree, args: list[str], line: str) -> None:
    done = tree.build_gpu(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(line)


def test_a_gpu_s_kind_is_asked_for_where_none_is(tree: Tree) -> None:
    (tree.fakes / "nvcc").symlink_to(tree.fakes / "cc")
    done = tree.build_gpu("cuda")
    assert done.returncode == 2
    assert "set CMAKE_CUDA_ARCHITECTURES" in done.stderr.splitlines()[-1]
    tree.calls()
    done = tree.build_gpu("cuda", CMAKE_CUDA_ARCHITECTURES="90")
    assert done.returncode == 0, done.stderr
    settings = next(call for call in tree.calls() if call.startswith("cmake -S"))
    assert "-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90" in settings
    backends = tree.root / "python" / "llgtrt" / "backends"
    assert sorted(file.name for file in backends.iterdir()) == ["libggml-base.so.0", "libggml-cuda.so"]


def test_a_backend_is_built_from_sources_that_are_named_without_rust(tree: Tree) -> None:
    (tree.fakes / "glslc").symlink_to(tree.fakes / "cc")
    tree.without("cargo")
    done = tree.build_gpu("vulkan", str(tree.root / "here"), LLGTRT_LLAMA="/a/copy", CXX="clang++")
    assert done.returncode == 0, done.stderr
    assert [call[: len("cmake -S /a/copy")] for call in tree.calls()] == ["cmake -S /a/copy", "cmake --build"]
    assert (tree.root / "here" / "libggml-vulkan.so").exists()


def test_a_failed_build_is_shown_and_tried_again(tree: Tree) -> None:
    done = tree.run("m", FAKE_BUILD_FAILS="1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "some output of the build" in done.stderr
    tree.calls()
    assert tree.run("m").returncode == 0
    assert steps(tree.calls()) == ["build"]


def test_without_arguments_the_usage_is_told(tree: Tree) -> None:
    done = tree.run()
    assert (done.returncode, done.stdout, tree.calls()) == (2, "", [])
    assert "usage: launch-llgtrt.sh" in done.stderr
    assert tree.run("--help").returncode == 0
