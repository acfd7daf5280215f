"""The flags of `llgtrt`'s commands. Imports nothing else: as a script, it prints the help."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from typing import Any, NoReturn


class UsageError(Exception):
    """The command line is wrong. The message is one line that says what to do."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def parse(arguments: Sequence[str], version: str = "") -> argparse.Namespace:
    """Reads a command line; `_` and `-` in names of flags are the same.

    Raises:
        UsageError: it cannot be read; the message names the nearest flag that there is.
    """
    parser = _parser(version)
    flags = _flags(parser, next((a for a in arguments if not a.startswith("-")), None))
    parsed, unknown = parser.parse_known_args([_spelled(argument, flags) for argument in arguments])
    several = parsed.command in ("serve", "chat") and not parsed.draft
    if several and len(unknown) == 1 and unknown[0][0] != "-":
        # argparse wants names without flags to stand together; the draft model may stand behind flags.
        parsed.draft = unknown.pop()
    if unknown:
        near = _near(unknown[0].split("=")[0], flags)
        hint = f"did you mean {' or '.join(near)}?" if near else f"see `llgtrt {parsed.command} --help`"
        raise UsageError(f"unknown argument {unknown[0]}; {hint}")
    if parsed.command == "chat" and str(parsed.target).startswith(("http://", "https://")):
        named = {_spelled(argument, flags).split("=")[0] for argument in arguments}
        if others := sorted(named & (flags - CHAT)) or [name for name in (parsed.draft,) if name]:
            raise UsageError(
                f"{others[0]}: the server that runs there has its own model and settings; leave it out"
            )
    elif parsed.command in ("serve", "batch", "chat"):
        _check_target(parsed)
    return parsed


def _near(name: str, flags: set[str]) -> list[str]:
    """Flags that begin so, or else the one that is most like it."""
    begin = name.replace("_", "-")
    full = sorted(flag for flag in flags if len(begin) > 2 and flag.replace("_", "-").startswith(begin))
    return full or difflib.get_close_matches(name, sorted(flags), 1, cutoff=0.75)


def _check_target(parsed: argparse.Namespace) -> None:
    """There is one target: by its place, by name, or on the hub."""
    if parsed.engine is not None and parsed.engine not in ENGINES:
        # TensorRT-LLM calls the model's folder its engine.
        parsed.named, parsed.engine = parsed.named or parsed.engine, None
    given = [name for name in (parsed.target, parsed.named, parsed.hf_repo) if name is not None]
    if parsed.demo:
        given.append("--demo")
    if not given:
        raise UsageError(
            "the target is missing: engine folder, .gguf file, or `toy`; see `llgtrt serve --help`"
        )
    if len(set(given)) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are both targets; leave one out")
    parsed.target = None if parsed.hf_repo or parsed.demo else given[0]
    drafts = [parsed.draft, parsed.speculative_model, parsed.hf_repo_draft]
    given = [name for name in drafts if name is not None]
    if parsed.demo and given:
        raise UsageError(f"{given[0]}: --demo brings its own models; name both models without it")
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are both draft models; leave one out")


def _spelled(argument: str, flags: set[str]) -> str:
    """The argument with `_` and `-` in the name of a flag as the parser has them."""
    name, equals, value = argument.partition("=")
    if name.startswith("--") and name not in flags:
        known = {flag.replace("_", "-"): flag for flag in flags}
        name = known.get("--" + name[2:].replace("_", "-"), name)
    return name + equals + value


