"""What engines make of text with published vocabularies, beside Hugging Face's own library."""

from __future__ import annotations

import json
import tarfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import DATA, PATIENCE
from tokenizers import Tokenizer

from llgtrt import _core
from llgtrt.cli import main

from . import checkpoints
from .texts import texts

VOCABULARIES = ("llama2", "llama3_1", "qwen3", "gemma3", "gptoss", "deepseek_v3")
COUNT = 500
MODEL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
"""The smallest model: an engine has one, and it has no part in encoding."""
CONFIG = {"max_batch_size": 1, "engine": {"threads": 1, "mask_threads": 0}}


class Both:
    """A vocabulary on both sides."""

    def __init__(self, file: dict[str, Any], core: _core.Engine) -> None:
        self._core = core
        self.special = {token["content"]: token["id"] for token in file["added_tokens"] if token["special"]}
        plain = [token["content"] for token in file["added_tokens"] if not token["special"]]
        self.texts = texts(COUNT, [kind for kind in (list(self.special), plain) if kind])
        self.canonical = (file["normalizer"] or {}).get("type") == "NFC"
        self._whole = Tokenizer.from_str(json.dumps(file))
        left = {"normalizer": None} if self.canonical else {}
        self._literal = Tokenizer.from_str(json.dumps(file | left))

    def ours(self, *parts: tuple[str, bool]) -> list[int]:
        """Ids of texts, and whether special tokens are known in them."""
        return self._core.encode(parts)

    def theirs(self, text: str, known: bool, whole: bool = False) -> list[int]:
        """The same; `whole`: with the canonical normaliser, which ours leaves out."""
        tokenizer = self._whole if whole else self._literal
        tokenizer.encode_special_tokens = not known
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def has_special(self, text: str) -> bool:
        """Whether a special token's text is in it."""
        return any(token in text for token in self.special)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a folder for each vocabulary."""
    file = DATA / "tokenizers.tar.xz"
    if not file.exists():
        pytest.skip("skipped: no data")
    folder = tmp_path_factory.mktemp("published")
    with tarfile.open(file) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                target = folder / member.name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(content.read())
    return folder


@pytest.fixture(scope="module", params=VOCABULARIES)
def both(
    request: pytest.FixtureRequest, published: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    folder = published / request.param
    file = json.loads((folder / "tokenizer.json").read_text())
    named = [*file["model"]["vocab"].values(), *(token["id"] for token in file["added_tokens"])]
    config = MODEL | {"vocab_size": max(named) + 1}
    (folder / "config.json").write_text(json.dumps(config))
    checkpoints.safetensors(folder / "model.safetensors", checkpoints.random_weights(config), "F16")
    output = str(tmp_path_factory.mktemp("engines") / request.param)
    assert main(["build", str(folder), "--output", output, "--qformat", "f16"]) == 0
    core = _core.Engine(output, _core.load_config(None, json.dumps(CONFIG)))
    end = time.monotonic() + PATIENCE
    while core.state()[0] == "loading" and time.monotonic() < end:
        time.sleep(0.05)
    assert core.state()[0] == "ready", core.state()
    yield Both(file, core)
    core.close()


@pytest.mark.parametrize("known", [False, True])
def test_ids_are_those_of_hugging_faces_library(both: Both, known: bool) -> None:
    assert [text for text in both.texts if both.ours((text, known)) != both.theirs(text, known)] == []


def test_special_tokens_are_known_in_templates_only(both: Both) -> None:
    changed = [text for text in both.texts if both.ours((text, False)) != both.ours((text, True))]
    assert changed == [text for text in both.texts if both.has_special(text)]
    assert len(changed) > COUNT / 20
    special = set(both.special.values())
    assert not any(special.intersection(both.ours((text, False))) for text in both.texts)


def test_texts_stay_as_they_were_written(both: Both) -> None:
    """Where a canonical normaliser would change nothing, leaving it out changes nothing."""
    normal = [unicodedata.normalize("NFC", text) for text in both.texts]
    assert [t for t in normal if both.canonical and both.ours((t, True)) != both.theirs(t, True, True)] == []
    changed = [t for t in both.texts if both.ours((t, True)) != both.theirs(t, True, True)]
    assert bool(changed) == both.canonical
    assert not set(changed).intersection(normal)


def test_a_text_between_those_of_a_template(both: Both) -> None:
    begin, *_, end = both.special
    for text in both.texts:
        ids = both.ours((f"{begin}user\n", True), (text, False), (f"{end}\n", True))
        if not both.has_special(text):
            assert ids == both.theirs(f"{begin}user\n{text}{end}\n", True)
        special = set(both.special.values())
        assert [token for token in ids if token in special] == [both.special[begin], both.special[end]]
