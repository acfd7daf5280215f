"""The command line: `llgtrt serve <target>` and `llgtrt run --engine_dir <target>`."""

from __future__ import annotations

import argparse
import difflib
import ipaddress
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from llgtrt import __version__, _core, run
from llgtrt.settings import Settings, StartError, given, hidden, load, named

log = logging.getLogger(__name__)

USAGE_ERROR = 2
"""Exit code where nothing could be started."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise StartError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit code."""
    try:
        parsed = _parse(sys.argv[1:] if arguments is None else list(arguments))
        return run.main(parsed) if parsed.command == "run" else _serve(parsed)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except StartError as e:
        print(f"llgtrt: {' '.join(str(e).split())}", file=sys.stderr)
        return USAGE_ERROR


def _parser() -> _Parser:
    parser = _Parser(prog="llgtrt", description="An OpenAI-compatible inference server.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"llgtrt {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve|run")
    run.add_to(commands.add_parser("run", help="complete texts, without a server", allow_abbrev=False))
    serve = commands.add_parser("serve", help="serve a model", allow_abbrev=False)
    serve.add_argument(
        "target", nargs="?", help="engine folder, .gguf file, or `toy` (random words, no model)"
    )
    serve.add_argument("draft", nargs="?", help="draft model: engine folder or .gguf file; or MLP speculator")
    serve.add_argument("--host", help="address to listen on (127.0.0.1: this machine alone)")
    serve.add_argument("--port", type=int, help="port to listen on; 0 = a free one (3000)")
    serve.add_argument(
        "--runtime-config", metavar="FILE", help="configuration (runtime.json of the engine folder)"
    )
    serve.add_argument("--chat-template", metavar="NAME", help="template file, or a preset: chatml, llama-3")
    serve.add_argument(
        "--served-model-name", metavar="NAME", help="the model's name in the API (the folder's name)"
    )
    serve.add_argument("--api-key", metavar="KEY", help="key that clients must send (better: LLGTRT_API_KEY)")
    _add_names(serve)
    serve.add_argument(
        "--model", dest="named", metavar="NAME", help="the target, where it does not come first"
    )
    serve.add_argument("--threads", "-t", type=int, metavar="N", help="engine threads; 0 = as many as pay")
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of runtime.json by dotted name",
    )
    serve.add_argument("--seed", type=int, metavar="N", help="seed of the requests that have none (random)")
    serve.add_argument("--no-speculation", action="store_true", help="draft nothing")
    serve.add_argument(
        "--print-config", action="store_true", help="print the effective configuration and exit"
    )
    serve.add_argument("--debug", action="store_true", help="log more")
    return parser


def _add_names(serve: argparse.ArgumentParser) -> None:
    """The flags of `settings.Names`."""
    serve.add_argument(
        "--num-speculative-tokens",
        "--draft-len",
        type=int,
        metavar="N",
        help="most tokens drafted ahead of a sequence (10)",
    )
    serve.add_argument(
        "--speculative-model", metavar="NAME", help="draft model or MLP speculator, or [ngram]: prompt lookup"
    )
    serve.add_argument(
        "--ngram-prompt-lookup-max", type=int, metavar="N", help="most tokens compared in prompt lookup (6)"
    )
    serve.add_argument(
        "--ngram-prompt-lookup-min", type=int, metavar="N", help="fewest tokens compared in prompt lookup (2)"
    )
    serve.add_argument("--speculative-config", type=_mapping, metavar="JSON", help="speculation, as vLLM's")
    serve.add_argument(
        "--speculative-disable-by-batch-size", type=int, metavar="N", help="draft nothing for more sequences"
    )
    for name in ("--tensor-parallel-size", "--speculative-draft-tensor-parallel-size"):
        short = ["-tp"] if name == "--tensor-parallel-size" else []
        serve.add_argument(*short, name, type=int, metavar="N", help="ranks: 1")
    serve.add_argument(
        "--gpu-memory-utilization", type=float, metavar="F", help="share of the free memory for KV (0.5)"
    )
    serve.add_argument("--max-model-len", "--ctx-size", "-c", type=int, metavar="N", help="longest context")
    serve.add_argument("--max-num-seqs", type=int, metavar="N", help="most sequences at once (128)")
    serve.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, help="reuse KV of prefixes (yes)"
    )
    serve.add_argument("--use-v2-block-manager", action="store_true", help="no effect: there is one")
    serve.add_argument("--dtype", choices=["auto"], default="auto", help="what the file holds")


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


