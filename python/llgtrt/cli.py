"""The command line: `llgtrt serve`, `chat`, `batch`, `check`, `calibrate`, `run`, `build` and `models`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llgtrt import (
    __version__,
    _core,
    build,
    check,
    demo,
    flags,
    hub,
    interpreter,
    logs,
    models,
    mpi,
    run,
)
from llgtrt.settings import Settings, StartError, given, hidden, is_loopback, load, named

log = logging.getLogger(__name__)

USAGE_ERROR = 2
"""Exit code where nothing could be started."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit code."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        parsed = flags.parse(given, __version__)
        parsed.arguments = given
        commands = {
            "run": run.main,
            "build": build.main,
            "serve": _serve,
            "chat": _chat,
            "batch": _batch,
            "check": check.main,
            "calibrate": _calibrate,
            "models": _models,
        }
        return commands[parsed.command](parsed)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (flags.UsageError, StartError) as e:
        print(f"llgtrt: {' '.join(str(e).split())}", file=sys.stderr)
        return USAGE_ERROR


def _models(_: argparse.Namespace) -> int:
    print(models.table())
    return 0


def _serve(parsed: argparse.Namespace) -> int:
    settings = prepare(parsed)
    if settings is None:
        return 0
    # Loaded here: other commands, and a mistake on the command line, need none of it.
    from llgtrt import start

    return start.serve(settings)


def _chat(parsed: argparse.Namespace) -> int:
    from llgtrt import chat

    if chat.is_url(parsed.target):
        return chat.with_server(parsed)
    # The terminal is the conversation's.
    parsed.quiet = not parsed.debug
    settings = prepare(parsed)
    if settings is None:
        return 0
    from llgtrt import chat_inside

    return chat_inside.main(parsed, settings)


def _batch(parsed: argparse.Namespace) -> int:
    settings = prepare(parsed)
    if settings is None:
        return 0
    from llgtrt import batch

    return batch.main(parsed, settings)


def _calibrate(parsed: argparse.Namespace) -> int:
    from llgtrt import calibrate

    return calibrate.main(parsed)


def prepare(parsed: argparse.Namespace) -> Settings | None:
    """Begins the log, fetches the model, and reads the configuration; none where that was only to be printed.

    Raises:
        StartError: it cannot be used.
    """
    _begin_log(parsed)
    if parsed.demo:
        parsed.target, parsed.draft = demo.models(parsed.demo)
        parsed.served_model_name = parsed.served_model_name or ["demo"]
    if parsed.hf_repo is not None:
        parsed.target = hub.fetch(parsed.hf_repo)
    settings = load(parsed.target, parsed.runtime_config, _overrides(parsed))
    if settings.server.log_format == "json":
        logs.as_json()
    if parsed.print_config:
        print(_core.print_config(hidden(settings.config)))
        return None
    if not _leads(parsed, settings):
        return None
    _warn(parsed, settings)
    if parsed.responses_file is not None:
        settings = dataclasses.replace(settings, responses_file=Path(parsed.responses_file))
    return settings


def _leads(parsed: argparse.Namespace, settings: Settings) -> bool:
    """Whether this process serves. Else it has computed for one that does, or shown what starts the ranks.

    Where an engine has several and nobody has started them, it becomes the launcher that does.
    """
    rank, count = mpi.rank(), mpi.processes(settings)
    if rank:
        _core.follow(settings.target, settings.config)
        return False
    if rank is None and (count > 1 or parsed.dry_run):
        own = [*interpreter.command("llgtrt"), *parsed.arguments]
        line = mpi.command(count, own) if count > 1 else own
        if parsed.dry_run:
            print(shlex.join(word for word in line if word != "--dry-run"))
            return False
        log.info("starting %d ranks: %s", count, shlex.join(line))
        mpi.run(line)
    return True


def _begin_log(parsed: argparse.Namespace) -> None:
    """Sets how much is logged. The core's log begins with the first configuration that it reads."""
    if parsed.debug or parsed.quiet:
        # The core's log, in this process and in the engine's.
        os.environ.setdefault("LLGTRT_LOG", "debug" if parsed.debug else "warn")
    logs.begin(logging.DEBUG if parsed.debug else logging.WARNING if parsed.quiet else logging.INFO)


def _warn(parsed: argparse.Namespace, settings: Settings) -> None:
    """Says what an operator may not have meant."""
    flags = {"--api-key": parsed.api_key is not None, "--set": any("api_keys" in pair for pair in parsed.set)}
    for flag in (flag for flag, shows in flags.items() if shows):
        log.warning(
            "a key after %s shows in the list of processes; use LLGTRT_API_KEY or server.api_key_file", flag
        )
    if not settings.server.api_keys and not is_loopback(settings.server.host):
        log.warning("anybody who reaches %s may use this server: there is no API key", settings.server.host)


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    """The flags that are keys of the configuration, grouped as there."""
    names = ("host", "port", "chat_template")
    server = {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}
    if parsed.served_model_name is not None:
        server["served_model_name"], *server["served_model_aliases"] = parsed.served_model_name
    if parsed.api_key is not None:
        server["api_keys"] = [parsed.api_key]
    draft = parsed.draft or parsed.speculative_model
    if parsed.hf_repo_draft is not None:
        draft = hub.fetch(parsed.hf_repo_draft)
    if parsed.draft_tokenizer is not None:
        if draft is None:
            raise StartError("--draft-tokenizer: there is no draft model; name it, or leave the flag out")
        run.check_tokenizer("--draft-tokenizer", draft, parsed.draft_tokenizer)
    overrides = named(vars(parsed) | {"speculative_model": draft})
    if parsed.no_speculation:
        overrides.setdefault("speculative", {})["sources"] = []
    engine = ("seed", "threads", "numa", "generation_config", "gpu_layers", "main_gpu", "tensor_split")
    own = {name: getattr(parsed, name) for name in (*engine, "rope_scaling", *flags.ROPE)}
    overrides.setdefault("engine", {}).update(given(own))
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
