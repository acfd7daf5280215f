"""Every key of the configuration, from the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from llgtrt.cli import main
from llgtrt.settings import HIDDEN

from .test_cli import config, uncommented


def leaves(group: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names of every key, and their values."""
    for name, value in group.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield path + name, value


def other(key: str, value: Any, said: str) -> list[Any]:
    """Values of which the key takes at least one; `said`: how it refuses any other text."""
    special: dict[str, list[Any]] = {
        "engine.tensor_split": [[0.5, 0.5]],
        "parallel.devices": [[0]],
        "parallel.draft_devices": [[0]],
        "server.api_key_file": ["pyproject.toml"],
        "trtllm.device_ids": [[0]],
        "trtllm.draft_device_ids": [[0]],
        "server.host": ["::1"],
        "server.reasoning_markers": [["<r>", "</r>"]],
        "speculative.sources": [["forced"]],
        "speculative.synthetic_acceptance": [[0.5]],
    }
    match value:
        case _ if key in special:
            return special[key]
        case bool():
            return [not value]
        case int():
            return [value + 1]
        case float():
            return [value / 2]
        case []:
            return [["x"]]
        case str():
            return [name for name in re.findall(r'"(\w+)"', said) if name != value]
        case _:
            return [1, 1024, 0.5, "toy", True]


def test_every_key_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    usual = dict(leaves(config(capsys, "toy")))
    assert len(usual) > 60
    # Two files, or none; a list that other keys take apart; and an object of any members.
    together = {"server.ssl_certfile", "server.ssl_keyfile", "speculative.draft_target_model_config"}
    together.add("vllm.speculative_config")
    for key, value in usual.items():
        main(["serve", "toy", "--set", f"{key}=?", "--print-config"])
        choices = [] if key in together else other(key, value, capsys.readouterr().err)
        for choice in choices:
            assert choice != value
            if main(["serve", "toy", "--set", f"{key}={json.dumps(choice)}", "--print-config"]) == 0:
                found = dict(leaves(uncommented(capsys.readouterr().out)))
                assert found[key] == ([HIDDEN] if key == "server.api_keys" else choice)
                break
        else:
            assert key in together, f"{key}: {capsys.readouterr().err}"
    files = {key: "pyproject.toml" for key in sorted(together) if key.startswith("server.")}
    flags = [word for key, file in files.items() for word in ("--set", f"{key}={file}")]
    assert dict(leaves(config(capsys, "toy", *flags))).items() >= files.items()
    found = config(capsys, "toy", "--set", "speculative.draft_target_model_config=[4,[0],[1],True]")
    assert (found["speculative"]["max_draft_len"], found["speculative"]["use_logits"]) == (4, True)


def test_the_context_by_llama_servers_names(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in ["--ctx-size", "2048"], ["-c", "2048"], ["--ctx_size=2048"]:
        assert config(capsys, "toy", *flags)["engine"]["context"] == 2048
