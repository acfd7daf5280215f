"""Engine folders for TensorRT-LLM, with stand-ins for its tools: they write down how they were called."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from llgtrt import _core
from llgtrt.cli import main

from . import checkpoints

SIZES = "--max-num-tokens 4096 --max-input-len 127000 --max-seq-len 128000 --max-batch-size 128"
"""The reference's."""
FP8 = f"--engine trtllm --qformat fp8 --kv-cache-dtype fp8 --tp 2 --use-logits {SIZES}"
QUANTISE = (
    "quantize.py --model_dir HF --dtype auto --qformat fp8 --kv_cache_dtype fp8 --output_dir CHECKPOINT "
    "--calib_size 512 --tp_size 2 --pp_size 1"
)
DRAFT = (
    "trtllm-build --checkpoint_dir CHECKPOINT --output_dir ENGINE --max_num_tokens 4096 "
    "--max_input_len 127000 --max_seq_len 128000 --max_batch_size 128 --use_fused_mlp enable "
    "--use_paged_context_fmha enable --gemm_plugin fp8 --use_fp8_context_fmha enable "
    "--gemm_swiglu_plugin fp8 --gather_generation_logits"
)
TARGET = f"{DRAFT} --max_draft_len=10 --speculative_decoding_mode=draft_tokens_external"
"""Three lines of the reference's page on speculative decoding, with short names of folders."""
PLAIN = f"--engine trtllm --qformat f16 {SIZES.replace('127000', '3200').replace('128000', '4800')}"
CONVERT = (
    "convert_checkpoint.py --model_dir=HF --output_dir=CHECKPOINT --dtype=float16 --tp_size 1 --pp_size 1"
)
EXTERNAL = (
    "trtllm-build --checkpoint_dir=CHECKPOINT --output_dir=ENGINE --gemm_plugin=float16 "
    "--use_paged_context_fmha=enable --speculative_decoding_mode=draft_tokens_external --max_draft_len=10 "
    "--max_batch_size=128 --max_num_tokens=4096 --max_input_len=3200 --max_seq_len=4800"
)
"""As in TensorRT-LLM's page on draft and target models."""

TOOL = """#!{python}
import json, pathlib, sys
name = pathlib.Path(sys.argv[0]).name
with open({record!r}, "a") as record:
    record.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
print("working on it")
if name == {failing!r}:
    print("no such\\nGPU: 3 are asked for", file=sys.stderr)
    sys.exit(7)
output = pathlib.Path(sys.argv[sys.argv.index("--output_dir") + 1])
output.mkdir(parents=True, exist_ok=True)
(output / "config.json").write_text("{{}}")
"""


class Tools:
    """A folder of stand-ins that is all of PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.record = folder, folder / "record.jsonl"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))

    def add(self, *names: str, failing: str = "") -> None:
        for name in names:
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            text = TOOL.format(python=sys.executable, record=str(self.record), failing=failing)
            file.write_text(text)
            file.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """What was called, in order."""
        return [json.loads(line) for line in self.record.read_text().splitlines()]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path / "bin", monkeypatch)


@pytest.fixture
def hf(tmp_path: Path) -> Path:
    checkpoints.make(tmp_path / "hf", "llama3")
    return tmp_path / "hf"


def build(hf: Path, flags: str) -> int:
    return main(["build", str(hf), "--output", str(hf.parent / "engine"), *shlex.split(flags)])


def settled(words: list[str], tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A command line as the tool's name and its flags, whichever way they are spelled."""
    names = {"hf": "HF", "engine": "ENGINE", "engine-checkpoint": "CHECKPOINT"}
    short = {str(tmp_path / folder): name for folder, name in names.items()}
    words = [part for word in words for part in word.split("=")]
    flags: dict[str, str] = {}
    name, *rest = words
    for word in rest:
        if word.startswith("--"):
            flags[word] = ""
            last = word
        else:
            flags[last] = short.get(word, word)
    return Path(name).name, flags


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (f"{FP8} --role target --max-draft-len 10", [QUANTISE, TARGET]),
        (f"{FP8} --role draft", [QUANTISE, DRAFT]),
        (f"{PLAIN} --role target", [CONVERT, EXTERNAL]),
    ],
)
def test_the_reference_s_command_lines(
    hf: Path, tools: Tools, capsys: pytest.CaptureFixture[str], flags: str, wanted: list[str]
) -> None:
    want = [settled(line.split(), hf.parent) for line in wanted]
    assert build(hf, f"{flags} --dry-run") == 0
    printed = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert [words.pop(0) for words in printed if words[0] == "python"] == ["python"]
    assert [settled(words, hf.parent) for words in printed] == want
    assert not (hf.parent / "engine").exists()
    tools.add("quantize.py", "convert_checkpoint.py", "trtllm-build")
    assert build(hf, flags) == 0
    assert [settled(words, hf.parent) for words in tools.calls()] == want