def _flags(parser: argparse.ArgumentParser, command: str | None) -> set[str]:
    """Names of a command's flags."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            chosen = action.choices.get(command or "")
            return set(chosen._option_string_actions) if chosen else set()
    return set()


def _parser(version: str) -> _Parser:
    parser = _Parser(
        prog="llgtrt",
        description="An inference server for constrained output, with OpenAI's API.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"llgtrt {version}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="serve|chat|batch|check|calibrate|run|build|models"
    )
    _add_run(commands.add_parser("run", help="complete texts without a server", allow_abbrev=False))
    _add_build(commands.add_parser("build", help="make an engine folder", allow_abbrev=False))
    _add_check(commands.add_parser("check", help="check a JSON schema", allow_abbrev=False))
    calibrate = commands.add_parser("calibrate", help="calibrate typed decisions", allow_abbrev=False)
    calibrate.add_argument("input", metavar="examples.jsonl", help="states, questions and right answers")
    calibrate.add_argument(
        "--url",
        default="http://127.0.0.1:3000",
        help="address of a running server (default: %(default)s); LLGTRT_API_KEY is its key",
    )
    commands.add_parser("models", help="list the real models that were tested", allow_abbrev=False)
    batch = commands.add_parser(
        "batch", help="answer a file of requests without a server", allow_abbrev=False
    )
    batch.add_argument("input", metavar="in.jsonl", help="requests in OpenAI's batch format")
    batch.add_argument("output", metavar="out.jsonl", help="answers; answered requests are skipped")
    batch.set_defaults(host=None, port=None, api_key=None, responses_file=None)
    chat = commands.add_parser("chat", help="talk with a model in the terminal", allow_abbrev=False)
    chat.set_defaults(host=None, port=None, api_key=None, responses_file=None)
    _add_chat(chat)
    serve = commands.add_parser("serve", help="start a server", allow_abbrev=False)
    for command in (serve, batch, chat):
        _add_model(command)
        _add_engine(command)
        _add_names(command)
        _add_places(command)
    _add_listening(serve)
    return parser


def _add_check(check: argparse.ArgumentParser) -> None:
    add = check.add_argument
    add("schema", metavar="schema.json", help="the schema; -: standard input")
    add("instance", nargs="?", metavar="instance.json", help="JSON to compare with it; -: standard input")
    add("--model", default="toy", metavar="NAME", help="measure times with its vocabulary (`toy`)")
    add("--show", choices=["lark"], help="print the schema's grammar")
    add("--runtime-config", metavar="FILE", help="configuration file (the folder's runtime.json)")


def _add_chat(chat: argparse.ArgumentParser) -> None:
    """Those of the conversation. Where there is no terminal, standard input is the one message."""
    chat.description = (
        "Talks with a model, or with a server: the target may be its URL (LLGTRT_API_KEY is the key)."
    )
    add = chat.add_argument
    add("--system", metavar="TEXT", help="the system prompt")
    add("--schema", metavar="FILE", help="JSON schema that every answer follows")
    add("--max-tokens", type=int, metavar="N", help="most tokens of an answer (the configuration's)")
    add("--temperature", type=float, metavar="T", help="(the configuration's)")


def _add_listening(serve: argparse.ArgumentParser) -> None:
    """Flags of the address and of keys."""
    add = serve.add_argument
    add("--host", help="address to listen on (127.0.0.1: this machine only)")
    add("--port", type=int, help="port to listen on; 0: a free one (3000)")
    add("--api-key", metavar="KEY", help="API key that clients must send; prefer LLGTRT_API_KEY")
    add("--responses-file", metavar="FILE", help="SQLite file for stored responses (in memory)")


def _add_model(serve: argparse.ArgumentParser) -> None:
    """Flags of the model."""
    add = serve.add_argument
    add("target", nargs="?", help="the model: .gguf file, engine folder, or `toy` (random words)")
    add("draft", nargs="?", help="draft model (.gguf file or engine folder) or MLP speculator")
    add(
        "--demo",
        nargs="?",
        const=DEMOS[0],
        choices=DEMOS,
        help="serve SmolLM2-135M-Instruct, or a smaller pair (tiny), as `demo`",
    )
    add("--runtime-config", "--config", metavar="FILE", help="configuration file (the folder's runtime.json)")
    add("--chat-template", metavar="NAME", help="chat template: a file, or a preset (chatml, llama-3)")
    add(
        "--served-model-name",
        "--alias",
        nargs="+",
        metavar="NAME",
        help="the model's name in the API, and further names (the folder's name)",
    )
    add("--model", dest="named", metavar="NAME", help="the model, if it is not the first argument")
    engines = f"what computes the model: {', '.join(ENGINES)} (by its format); or the model, as --model"
    add("--engine", metavar="NAME", help=engines)
    add("--hf-repo", "-hf", "-hfr", metavar="REPO", help="model from the hub: org/name, org/name:Q4_K_M")
    add("--hf-repo-draft", "-hfd", "-hfrd", metavar="REPO", help="draft model from the hub")
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of runtime.json by its dotted name",
    )
    add("--seed", type=int, metavar="N", help="seed for requests without one (random)")
    add("--no-speculation", action="store_true", help="switch speculation off")
    add("--print-config", action="store_true", help="print the effective configuration and exit")
    add("--dry-run", action="store_true", help="print the command that starts all ranks, and exit")
    add("--debug", action="store_true", help="log more")
    add("--quiet", action="store_true", help="log only warnings, errors and the access log")


def _add_engine(serve: argparse.ArgumentParser) -> None:
    """Keys of `engine` with llama-server's names."""
    add = serve.add_argument
    add("--threads", "-t", type=int, metavar="N", help="engine threads; 0: one for each physical core (0)")
    add("--numa", choices=("distribute", "isolate"), help="how threads are placed on NUMA nodes")
    add("--rope-scaling", choices=("none", "linear", "yarn"), help="for contexts beyond the trained one")
    for name, what in ROPE.items():
        add(
            "--" + name.replace("_", "-"),
            type=int if name == "yarn_orig_ctx" else float,
            metavar="N",
            help=what,
        )


