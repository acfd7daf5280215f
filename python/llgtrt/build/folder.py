"""The files of an engine folder besides the weights: tokenizer, template, defaults, `runtime.json`."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llgtrt import _core, templates
from llgtrt.settings import StartError

_COPIED: tuple[str | Path, ...] = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.j2",
    *templates.FILES.values(),
    "generation_config.json",
)
_HEAD = """\
// The engine's configuration: every key with its meaning and its default. Remove the // before a key to set
// it; `llgtrt serve FOLDER --print-config` shows what holds then. A flag of the server wins over this file.
"""


def read_json(file: Path) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises:
        StartError: it cannot be read.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise StartError(f"{file}: cannot be read ({e})") from e
    if not isinstance(value, dict):
        raise StartError(f"{file}: must hold an object")
    return value


def finish(source: Path, output: Path, config: Mapping[str, Any], chosen: dict[str, Any]) -> None:
    """Copies the files, and writes `runtime.json` with the keys of `chosen` set where there is none yet.

    `config` is the model's `config.json`.
    """
    for name in _COPIED:
        if (source / name).is_file():
            (output / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, output / name)
    generation = output / "generation_config.json"
    if not generation.exists() and config.get("eos_token_id") is not None:
        # There may be several, of which the model's own vocabulary names one.
        generation.write_text(json.dumps({"eos_token_id": config["eos_token_id"]}) + "\n")
    runtime = output / "runtime.json"
    if not runtime.exists():
        runtime.write_text(runtime_json(chosen))


def runtime_json(chosen: dict[str, Any]) -> str:
    """The text of a `runtime.json` that sets the keys of `chosen` and has all others as comments."""
    printed = _core.print_config(_core.load_config(None, json.dumps(chosen)))
    path: list[str] = []
    lines = []
    for line in printed.splitlines():
        found = re.fullmatch(r'(\s*)"(\w+)": (.*)', line)
        if found is None:
            path = path[:-1] if line.strip() in ("}", "},") else path
        elif found[3] == "{":
            path.append(found[2])
        elif not _sets(chosen, [*path, found[2]]):
            line = f"{found[1]}// {line.strip()}"
        lines.append(line)
    return _HEAD + "\n".join(lines) + "\n"


def _sets(chosen: Any, path: list[str]) -> bool:
    for key in path:
        if not isinstance(chosen, dict) or key not in chosen:
            return False
        chosen = chosen[key]
    return True
