"""The fake's model is the weightless engine: the files that the core's tests are held to as well."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tensorrt_llm._fake import folders
from tensorrt_llm._fake.folders import Folder
from tensorrt_llm._fake.model import WIDTH, Model

HERE = Path(__file__).parent


def test_logits_have_the_bits_of_the_file() -> None:
    for case in json.loads((HERE / "logits.json").read_text()):
        model = Model(case["seed"], case["blur"], case["end_bias"])
        hashes = [model.seed]
        model.extend(hashes, case["tokens"])
        rows = model.logits(hashes[-1:])
        assert rows.dtype == np.float32
        assert rows[0].view(np.uint32).tolist() == case["bits"]
        parts = [model.logits(hashes[-1:], slice(begin, begin + 67)) for begin in range(0, WIDTH, 67)]
        assert np.concatenate(parts, axis=1).tolist() == rows.tolist()


def test_the_tokenizer_is_the_file_s() -> None:
    assert json.loads((HERE / "tokenizer.json").read_text()) == folders.tokenizer()


def test_a_folder_is_whole(tmp_path: Path) -> None:
    folder = Folder(tp=2, draft_len=7, seed=5, config={"build_config.max_input_len": 99}).write(
        tmp_path / "engine"
    )
    names = {"config", "generation_config", "tokenizer", "tokenizer_config", "runtime"}
    files = {f"{name}.json" for name in names} | {"chat_template.jinja", "rank0.engine", "rank1.engine"}
    assert {file.name for file in folder.iterdir()} == files
    build = json.loads((folder / "config.json").read_text())["build_config"]
    assert (build["speculative_decoding_mode"], build["max_draft_len"], build["max_input_len"]) == (2, 7, 99)
    assert Model.of(folder / "rank0.engine") == Model(seed=5)
    with pytest.raises(RuntimeError, match="Error opening engine file"):
        Model.of(folder / "rank2.engine")
