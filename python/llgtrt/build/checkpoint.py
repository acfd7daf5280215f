"""A Hugging Face folder: `config.json`, and weights in one safetensors file or several with an index."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llgtrt.build.folder import read_json
from llgtrt.settings import StartError

Floats: TypeAlias = NDArray[np.float32]
_LONGEST_HEADER = 100_000_000
_WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies: `offset` and `shape` count from the file's beginning and in elements."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    offset: int


class Checkpoint:
    """A model's configuration and weights. Weights are read one at a time, when they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Reads `config.json` and the headers of the weights.

        Raises:
            StartError: a file is missing, damaged, or holds quantised weights.
        """
        self.folder = folder
        self.config: dict[str, Any] = read_json(folder / "config.json")
        if self.config.get("quantization_config") is not None:
            raise StartError(
                f"{folder}: its weights are quantised; take the model's original, in bf16 or f16"
            )
        self.tensors: dict[str, Stored] = {}
        for file in _files(folder):
            self.tensors |= _header(file)

    def kind(self) -> str:
        """The widest type among the matrices, as safetensors names it: "F32", "F16" or "BF16".

        F32 where both 16-bit types occur: neither holds the other's values.
        """
        kinds = {stored.kind for stored in self.tensors.values() if len(stored.shape) > 1}
        return kinds.pop() if len(kinds) == 1 else "F32"

    def read(self, name: str) -> Floats:
        """A tensor in its own shape.

        Raises:
            StartError: it is not there, or its type is not F32, F16 or BF16.
        """
        stored = self.tensors.get(name)
        if stored is None:
            raise StartError(f"{self.folder}: {name} is missing; the model is damaged, or not whole")
        data = np.memmap(stored.file, np.uint8, "r")
        part = data[stored.offset : stored.offset + math.prod(stored.shape) * _WIDTHS[stored.kind]]
        if stored.kind == "BF16":
            # The upper half of an F32.
            wide = part.view("<u2").astype(np.uint32) << 16
            return wide.view(np.float32).reshape(stored.shape)
        values = part.view("<f2" if stored.kind == "F16" else "<f4")
        return values.astype(np.float32).reshape(stored.shape)


def _files(folder: Path) -> list[Path]:
    """The files of weights: those that the index names, or the one that there is."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = read_json(index).get("weight_map")
        if not named:
            raise StartError(f"{index}: names no weights; download it again")
        shards = [folder / name for name in sorted(set(named.values()))]
        missing = [shard.name for shard in shards if not shard.is_file()]
        if missing:
            raise StartError(f"{folder}: {missing[0]} is missing; download the whole model")
        return shards
    single = folder / "model.safetensors"
    if not single.is_file():
        raise StartError(
            f"{folder}: no model.safetensors there; weights in another format must be saved as that first"
        )
    return [single]


def _header(file: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file: 8 bytes of length, that much JSON, data."""
    damaged = StartError(f"{file}: is damaged; download it again")
    size = file.stat().st_size
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        if length > min(size - 8, _LONGEST_HEADER):
            raise damaged
        try:
            header = json.loads(data.read(length))
        except ValueError as e:
            raise damaged from e
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            (begin, end), kind, shape = entry["data_offsets"], entry["dtype"], tuple(entry["shape"])
        except (KeyError, TypeError, ValueError) as e:
            raise damaged from e
        if kind not in _WIDTHS:
            raise StartError(f"{file}: {name} is {kind}; only F32, F16 and BF16 weights are read")
        if end - begin != math.prod(shape) * _WIDTHS[kind] or 8 + length + end > size:
            raise damaged
        found[name] = Stored(file, kind, shape, 8 + length + begin)
    return found
