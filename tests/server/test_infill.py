"""`suffix` of `/v1/completions` on the demo model, three of whose tokens become those of infilling."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata

from .serving import ROOT, Server, serving

MARKS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def renamed(source: Path, target: Path) -> None:
    """A model whose last merged tokens are the marks."""
    reader = gguf.GGUFReader(source)
    fields = {name: reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges")}
    made = ["".join(merge.split(" ")) for merge in fields["merges"][-len(MARKS) :]]
    for token, mark in zip(made, MARKS, strict=True):
        fields["tokens"][fields["tokens"].index(token)] = mark
    fields["merges"] = fields["merges"][: -len(MARKS)]
    kinds = gguf.GGUFValueType
    changed = {
        f"tokenizer.ggml.{name}": MetadataDetails(kinds.ARRAY, value, sub_type=kinds.STRING)
        for name, value in fields.items()
    }
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_with_new_metadata(reader, writer, changed, [])


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on that model."""
    folder = tmp_path_factory.mktemp("filler")
    demo = ROOT / "demo" / "target"
    shutil.copy(demo / "generation_config.json", folder)
    renamed(demo / "model.gguf", folder / "model.gguf")
    with serving(str(folder), config={"max_batch_size": 4}) as server:
        yield server.wait_ready()


def complete(server: Server, **fields: Any) -> tuple[str, int]:
    """The text, and the number of the prompt's tokens."""
    settings = {"max_tokens": 12, "seed": 1, "temperature": 1, **fields}
    answer = server.http.post("/v1/completions", json=settings)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["choices"][0]["text"], body["usage"]["prompt_tokens"]


def test_the_prompt_is_that_of_infilling(filler: Server) -> None:
    first, second, third = MARKS
    framed = f"{first}The harbour is{second} old.{third}"
    for seed in range(3):
        got = complete(filler, prompt="The harbour is", suffix=" old.", seed=seed)
        assert got == complete(filler, prompt=framed, seed=seed)
    assert got[1] == complete(filler, prompt="The harbour is")[1] + complete(filler, prompt=" old.")[1] + 3
    plain = complete(filler, prompt="The harbour is")
    assert complete(filler, prompt="The harbour is", suffix="") == plain


def test_marks_in_texts_are_text(filler: Server) -> None:
    as_text = filler.http.post("/tokenize", json={"prompt": "x<|fim_middle|>"}).json()["count"]
    inside = complete(filler, prompt="a", suffix="x<|fim_middle|>")[1]
    assert inside > complete(filler, prompt="a")[1] + 3 + as_text


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"prompt": [1, 2]}, "suffix"),
        ({"echo": True}, "suffix"),
        ({"truncate_prompt_tokens": 4}, "suffix"),
        ({"suffix": "x" * 1_000_000}, "prompt"),
    ],
)
def test_what_it_cannot_be_beside(filler: Server, fields: dict[str, Any], name: str) -> None:
    body = {"prompt": "a", "suffix": "b", "max_tokens": 4, **fields}
    answer = filler.http.post("/v1/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


def test_models_without_its_tokens_refuse_it(demo: Server) -> None:
    answer = demo.http.post("/v1/completions", json={"prompt": "a", "suffix": "b", "max_tokens": 4})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "suffix")
    assert "no tokens for filling in" in answer.json()["error"]["message"]
