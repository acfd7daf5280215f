"""The Dockerfiles: their linter, the files that they name, and their steps in a plain folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import llgtrt

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker"
FILES = [FOLDER / "Dockerfile", FOLDER / "Dockerfile.cpu"]
PATIENCE = 300.0


def instructions(file: Path) -> list[tuple[str, str]]:
    """Each instruction and what follows it, on one line."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def of(file: Path, name: str) -> list[str]:
    return [rest for word, rest in instructions(file) if word == name]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_linter_finds_nothing(file: Path) -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip("skipped: hadolint is not installed")
    found = subprocess.run([linter, "--no-color", str(file)], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_copied_is_there(file: Path) -> None:
    ignored = [
        line for line in Path(f"{file}.dockerignore").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    copies = [shlex.split(rest) for rest in of(file, "COPY")]
    sources = [word for words in copies if not words[0].startswith("--from") for word in words[:-1]]
    assert "." in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not any(source.startswith(name) for name in ignored), source
    for link in [path for path in (ROOT / "python" / "llgtrt").iterdir() if path.is_symlink()]:
        target = f"/opt/llgtrt/{link.resolve().relative_to(ROOT)}"
        assert "steps.sh wheel" in file.read_text() or any(target in words for words in copies), target
    cargo = re.findall(r'^(?:path|members) = \[?"([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    assert cargo
    for needed in cargo:  # Cargo reads no manifest whose targets are not there
        assert not any(needed.startswith(name) for name in ignored), needed


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_user_without_rights_serves_and_is_looked_after(file: Path) -> None:
    stages = [i for i, (word, _) in enumerate(instructions(file)) if word == "FROM"]
    last = dict(instructions(file)[stages[-1] :])
    assert re.fullmatch(r"[1-9][0-9]*", last["USER"])
    entry = json.loads(last["ENTRYPOINT"])
    assert entry[1:] == ["serve", "--host", "0.0.0.0", "--port", last["EXPOSE"]]
    health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert Path(health[0]).parent == Path(entry[0]).parent
    assert f"http://127.0.0.1:{last['EXPOSE']}/ready" in health[-1]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_images_run_on_other_processors_than_the_one_that_builds(file: Path) -> None:
    """The repository's settings for Cargo compile for the machine's own."""
    assert "TARGET_CPU=x86-64-v3" in of(file, "ARG")
    assert 'RUSTFLAGS="-C target-cpu=${TARGET_CPU}"' in of(file, "ENV")
    (build,) = (rest for rest in of(file, "RUN") if "docker/steps.sh" in rest and "install" not in rest)
    assert 'if [ "$TARGET_CPU" != native ]; then echo "$TARGET_CPU" > python/llgtrt/baseline.txt; fi' in build


def test_the_image_is_one_that_has_an_executor() -> None:
    arguments = dict(rest.split("=", 1) for rest in of(FILES[0], "ARG"))
    release = arguments["TENSORRT_LLM"]
    major, minor, _ = map(int, release.split("."))
    assert (0, 18) <= (major, minor) <= (1, 2)
    assert of(FILES[0], "FROM")[-1] == "nvcr.io/nvidia/tensorrt-llm/release:${TENSORRT_LLM}"


def pack(folder: Path, name: str, version: str, files: dict[str, Path | str]) -> Path:
    """A wheel."""
    info = f"{name}-{version}.dist-info"
    whole: dict[str, Path | str] = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}.cli:main\n",
    }
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for path, content in whole.items():
            wheel.writestr(path, content if isinstance(content, str) else content.read_bytes())
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*whole, f"{info}/RECORD"]))
    return file


def package() -> dict[str, Path | str]:
    """The files of the package as it is built here, as its wheel has them."""
    folder = ROOT / "python" / "llgtrt"
    names = {path.resolve(): path for path in [*folder.rglob("*"), *(folder / "presets").glob("*")]}
    return {
        f"llgtrt/{path.relative_to(folder)}": path
        for path in names.values()
        if path.is_file() and "__pycache__" not in path.parts
    }


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_the_steps_in_a_plain_folder(tmp_path: Path) -> None:
    """The wheel is put together here: Cargo would take minutes."""
    wheels, prefix = tmp_path / "wheels", tmp_path / "prefix"
    wheels.mkdir()
    pack(wheels, "llgtrt", llgtrt.__version__, package())
    other = pack(wheels, "other", "1.0", {"other.py": "VALUE = 7\n"})
    digests = {
        "huggingface-hub==2.4.0": "0" * 64,
        "other==1.0": hashlib.sha256(other.read_bytes()).hexdigest(),
    }
    lines = [f"{name} \\\n    --hash=sha256:{digest}\n" for name, digest in digests.items()]
    (wheels / "run.txt").write_text("".join(lines))
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    command = [str(FOLDER / "steps.sh"), "install", str(wheels), str(wheels / "run.txt"), str(prefix)]
    subprocess.run(command, env=os.environ | offline, check=True, timeout=PATIENCE, cwd=tmp_path)
    site = [path for path in sys.path if path.endswith("site-packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(site)}
    look = [str(prefix / "bin" / "python"), "-c", "import other, llgtrt; print(other.VALUE, llgtrt.__file__)"]
    ran = subprocess.run(look, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.startswith(f"7 {prefix}"), ran.stderr
    serves(FILES[0], prefix, environment)


def serves(file: Path, prefix: Path, environment: dict[str, str]) -> None:
    """The image's entry point starts a server, and its health check says so."""
    port = str(free_port())
    moves = {"/opt/llgtrt": str(prefix), "3000": port, "0.0.0.0": "127.0.0.1"}  # loopback is enough here
    commands = []
    for name in ("ENTRYPOINT", "HEALTHCHECK"):
        text = dict(instructions(file))[name]
        for old, new in moves.items():
            text = text.replace(old, new)
        commands.append(json.loads(text[text.index("[") :]))
    start, health = commands
    server = subprocess.Popen([*start, "toy"], env=environment, cwd=prefix)
    try:
        end = time.monotonic() + PATIENCE
        while subprocess.run(health, env=environment, capture_output=True).returncode != 0:
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        server.terminate()
        assert server.wait(PATIENCE) == 0
    assert subprocess.run(health, env=environment, capture_output=True).returncode != 0


def test_an_unknown_step_is_refused() -> None:
    ran = subprocess.run([str(FOLDER / "steps.sh"), "fly"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "usage: steps.sh wheel" in ran.stderr
