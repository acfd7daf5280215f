"""What cannot be built is one line that names it and says what to do."""

from __future__ import annotations

import builtins
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llgtrt import cli
from llgtrt.build import vocabulary
from llgtrt.cli import main

from . import checkpoints


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said about it."""
    assert main(["build", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("llgtrt: ")
    return said.err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["FalconForCausalLM"]}, "FalconForCausalLM is not converted here"),
        ({"architectures": ["FalconForCausalLM"]}, "llama.cpp's own convert_hf_to_gguf.py"),
        ({"architectures": None}, "(none named)"),
        ({"quantization_config": {"quant_method": "gptq"}}, "its weights are quantised"),
        ({"hidden_act": "relu"}, "hidden_act relu"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope scaling dynamic"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "rope scaling llama3"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "mscale": 1.0}}, "rope scaling mscale"),
        ({"rope_scaling": {"type": "linear"}}, "rope scaling linear needs a number as its factor"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"num_hidden_layers": 3}, "model.layers.2.input_layernorm.weight is missing"),
        ({"num_hidden_layers": 1}, "model.layers.1.input_layernorm.weight is not part of a qwen3 model"),
        ({"vocab_size": 300}, "model.embed_tokens.weight is of (268, 64)"),
        ({"vocab_size": 200}, "has 265 tokens, the model 200"),
        ({"vocab_size": "many"}, "vocab_size is missing, or no number above 0"),
        ({"architectures": ["Gemma2ForCausalLM"], "hidden_act": None}, "tie_word_embeddings must be true"),
        (
            {"architectures": ["Gemma2ForCausalLM"], "hidden_act": None, "query_pre_attn_scalar": 33},
            "query_pre_attn_scalar 33",
        ),
        ({"architectures": ["Qwen2ForCausalLM"]}, "head_dim must be hidden_size / num_attention_heads"),
    ],
)
def test_models_that_llama_cpp_would_compute_in_another_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    if "architectures" in changes and "Gemma2ForCausalLM" in (changes["architectures"] or []):
        changes = {"query_pre_attn_scalar": 32} | changes
    config, _ = checkpoints.make(tmp_path / "hf", "qwen3")
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config | changes))
    assert said in refused(capsys, str(tmp_path / "hf"), "--output", str(tmp_path / "engine"))
    assert not list((tmp_path / "engine").glob("*"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--qformat", "fp8"], "--qformat: fp8 is not known to llama.cpp"),
        (["--tp", "2"], "--tp is TensorRT-LLM's"),
        (["--dry-run"], "--dry-run is TensorRT-LLM's"),
        (["--qformt", "f16"], "did you mean --qformat?"),
        (["--engine", "other"], "--engine"),
    ],
)
def test_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    checkpoints.make(tmp_path / "hf", "qwen3")
    assert said in refused(capsys, str(tmp_path / "hf"), "--output", str(tmp_path / "engine"), *flags)


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf = tmp_path / "hf"
    checkpoints.make(hf, "qwen3")
    output = ["--output", str(tmp_path / "engine")]
    assert "no config.json" in refused(capsys, str(tmp_path), *output)
    assert "is the model itself" in refused(capsys, str(hf), "--output", str(hf))
    assert "is a file" in refused(capsys, str(hf), "--output", str(hf / "config.json"))
    assert "--output" in refused(capsys, str(hf))
    (hf / "model.safetensors").rename(hf / "weights.bin")
    assert "no model.safetensors" in refused(capsys, str(hf), *output)
    index = hf / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}))
    assert "model-00001-of-00002.safetensors is missing" in refused(capsys, str(hf), *output)
    index.write_text("{}")
    assert "names no weights" in refused(capsys, str(hf), *output)
    index.unlink()
    whole = (hf / "weights.bin").read_bytes()
    for damaged in (whole[:-1], whole[:100], b"\xff" * 8 + whole, b""):
        (hf / "model.safetensors").write_bytes(damaged)
        assert "is damaged" in refused(capsys, str(hf), *output)
    (hf / "model.safetensors").write_bytes(whole.replace(b'"shape"', b'"shade"'))
    assert "is damaged" in refused(capsys, str(hf), *output)
    (hf / "model.safetensors").write_bytes(whole.replace(b'"BF16"', b'"F8_E"'))
    assert "only F32, F16 and BF16" in refused(capsys, str(hf), *output)
    (hf / "model.safetensors").write_bytes(whole)
    (hf / "tokenizer.json").write_text("[]")
    assert "tokenizer.json: must hold an object" in refused(capsys, str(hf), *output)
    (hf / "tokenizer.json").write_text("{}")
    assert "has a nameless vocabulary" in refused(capsys, str(hf), *output)
    (hf / "tokenizer.json").unlink()
    assert "no tokenizer.json there; make one" in refused(capsys, str(hf), *output)


def test_weights_that_f16_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf, output = tmp_path / "hf", str(tmp_path / "engine")
    _, weights = checkpoints.make(hf, "qwen3", "F32")
    weights["lm_head.weight"][3, 4] = 7e4
    checkpoints.safetensors(hf / "model.safetensors", weights, "F32")
    said = refused(capsys, str(hf), "--output", output, "--qformat", "f16")
    assert "output.weight has weights that f16 cannot hold; choose bf16" in said
    assert main(["build", str(hf), "--output", output, "--qformat", "bf16"]) == 0


def test_packages_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.make(tmp_path / "hf", "qwen3")
    load = builtins.__import__

    def without_gguf(name: str, *rest: Any) -> Any:
        if name == "gguf":
            raise ModuleNotFoundError("No module named 'gguf'", name="gguf")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_gguf)
    said = refused(capsys, str(tmp_path / "hf"), "--output", str(tmp_path / "engine"))
    assert "gguf is missing; install it: pip install 'llgtrt[build]'" in said


def test_other_commands_load_none_of_them() -> None:
    look = "import sys, llgtrt.cli; print({'gguf', 'numpy', 'tqdm'} & set(sys.modules))"
    path = {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    found = subprocess.check_output([sys.executable, "-c", look], env=os.environ | path, text=True)
    assert found == "set()\n"


def test_vocabularies_of_other_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf = tmp_path / "hf"
    checkpoints.make(hf, "qwen3")
    stored = json.loads((hf / "tokenizer.json").read_text())
    stored["model"]["type"] = "Unigram"
    (hf / "tokenizer.json").write_text(json.dumps(stored))
    assert "has a Unigram vocabulary" in refused(capsys, str(hf), "--output", str(tmp_path / "engine"))


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ([LEVEL], "gpt-2"),
        ([{"type": "Digits", "individual_digits": True}, LEVEL], "smollm"),
        ([{"type": "Split", "pattern": {"Regex": r"\w+"}}, LEVEL | {"use_regex": False}], "default"),
    ],
)
def test_the_way_to_cut_text_is_known_by_its_pipeline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, steps: list[Any], name: str
) -> None:
    config, _ = checkpoints.make(tmp_path, "qwen3")
    stored = json.loads((tmp_path / "tokenizer.json").read_text())
    stored["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    with caplog.at_level(logging.WARNING):
        assert vocabulary.read(tmp_path, config).pre == name
    assert ("encodes well only beside it" in caplog.text) == (name == "default")


def test_the_demo_s_tokenizer_is_known() -> None:
    folder = Path(__file__).parents[2] / "demo" / "target"
    read = vocabulary.read(folder, {})
    assert (read.model, read.pre, read.add_bos, read.ids["eos"]) == ("gpt2", "qwen2", False, 2047)


def test_an_interrupt_leaves_no_half_files(tmp_path: Path) -> None:
    checkpoints.make(tmp_path / "hf", "qwen3")
    engine = tmp_path / "engine"
    script = (
        "import sys, time; from llgtrt import _core, cli\n"
        "_core.quantize = lambda source, target, qformat: (open(target, 'w').close(), time.sleep(600))\n"
        "cli.main(sys.argv[1:])"
    )
    path = {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-c", script, "build", str(tmp_path / "hf"), "--output", str(engine)]
    with subprocess.Popen(command, env=os.environ | path) as process:
        while not (engine / "model.gguf.partial").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
    assert not list(engine.iterdir())


def test_a_terminal_gets_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    checkpoints.make(tmp_path / "hf", "qwen3")
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    assert main(["build", str(tmp_path / "hf"), "--output", str(tmp_path / "engine")]) == 0
    assert "reading weights: 100%" in shown.getvalue()
    assert "quantising to q8_0" in shown.getvalue()