def _spelled(arguments: list[str], flags: set[str]) -> list[str]:
    """The arguments with `_` and `-` in the names of flags as the parser has them."""
    known = {flag.replace("_", "-"): flag for flag in flags}
    spelled = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--") and name not in flags:
            name = known.get("--" + name[2:].replace("_", "-"), name)
        spelled.append(name + equals + value)
    return spelled


def _flags(parser: argparse.ArgumentParser, command: str | None) -> set[str]:
    """Names of a command's flags."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            chosen = action.choices.get(command or "")
            return set(chosen._option_string_actions) if chosen else set()
    return set()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    flags = _flags(parser, next((a for a in arguments if not a.startswith("-")), None))
    parsed, unknown = parser.parse_known_args(_spelled(arguments, flags))
    if parsed.command == "serve" and parsed.target is None:
        if parsed.named is None:
            raise StartError(
                "the target is missing: engine folder, .gguf file, or `toy`; see `llgtrt serve --help`"
            )
        parsed.target = parsed.named
    elif parsed.command == "serve" and parsed.named not in (None, parsed.target):
        raise StartError(f"{parsed.target} and --model {parsed.named} are both targets; leave one out")
    if unknown:
        near = difflib.get_close_matches(unknown[0].split("=")[0], flags, 1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else "see `llgtrt serve --help`"
        raise StartError(f"unknown argument {unknown[0]}; {hint}")
    return parsed


def _serve(parsed: argparse.Namespace) -> int:
    if parsed.debug:
        os.environ.setdefault("LLGTRT_LOG", "debug")  # the core's log, in this process and in the engine's
    settings = load(parsed.target, parsed.runtime_config, _overrides(parsed))
    if parsed.print_config:
        print(_core.print_config(hidden(settings.config)))
        return 0
    logging.basicConfig(
        level=logging.DEBUG if parsed.debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.INFO if parsed.debug else logging.WARNING)
    _warn(parsed, settings)
    return _start(settings)


def _warn(parsed: argparse.Namespace, settings: Settings) -> None:
    """Says what an operator may not have meant."""
    if parsed.api_key is not None:
        log.warning("--api-key shows in the list of processes; use LLGTRT_API_KEY or server.api_key_file")
    if not settings.server.api_keys and not _is_loopback(settings.server.host):
        log.warning("anybody who reaches %s may use this server: there is no API key", settings.server.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _start(settings: Settings) -> int:
    # The web stack is loaded here, so that a mistake on the command line is told at once.
    from llgtrt.serve import serve

    return serve(settings)


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    """The flags that are keys of the configuration, grouped as there."""
    names = ("host", "port", "served_model_name", "chat_template")
    server = {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}
    if parsed.api_key is not None:
        server["api_keys"] = [parsed.api_key]
    if parsed.draft is not None and parsed.speculative_model is not None:
        raise StartError(f"{parsed.draft} and --speculative-model are both draft models; leave one out")
    given_names = vars(parsed) | ({"speculative_model": parsed.draft} if parsed.draft is not None else {})
    overrides = named(given_names)
    if parsed.no_speculation:
        overrides.setdefault("speculative", {})["sources"] = []
    overrides.setdefault("engine", {}).update(given({"seed": parsed.seed, "threads": parsed.threads}))
    overrides["server"] = server
    for pair in parsed.set:
        _set(overrides, pair)
    return overrides


def _set(overrides: dict[str, Any], pair: str) -> None:
    """Puts `key=value` in; the value is JSON, or else text.

    Raises:
        StartError: it is not such a pair.
    """
    key, equals, text = pair.partition("=")
    if not key or not equals:
        raise StartError(f"--set {pair}: must be KEY=VALUE, for example engine.threads=4")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    *groups, leaf = key.split(".")
    at = overrides
    for group in groups:
        at = at.setdefault(group, {})
        if not isinstance(at, dict):
            raise StartError(f"--set {pair}: {group} is not a group")
    at[leaf] = value
