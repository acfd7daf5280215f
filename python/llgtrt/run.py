"""`llgtrt run`: completes texts without a server, with the names of TensorRT-LLM's `run.py`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from llgtrt.settings import StartError, given


def add_to(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    parser.add_argument("--engine_dir", required=True, help="engine folder, .gguf file, or `toy`")
    parser.add_argument("--draft_engine_dir", help="draft model or MLP speculator")
    parser.add_argument("--tokenizer_dir", help="folder of the tokenizer, if it is said: that of the engine")
    parser.add_argument("--input_text", nargs="+", required=True, help="texts to be completed")
    parser.add_argument("--max_output_len", type=int, required=True, help="most tokens of each output")
    parser.add_argument(
        "--draft_target_model_config",
        metavar="LIST",
        help='"[draft_len, [draft devices], [target devices], use_logits]"',
    )
    parser.add_argument(
        "--kv_cache_enable_block_reuse", action="store_true", help="reuse KV of common beginnings"
    )
    parser.add_argument(
        "--kv_cache_free_gpu_memory_fraction", type=float, metavar="F", help="share of free memory for KV"
    )
    parser.add_argument("--num_beams", type=int, default=1, help="1: beam search is not supported")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top_k", type=int, default=1, help="1 = greedy")
    parser.add_argument("--top_p", type=float)
    parser.add_argument("--random_seed", type=int)
    parser.add_argument("--runtime-config", metavar="FILE", help="configuration (the folder's runtime.json)")


def main(parsed: argparse.Namespace) -> int:
    """Completes the texts and prints them; the exit code.

    Raises:
        StartError: a flag or a file cannot be used.
    """
    if parsed.num_beams != 1:
        raise StartError("--num_beams: beam search is not supported; leave it at 1")
    _check_tokenizer(parsed.engine_dir, parsed.tokenizer_dir)
    # The web stack's types are loaded here, so that a mistake on the command line is told at once.
    from llgtrt.llm import LLM, SamplingParams

    sampling = SamplingParams(
        temperature=parsed.temperature,
        top_k=parsed.top_k,
        max_tokens=parsed.max_output_len,
        **given({"top_p": parsed.top_p, "seed": parsed.random_seed}),
    )
    try:
        with LLM(
            parsed.engine_dir,
            speculative_model=parsed.draft_engine_dir,
            runtime_config=parsed.runtime_config,
            config=_config(parsed),
        ) as llm:
            for number, output in enumerate(llm.generate(parsed.input_text, sampling)):
                print(f"Input [Text {number}]: {json.dumps(output.prompt, ensure_ascii=False)}")
                text = json.dumps(output.outputs[0].text, ensure_ascii=False)
                print(f"Output [Text {number} Beam 0]: {text}")
    except ValueError as e:
        raise StartError(str(e)) from e
    return 0


def _config(parsed: argparse.Namespace) -> dict[str, Any]:
    config: dict[str, Any] = {"enable_kv_cache_reuse": parsed.kv_cache_enable_block_reuse}
    if parsed.kv_cache_free_gpu_memory_fraction is not None:
        config["kv_cache_free_gpu_mem_fraction"] = parsed.kv_cache_free_gpu_memory_fraction
    if parsed.draft_target_model_config is not None:
        config["speculative"] = {"draft_target_model_config": parsed.draft_target_model_config}
    return config


def _check_tokenizer(engine: str, tokenizer: str | None) -> None:
    """The core has one tokenizer, the engine folder's; another one would not be used."""
    if tokenizer is None or Path(tokenizer).resolve() == Path(engine).resolve():
        return
    files = [Path(folder) / "tokenizer.json" for folder in (engine, tokenizer)]
    try:
        equal = files[0].read_bytes() == files[1].read_bytes()
    except OSError as e:
        raise StartError(f"--tokenizer_dir: {e.filename}: cannot be read; leave the flag out") from e
    if not equal:
        raise StartError(
            f"--tokenizer_dir: {files[1]} differs from {files[0]}, which is used; "
            "leave the flag out, or put the file there"
        )
