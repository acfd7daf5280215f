"""Engine folders for TensorRT-LLM 0.18 to 1.2: its tools in their order, then what lies beside the engines.

The flags are those of the reference's target and draft (FP8, `--tp_size`, `draft_tokens_external`, …).
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from llgtrt.build import folder
from llgtrt.settings import StartError

QUANTISED = ("fp8", "nvfp4", "int4_awq", "w4a8_awq", "int8_sq")
_TYPES = {"f16": "float16", "bf16": "bfloat16"}
CONTAINER = "nvcr.io/nvidia/tensorrt-llm/release"
EXAMPLES = ("/opt/TensorRT-LLM-examples", "/app/tensorrt_llm/examples")
"""Where containers have the tools' scripts."""
_SCRIPTS = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen",
    "Qwen3ForCausalLM": "qwen",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma",
    "Gemma3ForCausalLM": "gemma",
}
"""Folders of `convert_checkpoint.py` by architecture."""
_LINES = 5
"""Lines of a failed tool's output that the error repeats."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags. Lengths are in tokens; None is left to `defaults`."""

    qformat: str | None = None
    role: str | None = None
    tp: int | None = None
    kv_cache_dtype: str | None = None
    max_draft_len: int | None = None
    use_logits: bool = False
    max_batch_size: int | None = None
    max_input_len: int | None = None
    max_seq_len: int | None = None
    max_num_tokens: int | None = None
    calib_size: int | None = None
    checkpoint_dir: str | None = None
    examples: str | None = None
    dry_run: bool = False

    @staticmethod
    def of(parsed: argparse.Namespace) -> Options:
        """Takes them from the command line.

        Raises:
            StartError: one is out of its range, or does not go with another.
        """
        options = Options(**{f.name: getattr(parsed, f.name) for f in dataclasses.fields(Options)})
        for field in dataclasses.fields(options):
            value = getattr(options, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise StartError(f"--{field.name.replace('_', '-')}: must be at least 1")
        known = (*QUANTISED, *_TYPES)
        if options.qformat is not None and options.qformat not in known:
            raise StartError(
                f"--qformat: {options.qformat} is not known; with trtllm one of {', '.join(known)}"
            )
        if options.max_draft_len is not None and options.role != "target":
            raise StartError(
                "--max-draft-len: only a target takes draft tokens; add --role target, or leave it out"
            )
        if options.kv_cache_dtype is not None and not options.quantised:
            raise StartError(
                "--kv-cache-dtype: only a quantised model has another KV type; add --qformat fp8"
            )
        if options.calib_size is not None and not options.quantised:
            raise StartError("--calib-size: only quantising calibrates; add --qformat fp8, or leave it out")
        return options

    @property
    def quantised(self) -> bool:
        """Whether weights are quantised, not only converted."""
        return self.qformat in QUANTISED

    def defaults(self, config: dict[str, Any]) -> Options:
        """The same with every length known.

        A round of speculation sends all text so far as its prompt: one may be as long as the sequence.
        """
        length = self.max_seq_len or config.get("max_position_embeddings")
        if not isinstance(length, int):
            raise StartError(
                "--max-seq-len: config.json has no max_position_embeddings; name the longest sequence"
            )
        return dataclasses.replace(
            self,
            tp=self.tp or 1,
            max_draft_len=self.max_draft_len or (10 if self.role == "target" else None),
            max_batch_size=self.max_batch_size or 128,
            max_input_len=self.max_input_len or length,
            max_seq_len=length,
            max_num_tokens=self.max_num_tokens or 8192,
            calib_size=self.calib_size or 512,
        )


def build(source: Path, output: Path, options: Options) -> int:
    """Runs the tools and completes the folder, or prints their command lines (`dry_run`); the exit code.

    Raises:
        StartError: a tool is missing or fails.
    """
    config = folder.read_json(source / "config.json")
    options = options.defaults(config)
    checkpoint = Path(options.checkpoint_dir or f"{output}-checkpoint")
    lines = commands(source, checkpoint, output, options, config)
    if options.dry_run:
        for line in lines:
            print(shlex.join(line))
        return 0
    for line in lines:
        _check_tool(line)
    output.mkdir(parents=True, exist_ok=True)
    try:
        for line in lines:
            _run(line)
    finally:
        if options.checkpoint_dir is None:
            shutil.rmtree(checkpoint, ignore_errors=True)
    folder.finish(source, output, config, _runtime(options))
    print(f"{output}: {options.role or 'engine'}, tensor parallel size {options.tp}")
    return 0


def commands(
    source: Path, checkpoint: Path, output: Path, options: Options, config: dict[str, Any]
) -> list[list[str]]:
    """The two command lines: weights to a checkpoint, checkpoint to engines."""
    architecture = (config.get("architectures") or [""])[0]
    ranks = ["--tp_size", str(options.tp), "--pp_size", "1"]
    ends = ["--model_dir", str(source), "--output_dir", str(checkpoint)]
    if options.quantised:
        script = _script(options, "quantize.py", ["quantization"])
        first = [*script, *ends, "--dtype", "auto", "--qformat", str(options.qformat)]
        if options.kv_cache_dtype is not None:
            first += ["--kv_cache_dtype", options.kv_cache_dtype]
        first += ["--calib_size", str(options.calib_size)]
    else:
        family = _SCRIPTS.get(architecture)
        places = [f"models/core/{family}", family] if family else []
        first = [*_script(options, "convert_checkpoint.py", places), *ends, "--dtype", _dtype(options)]
    tool = shutil.which("trtllm-build") or "trtllm-build"
    second = [tool, "--checkpoint_dir", str(checkpoint), "--output_dir", str(output)]
    for name in ("max_num_tokens", "max_input_len", "max_seq_len", "max_batch_size"):
        second += [f"--{name}", str(getattr(options, name))]
    # KV of earlier rounds is reused, which needs paged context attention.
    second += ["--use_paged_context_fmha", "enable"]
    if options.qformat == "fp8":
        second += ["--gemm_plugin", "fp8", "--use_fused_mlp", "enable", "--gemm_swiglu_plugin", "fp8"]
    else:
        second += ["--gemm_plugin", "auto" if options.quantised else _dtype(options)]
    if options.kv_cache_dtype == options.qformat == "fp8":
        second += ["--use_fp8_context_fmha", "enable"]
    if options.role == "target":
        second += [
            "--speculative_decoding_mode=draft_tokens_external",
            f"--max_draft_len={options.max_draft_len}",
        ]
    if options.use_logits:
        second.append("--gather_generation_logits")
    return [[*first, *ranks], second]


def _dtype(options: Options) -> str:
    return _TYPES.get(options.qformat or "", "auto")


def _script(options: Options, name: str, places: list[str]) -> list[str]:
    """How a script is run: from the examples, or PATH; without either, as it is called in the container."""
    roots = [options.examples] if options.examples else EXAMPLES
    there = [Path(root) / place / name for root in roots for place in places]
    found = next((str(file) for file in there if file.is_file()), None) or shutil.which(name)
    return ["python" if found is None else sys.executable, found or str(there[0] if there else name)]


def _check_tool(line: list[str]) -> None:
    """Raises `StartError` where the command line's tool is missing."""
    tool = line[1] if line[1].endswith(".py") else line[0]
    if shutil.which(tool) is None and not Path(tool).is_file():
        scripts = ", or say where its examples lie: --examples DIR" if tool.endswith(".py") else ""
        extra = "" if tool.endswith(".py") else ", or install it: pip install 'llgtrt[trtllm]'"
        raise StartError(
            f"{Path(tool).name} is missing; build in TensorRT-LLM's container, {CONTAINER}{scripts}{extra}"
        )


def _run(line: list[str]) -> None:
    """Runs a tool, its output on standard error.

    Raises:
        StartError: it fails; the message has its name, its exit code and the end of its output.
    """
    print(f"llgtrt: {shlex.join(line)}", file=sys.stderr, flush=True)
    last: collections.deque[str] = collections.deque(maxlen=_LINES)
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as tool:
        assert tool.stdout is not None
        for text in tool.stdout:
            sys.stderr.write(text)
            if text.strip():
                last.append(text.strip())
    if tool.returncode != 0:
        name = Path(line[1] if line[1].endswith(".py") else line[0]).name
        raise StartError(
            f"{name} failed with exit code {tool.returncode}; its output ends: {' | '.join(last)}"
        )


def _runtime(options: Options) -> dict[str, Any]:
    """Keys of `runtime.json` that must not be more than what the engines were built for."""
    chosen: dict[str, Any] = {
        "max_batch_size": options.max_batch_size,
        "max_num_tokens": options.max_num_tokens,
    }
    # What the configuration takes at most.
    chosen["max_batch_size"] = min(chosen["max_batch_size"], 256)
    if options.role == "target":
        chosen["speculative"] = {"max_draft_len": min(options.max_draft_len or 0, 64)}
        if options.use_logits:
            chosen["speculative"]["use_logits"] = True
    return chosen