def _add_names(serve: argparse.ArgumentParser) -> None:
    """Flags with vLLM's names (`settings.Names`)."""
    add = serve.add_argument
    for names, what in NUMBERS.items():
        add(*names.split(), type=int, metavar="N", help=what)
    add("--speculative-model", "--draft-engine", metavar="NAME", help="draft model; [ngram]: prompt lookup")
    add("--draft-tokenizer", metavar="DIR", help="its tokenizer folder; must be that of the model")
    add("--speculative-config", type=_mapping, metavar="JSON", help="speculation settings in vLLM's format")
    add(
        "--gpu-memory-utilization",
        type=float,
        metavar="F",
        help="share of free memory for KV (0.5; GPU: 0.9)",
    )
    add("--enable-prefix-caching", action=argparse.BooleanOptionalAction, help="reuse KV of prefixes (yes)")
    add("--generation-config", choices=["auto", "none"], help="read generation_config.json (auto)")
    add("--distributed-executor-backend", choices=["auto", "mp", "ray"], help="vLLM: how devices are used")
    add("--dtype", default="auto", metavar="TYPE", help="must be auto, but for vLLM: the type of the file")
    add("--engine-args", type=_mapping, metavar="JSON", help="more arguments of vLLM's AsyncEngineArgs")
    add("--use-v2-block-manager", action="store_true", help="no effect")


NUMBERS = {
    "--num-speculative-tokens --draft-len --n-draft-tokens": "maximum draft length (chosen, up to 32)",
    "--ngram-prompt-lookup-max": "prompt lookup: maximum tokens to match (6)",
    "--ngram-prompt-lookup-min": "prompt lookup: minimum tokens to match (2)",
    "--speculative-disable-by-batch-size": "no drafts above N sequences",
    "--speculative-draft-tensor-parallel-size": "devices of the draft model (as many as the target's)",
    "--tensor-parallel-size --tp -tp": "devices of the model (1)",
    "--pipeline-parallel-size --pp -pp": "vLLM: stages of the model's layers (1)",
    "--max-model-len --ctx-size -c": "longest context (the model's)",
    "--max-num-seqs": "maximum sequences that run at once (128)",
}
"""Flags with vLLM's names that take a number."""


def _add_places(serve: argparse.ArgumentParser) -> None:
    """Flags of GPUs, with llama-server's names."""
    add = serve.add_argument
    add(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        type=_layers,
        metavar="N",
        help="layers on GPUs (all that fit)",
    )
    add("-mg", "--main-gpu", type=int, metavar="N", help="use this GPU only (all)")
    add("-ts", "--tensor-split", type=_shares, metavar="LIST", help="shares of GPUs: 3,1 (by free memory)")


ROPE = {
    "rope_freq_scale": "scale of positions, 0.25 for four times the trained context",
    "rope_freq_base": "base frequency of RoPE",
    "yarn_orig_ctx": "YaRN: tokens that the model was trained for",
    "yarn_ext_factor": "YaRN: how far positions are extrapolated",
    "yarn_attn_factor": "YaRN: factor of attention's scores",
    "yarn_beta_slow": "YaRN: rotations below which a dimension is interpolated",
    "yarn_beta_fast": "YaRN: rotations above which it is left as it is",
}
"""Flags with llama-server's names, each a key of `engine`."""

CHAT = {"--system", "--schema", "--max-tokens", "--temperature", "--seed"}
"""Flags of `llgtrt chat` that are about requests: the others are about a model of its own."""

ENGINES = ("auto", "llama_cpp", "vllm", "tensorrt_llm")
"""What may compute a model, as `engine.backend` has it."""

DEMOS = ("smollm2", "tiny")
"""What `--demo` may name; the first one where it names nothing."""

ALL_LAYERS = 65_535
"""More than any model has: `engine.gpu_layers` of a model that must lie on GPUs as a whole."""


TRTLLM_BUILD: dict[str, dict[str, Any]] = {
    "--role": {"choices": ["target", "draft"], "help": "its role in speculation (none: it serves alone)"},
    "--tp": {"type": int, "metavar": "N", "help": "tensor parallel size (1)"},
    "--kv-cache-dtype": {"choices": ["fp8", "int8"], "help": "type of KV (the weights')"},
    "--max-draft-len": {"type": int, "metavar": "N", "help": "maximum draft tokens in a round (10)"},
    "--use-logits": {"action": "store_true", "help": "the draft's logits decide: --gather_generation_logits"},
    "--max-batch-size": {"type": int, "metavar": "N", "help": "maximum sequences at once (128)"},
    "--max-input-len": {"type": int, "metavar": "N", "help": "longest prompt (--max-seq-len)"},
    "--max-seq-len": {"type": int, "metavar": "N", "help": "longest sequence (as the model was trained)"},
    "--max-num-tokens": {"type": int, "metavar": "N", "help": "maximum tokens in one step (8192)"},
    "--calib-size": {"type": int, "metavar": "N", "help": "number of texts to calibrate with (512)"},
    "--checkpoint-dir": {"metavar": "DIR", "help": "keep TensorRT-LLM's checkpoint there (deleted)"},
    "--examples": {"metavar": "DIR", "help": "TensorRT-LLM's examples (the container's)"},
    "--dry-run": {"action": "store_true", "help": "print the command lines, and exit"},
}
"""Flags of `llgtrt build` that are TensorRT-LLM's alone."""


