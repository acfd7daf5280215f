"""The command line: `llgtrt serve <target>` and `llgtrt run --engine_dir <target>`."""

from __future__ import annotations

import argparse
import difflib
import ipaddress
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from llgtrt import __version__, _core, run
from llgtrt.settings import Settings, StartError, hidden, load, speculation

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
    serve.add_argument("target", help="engine folder, .gguf file, or `toy` (random words, no model)")
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
    serve.add_argument(
        "--draft-len", type=int, metavar="N", help="most tokens drafted ahead of a sequence (10)"
    )
    serve.add_argument(
        "--speculative-model", metavar="NAME", help="draft model or MLP speculator, or [ngram]: prompt lookup"
    )
    serve.add_argument(
        "--num-speculative-tokens", dest="draft_len", type=int, metavar="N", help="the same as --draft-len"
    )
    serve.add_argument(
        "--ngram-prompt-lookup-max", type=int, metavar="N", help="most tokens compared in prompt lookup (6)"
    )
    serve.add_argument(
        "--ngram-prompt-lookup-min", type=int, metavar="N", help="fewest tokens compared in prompt lookup (2)"
    )
    serve.add_argument("--seed", type=int, metavar="N", help="seed of the requests that have none (random)")
    serve.add_argument("--no-speculation", action="store_true", help="draft nothing")
    serve.add_argument(
        "--print-config", action="store_true", help="print the effective configuration and exit"
    )
    serve.add_argument("--debug", action="store_true", help="log more")
    return parser


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = ["--" + name.replace("_", "-") for name in vars(parsed)]
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
    speculative = speculation(
        parsed.draft or parsed.speculative_model,
        parsed.draft_len,
        parsed.ngram_prompt_lookup_max,
        parsed.ngram_prompt_lookup_min,
    )
    if parsed.no_speculation:
        speculative["sources"] = []
    engine = {} if parsed.seed is None else {"seed": parsed.seed}
    groups = {"server": server, "speculative": speculative, "engine": engine}
    return {name: group for name, group in groups.items() if group}
