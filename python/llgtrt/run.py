"""`llgtrt run`: completes texts without a server, with the names of TensorRT-LLM's `run.py`."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llgtrt.settings import StartError, given

if TYPE_CHECKING:
    from llgtrt.llm import LLM, Prompt, RequestOutput, SamplingParams

log = logging.getLogger(__name__)

_ROUNDS = 10
"""Runs that `--run_profiling` measures."""


def main(parsed: argparse.Namespace) -> int:
    """Completes the texts and prints them; the exit code.

    Raises:
        StartError: a flag or a file cannot be used.
    """
    if parsed.num_beams != 1:
        raise StartError("--num_beams: beam search is not supported; leave it at 1")
    if parsed.use_py_session:
        raise StartError(
            "--use_py_session: there is no Python session, the core runs the model; leave it out"
        )
    if parsed.log_level == "verbose":
        os.environ.setdefault("LLGTRT_LOG", "debug")
    prompts = _prompts(parsed)
    if parsed.tokenizer_dir is not None:
        check_tokenizer("--tokenizer_dir", parsed.engine_dir, parsed.tokenizer_dir)
    # The web stack's types are loaded here, so that a mistake on the command line is told at once.
    from llgtrt.llm import LLM

    try:
        with LLM(
            parsed.engine_dir,
            speculative_model=parsed.draft_engine_dir,
            runtime_config=parsed.runtime_config,
            config=_config(parsed),
        ) as llm:
            _complete(parsed, llm, prompts, _sampling(parsed, llm.sampling_defaults))
    except ValueError as e:
        raise StartError(str(e)) from e
    return 0


def _prompts(parsed: argparse.Namespace) -> list[Prompt]:
    """The texts of the command line, or what stands in the file.

    Raises:
        StartError: there is none, or both, or the file cannot be read.
    """
    if (parsed.input_text is None) == (parsed.input_file is None):
        raise StartError("--input_text, --input_file: give one of them")
    if parsed.input_file is None:
        return list(parsed.input_text)
    file = Path(parsed.input_file)
    try:
        if file.suffix == ".txt":
            return [file.read_text(encoding="utf-8")]
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as lines:
                return [{"prompt_token_ids": [int(cell) for cell in row]} for row in csv.reader(lines) if row]
    except (OSError, ValueError) as e:
        raise StartError(f"--input_file: {file} cannot be read ({e})") from e
    raise StartError(f"--input_file: {file.name} is neither .txt nor .csv; write it as one of these")


def _sampling(parsed: argparse.Namespace, defaults: dict[str, Any]) -> SamplingParams:
    """The flags before the configuration's `defaults`, these before those of `run.py`."""
    from llgtrt.llm import SamplingParams

    names = ("temperature", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    wanted: dict[str, Any] = {name: getattr(parsed, name) for name in names}
    wanted |= {"seed": parsed.random_seed, "stop": parsed.stop_words}
    wanted |= {
        "top_p": 1.0 if parsed.top_p == 0 else parsed.top_p,
        "truncate_prompt_tokens": parsed.max_input_length,
    }
    if parsed.end_id is not None:
        wanted |= {"ignore_eos": True, "stop_token_ids": [parsed.end_id] if parsed.end_id >= 0 else None}
    usual = {"temperature": 1.0, "top_k": 1}
    return SamplingParams(**(usual | defaults | given(wanted)), max_tokens=parsed.max_output_len)


def _complete(parsed: argparse.Namespace, llm: LLM, prompts: list[Prompt], sampling: SamplingParams) -> None:
    """Prints the outputs, and what else was asked for."""
    if parsed.streaming:
        outputs = _stream(llm, prompts, sampling, max(parsed.streaming_interval, 1))
    else:
        outputs = llm.generate(prompts, sampling)
        for number, output in enumerate(outputs):
            print(f"Input [Text {number}]: {json.dumps(output.prompt, ensure_ascii=False)}")
            _print(number, output)
    if parsed.output_csv is not None:
        try:
            with Path(parsed.output_csv).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(output.outputs[0].token_ids for output in outputs)
        except OSError as e:
            raise StartError(f"--output_csv: {parsed.output_csv} cannot be written ({e})") from e
    if parsed.run_profiling:
        begun = time.perf_counter()
        tokens = 0
        for _ in range(_ROUNDS):
            several = llm.generate(prompts, sampling, use_tqdm=False)
            tokens += sum(len(output.outputs[0].token_ids) for output in several)
        took = time.perf_counter() - begun
        print(
            f"batch_size: {len(prompts)}, avg latency of {_ROUNDS} iterations: {took / _ROUNDS:.4f} sec, "
            f"{tokens / took:.1f} tokens/s"
        )


def _stream(llm: LLM, prompts: list[Prompt], sampling: SamplingParams, interval: int) -> list[RequestOutput]:
    """Prints the outputs while they grow, each after so many tokens, and at its end."""
    printed: dict[str, int] = {}
    last: dict[str, RequestOutput] = {}
    for output in llm.generate_stream(prompts, sampling):
        count = len(output.outputs[0].token_ids)
        number = list(last).index(output.request_id) if output.request_id in last else len(last)
        last[output.request_id] = output
        if output.finished or count - printed.get(output.request_id, 0) >= interval:
            printed[output.request_id] = count
            _print(number, output)
    return list(last.values())


def _print(number: int, output: RequestOutput) -> None:
    text = json.dumps(output.outputs[0].text, ensure_ascii=False)
    print(f"Output [Text {number} Beam 0]: {text}", flush=True)


def _config(parsed: argparse.Namespace) -> dict[str, Any]:
    # As with `run.py`, what is greedy does not depend on the model's files.
    config: dict[str, Any] = {"engine": {"generation_config": "none"}}
    config |= given(
        {
            "enable_kv_cache_reuse": parsed.kv_cache_enable_block_reuse,
            "kv_cache_free_gpu_mem_fraction": parsed.kv_cache_free_gpu_memory_fraction,
            "kv_cache_max_tokens": parsed.max_tokens_in_paged_kv_cache,
        }
    )
    if parsed.draft_target_model_config is not None:
        config["speculative"] = {"draft_target_model_config": parsed.draft_target_model_config}
    return config


def check_tokenizer(flag: str, engine: str, tokenizer: str) -> None:
    """Each model has one tokenizer, the engine folder's or the .gguf file's; another one is not used.

    Raises:
        StartError: the one that `flag` names differs, or cannot be compared.
    """
    folder = Path(engine) if Path(engine).is_dir() else Path(engine).parent
    if Path(tokenizer).resolve() == folder.resolve():
        return
    files = [Path(name) / "tokenizer.json" for name in (folder, tokenizer)]
    if not Path(engine).is_dir() and not files[0].is_file():
        names = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")
        if not any((Path(tokenizer) / name).is_file() for name in names):
            raise StartError(f"{flag}: {tokenizer} has no tokenizer; leave the flag out")
        log.warning("%s: %s is not read, nor compared: %s has its tokenizer within", flag, tokenizer, engine)
        return
    try:
        equal = files[0].read_bytes() == files[1].read_bytes()
    except OSError as e:
        raise StartError(f"{flag}: {e.filename}: cannot be read; leave the flag out") from e
    if not equal:
        raise StartError(
            f"{flag}: {files[1]} differs from {files[0]}, which is used; "
            "leave the flag out, or put the file there"
        )
