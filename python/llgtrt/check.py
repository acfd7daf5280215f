"""`llgtrt check`: whether a JSON schema can be enforced, and an instance satisfies it, without a server."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from llgtrt import _core
from llgtrt.openai import hints
from llgtrt.settings import StartError, load

_LOOK_SECONDS = 0.02
"""Between two looks at a model that is being loaded."""


def main(parsed: argparse.Namespace) -> int:
    """Tells what is found; the exit code: 1 where the schema or the instance does not do.

    Raises:
        StartError: a file or the model cannot be used.
    """
    # The web stack is loaded here, so that other commands need not wait for it.
    from llgtrt.openai.grammar import verdict

    # The core's log begins with the configuration. What is loaded is nobody's concern here.
    os.environ.setdefault("LLGTRT_LOG", "warn")
    if parsed.schema == parsed.instance == "-":
        raise StartError("-: is the schema or the instance; name a file for the other one")
    schema = _read(parsed.schema)
    instance = None if parsed.instance is None else _read(parsed.instance).strip()
    settings = load(parsed.model, parsed.runtime_config, {"speculative": {"sources": []}})
    core = _open(settings.target, settings.config)
    try:
        constraint, turned = {"json_schema": schema}, False
        told = verdict(core, constraint, instance, parsed.show)
        if told["ok"] and instance is not None and not told["matches"]:
            # Outputs have spaces of one kind; an instance may be written in another.
            instance = _rewritten(parsed.instance, instance)
            told = verdict(core, constraint, instance, parsed.show)
            if not told["matches"]:
                other = {"styled": {"style": {"key_order": "any"}, "grammar": constraint}}
                turned = verdict(core, other, instance).get("matches", False)
    except _core.InvalidRequest as e:
        raise StartError(f"{parsed.instance if e.what == 'text' else parsed.schema}: {e.why}") from e
    finally:
        core.close()
    if not told["ok"]:
        place = f"{parsed.schema}#{told['pointer']}"
        print(f"{place}: {told['keyword']}: {told['reason']}")
        return 1
    _print_report(parsed.schema, schema, told)
    if parsed.show:
        print(told["lark"] or f"{parsed.schema}: Lark cannot say it")
    if instance is None:
        return 0
    if turned:
        print(f"{parsed.instance}: valid, but not in the order of the schema (grammar.key_order)")
        return 0
    print(f"{parsed.instance}: {'satisfies it' if told['matches'] else told['reason']}")
    return 0 if told["matches"] else 1


def _print_report(name: str, schema: str, told: dict[str, Any]) -> None:
    """Prints costs, places that allow less than the schema, and names that are almost keywords."""
    costs = f"compiled in {told['compile_ms']:.1f} ms, first mask in {told['mask_ms']:.2f} ms"
    needs = f"; an output takes at least {told['min_tokens']} tokens" if "min_tokens" in told else ""
    print(f"{name}: can be enforced; {costs}{needs}")
    for place in told.get("narrowed", []):
        less = f"less is allowed than it says: {place['reason']}"
        print(f"{name}#{place['pointer']}: {place['keyword']}: {less}")
    for odd, near in hints.misspelled(schema):
        print(f"{name}: {odd}: ignored, since it is no keyword; did you mean {near}?")


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise StartError(f"{name}: cannot be read ({e}); check the path") from e


def _rewritten(name: str, instance: str) -> str:
    try:
        return json.dumps(json.loads(instance), ensure_ascii=False)
    except (ValueError, RecursionError) as e:
        raise StartError(f"{name}: is not JSON ({e})") from e


def _open(target: str, config: str) -> _core.Engine:
    """The engine, for its vocabulary.

    Raises:
        StartError: it cannot be opened.
    """
    try:
        core = _core.Engine(target, config)
    except _core.CoreError as e:
        raise StartError(str(e)) from e
    while core.state()[0] == "loading":
        time.sleep(_LOOK_SECONDS)
    state, why = core.state()
    if state != "ready":
        raise StartError(why)
    return core