def _add_build(build: argparse.ArgumentParser) -> None:
    add = build.add_argument
    add("source", metavar="hf-folder", help="a Hugging Face model: config.json, .safetensors, tokenizer.json")
    add("--output", "-o", required=True, metavar="DIR", help="the engine folder")
    add("--engine", choices=["llama", "trtllm"], default="llama", help="llama.cpp or TensorRT-LLM (llama)")
    add(
        "--qformat",
        metavar="NAME",
        help="llama: f16, bf16, q8_0, q4_0, q4_k_m (q8_0); trtllm: fp8, nvfp4, int4_awq, w4a8_awq, int8_sq, "
        "f16, bf16 (the model's own type)",
    )
    group = build.add_argument_group("with --engine trtllm")
    for flag, settings in TRTLLM_BUILD.items():
        group.add_argument(flag, **settings)


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


def _layers(text: str) -> int | None:
    """A number of layers as llama-server has it; below 0: all."""
    if text == "auto":
        return None
    layers = ALL_LAYERS if text == "all" else int(text)
    return layers if layers >= 0 else ALL_LAYERS


def _shares(text: str) -> list[float]:
    return [float(share) for share in text.replace("/", ",").split(",")]


def _add_run(run: argparse.ArgumentParser) -> None:
    """Flags of TensorRT-LLM's `run.py`."""
    add = run.add_argument
    add("--engine_dir", required=True, help="engine folder, .gguf file, or `toy`")
    add("--draft_engine_dir", help="draft model or MLP speculator")
    add("--tokenizer_dir", help="folder of the tokenizer, if it is said: that of the engine")
    add("--input_text", nargs="+", help="texts to complete")
    add("--input_file", metavar="FILE", help="a text, or token ids in a .csv, one prompt in each line")
    add("--max_input_length", type=int, metavar="N", help="keep only this many tokens at the end of a prompt")
    add("--max_output_len", type=int, required=True, help="maximum tokens of each output")
    add(
        "--draft_target_model_config",
        metavar="LIST",
        help='"[draft_len, [draft devices], [target devices], use_logits]"',
    )
    add("--kv_cache_enable_block_reuse", action="store_true", default=None, help="reuse KV of prefixes")
    add("--kv_cache_free_gpu_memory_fraction", type=float, metavar="F", help="share of free memory for KV")
    add("--max_tokens_in_paged_kv_cache", type=int, metavar="N", help="maximum tokens in the KV cache")
    add("--enable_chunked_context", action="store_true", help="no effect: prefill is always chunked")
    add("--num_beams", type=int, default=1, help="1: beam search is not supported")
    add("--use_py_session", action="store_true", help="not supported")
    add("--temperature", type=float, help="(the configuration's, or 1)")
    add("--top_k", type=int, help="1 = greedy (the configuration's, or 1)")
    add("--top_p", type=float, help="0 = all tokens")
    add("--min_p", type=float)
    for name in ("repetition", "presence", "frequency"):
        add(f"--{name}_penalty", type=float)
    add("--random_seed", type=int)
    add("--stop_words", nargs="+", metavar="TEXT", help="texts that end an output")
    add("--end_id", type=int, metavar="ID", help="the token that ends an output (the model's); -1 = none")
    add("--pad_id", type=int, metavar="ID", help="no effect")
    add("--output_csv", metavar="FILE", help="write the outputs' token ids here, one output in each line")
    add("--output_generation_logits", action="store_true", help="no effect")
    add("--streaming", action="store_true", help="print the outputs as they grow")
    add("--streaming_interval", type=int, default=5, metavar="N", help="tokens between two prints (5)")
    add("--run_profiling", action="store_true", help="run ten more times, and print the time")
    add("--log_level", metavar="LEVEL", help="`verbose`: log more")
    add("--runtime-config", metavar="FILE", help="configuration file (the folder's runtime.json)")


if __name__ == "__main__":
    import sys

    try:
        parse(sys.argv[1:])
    except UsageError as e:
        sys.exit(f"llgtrt: {e}")
