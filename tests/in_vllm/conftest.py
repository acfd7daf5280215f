"""Models: a Hugging Face folder, and the same as one that reasons."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

MARKS = {"<repo_name>": "<think>", "<file_sep>": "</think>"}
"""Special tokens that the model's template makes no use of, and what they are called instead."""


@pytest.fixture(scope="session", name="model")
def fixture_model() -> str:
    return os.environ["LLGTRT_VLLM_MODEL"]


@pytest.fixture(scope="session", name="thinking")
def fixture_thinking(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that ends its reasoning where it would write the first full stop."""
    folder = tmp_path_factory.mktemp("thinking")
    for file in Path(model).iterdir():
        shutil.copy(file, folder)
    text = (folder / "tokenizer.json").read_text()
    for old, new in MARKS.items():
        text = text.replace(old, new)
    tokens = json.loads(text)
    for token in tokens["added_tokens"]:
        # Answers show it, so that vLLM can part them there.
        token["special"] &= token["content"] not in MARKS.values()
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    added = {token["content"]: token["id"] for token in tokens["added_tokens"]}
    same_row(folder / "model.safetensors", added["</think>"], tokens["model"]["vocab"]["."])
    return str(folder)


@pytest.fixture(scope="session", name="halves")
def fixture_halves(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model without weights whose heads can be shared by two ranks; SmolLM2 has 9."""
    folder = tmp_path_factory.mktemp("halves")
    for file in Path(model).iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, folder)
    shapes = {"hidden_size": 256, "head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    shapes |= {"intermediate_size": 128, "num_hidden_layers": 2}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | shapes))
    # Not read where weights are random, but a sign of a model.
    (folder / "model.safetensors").touch()
    return str(folder)


def same_row(path: Path, token: int, other: int) -> None:
    """Gives `token` the row of `other` in the table of embeddings, so both have the same logit."""
    with path.open("r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        table = json.loads(file.read(length))["model.embed_tokens.weight"]
        start, stop = table["data_offsets"]
        row = (stop - start) // table["shape"][0]
        first = 8 + length + start
        file.seek(first + other * row)
        data = file.read(row)
        file.seek(first + token * row)
        file.write(data)