def test_the_folder_is_whole(hf: Path, tools: Tools) -> None:
    tools.add("quantize.py", "trtllm-build")
    (hf / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert build(hf, f"{FP8} --role target --max-batch-size 64 --max-draft-len 5") == 0
    engine = hf.parent / "engine"
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (engine / name).read_bytes() == (hf / name).read_bytes()
    read: dict[str, Any] = json.loads(_core.load_config((engine / "runtime.json").read_text(), "{}"))
    assert (read["max_batch_size"], read["max_num_tokens"]) == (64, 4096)
    assert (read["speculative"]["max_draft_len"], read["speculative"]["use_logits"]) == (5, True)
    assert not (hf.parent / "engine-checkpoint").exists()


def test_lengths_are_the_model_s(hf: Path, tools: Tools) -> None:
    tools.add("convert_checkpoint.py", "trtllm-build")
    assert build(hf, f"--engine trtllm --checkpoint-dir {hf.parent / 'kept'}") == 0
    first, second = tools.calls()
    assert first[first.index("--dtype") + 1] == "auto"
    assert second[second.index("--max_seq_len") + 1] == second[second.index("--max_input_len") + 1] == "512"
    assert not [word for word in second if "draft" in word or "gather" in word]
    assert (hf.parent / "kept" / "config.json").exists()


@pytest.mark.parametrize("place", ["llama", "models/core/llama"])
def test_scripts_are_found_among_the_examples(hf: Path, tools: Tools, place: str) -> None:
    tools.add("trtllm-build", f"examples/{place}/convert_checkpoint.py", "examples/quantization/quantize.py")
    assert build(hf, f"--engine trtllm --examples {tools.folder / 'examples'}") == 0
    assert build(hf, f"--engine trtllm --qformat nvfp4 --examples {tools.folder / 'examples'}") == 0
    assert [call[0] for call in tools.calls()] == [
        "convert_checkpoint.py",
        "trtllm-build",
        "quantize.py",
        "trtllm-build",
    ]


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("llgtrt: ")
    return last


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (
            [],
            "quantize.py is missing; build in TensorRT-LLM's container, nvcr.io/nvidia/tensorrt-llm/release",
        ),
        (["quantize.py"], "trtllm-build is missing"),
        (["quantize.py"], "pip install 'llgtrt[trtllm]'"),
    ],
)
def test_a_tool_that_is_missing(
    hf: Path, tools: Tools, capsys: pytest.CaptureFixture[str], there: list[str], said: str
) -> None:
    tools.add(*there)
    assert build(hf, FP8) == 2
    assert said in refused(capsys)
    # Quantising takes hours: it does not begin where the next tool is not there.
    assert not tools.record.exists()


@pytest.mark.parametrize("failing", ["quantize.py", "trtllm-build"])
def test_a_tool_that_fails(hf: Path, tools: Tools, capsys: pytest.CaptureFixture[str], failing: str) -> None:
    tools.add("quantize.py", "trtllm-build", failing=failing)
    assert build(hf, FP8) == 2
    said = refused(capsys)
    assert f"{failing} failed with exit code 7; its output ends: " in said
    # What it says on its two streams comes in any order.
    ending = said.partition("its output ends: ")[2].split(" | ")
    assert {"no such", "GPU: 3 are asked for"} <= set(ending)
    assert [call[0] for call in tools.calls()][-1] == failing
    assert not (hf.parent / "engine" / "runtime.json").exists()
    assert not (hf.parent / "engine-checkpoint").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--qformat q8_0", "--qformat: q8_0 is not known; with trtllm one of fp8"),
        ("--max-draft-len 3", "--max-draft-len: only a target"),
        ("--kv-cache-dtype fp8", "--kv-cache-dtype: only a quantised model"),
        ("--calib-size 3", "--calib-size: only quantising"),
        ("--tp 0", "--tp: must be at least 1"),
        ("--role both", "--role"),
    ],
)
def test_flags(hf: Path, tools: Tools, capsys: pytest.CaptureFixture[str], flags: str, said: str) -> None:
    assert build(hf, f"--engine trtllm {flags} --dry-run") == 2
    assert said in refused(capsys)
