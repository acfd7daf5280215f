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
        if file.suffix == ".json":
            text = file.read_text()
            for old, new in MARKS.items():
                text = text.replace(old, new)
            (folder / file.name).write_text(text)
        else:
            shutil.copy(file, folder)
    tokens = json.loads((folder / "tokenizer.json").read_text())
    added = {token["content"]: token["id"] for token in tokens["added_tokens"]}
    same_row(folder / "model.safetensors", added["</think>"], tokens["model"]["vocab"]["."])
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
