"""Makes a GGUF model larger without changing what it says: `python bench/expand_model.py demo/target big`.

Speculation has to be measured with real acceptance and real costs, but a trained model of real size is
no part of a repository. So a trained small one is widened with zeros and deepened with layers that add
nothing: RMSNorm sees more values of which only the old ones are not 0, so its weights are multiplied
with sqrt(old / new width) and epsilon with old / new; new heads and feed-forward rows are 0; new layers
have output matrices of 0. Quantised blocks are copied as they are. The default has about 300 million
parameters. Its vocabulary stays small. With `--speculator`, the MLP speculator of the small model is
made to fit the large one, and written to `speculator` in its folder.

Llama models with Q8_0 matrices only. Needs the wheels `gguf`, `numpy` and `safetensors`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

Q8_0 = gguf.GGMLQuantizationType.Q8_0
BLOCK, BLOCK_BYTES = 32, 34


class Sizes:
    """Width, heads, feed-forward width and layers, before and after."""

    def __init__(self, reader: gguf.GGUFReader, args: argparse.Namespace) -> None:
        """Read those of the small model; raises `SystemExit` where the large one cannot hold it."""

        def number(name: str) -> int:
            return int(reader.fields[f"llama.{name}"].contents())

        self.head: int = number("attention.key_length")
        self.width: tuple[int, int] = (number("embedding_length"), int(args.width))
        self.heads: tuple[int, int] = (number("attention.head_count"), int(args.width) // self.head)
        self.group: int = self.heads[0] // number("attention.head_count_kv")
        self.hidden: tuple[int, int] = (number("feed_forward_length"), int(args.hidden))
        self.layers: tuple[int, int] = (number("block_count"), int(args.layers))
        for name in ("width", "heads", "hidden", "layers"):
            old, new = getattr(self, name)
            if new < old or (name in ("width", "hidden") and new % 64):
                raise SystemExit(f"--{name}: {new} must be a multiple of 64 and no less than {old}")

    def rows_of(self, name: str) -> int:
        """Rows that the matrix `name` of a layer gets."""
        query, key = self.heads[1] * self.head, self.heads[1] // self.group * self.head
        sizes = {"attn_q": query, "attn_k": key, "attn_v": key, "attn_output": self.width[1]}
        return {**sizes, "ffn_gate": self.hidden[1], "ffn_up": self.hidden[1], "ffn_down": self.width[1]}[
            name
        ]

    def columns_of(self, name: str) -> int:
        """Columns that the matrix `name` of a layer gets."""
        if name == "ffn_down":
            return self.hidden[1]
        return self.heads[1] * self.head if name == "attn_output" else self.width[1]


def padded(data: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Q8_0 rows `[rows, bytes]` with zeros beside and below."""
    out = np.zeros((rows, columns // BLOCK * BLOCK_BYTES), np.uint8)
    out[: data.shape[0], : data.shape[1]] = data
    return out


def add_metadata(writer: gguf.GGUFWriter, reader: gguf.GGUFReader, sizes: Sizes) -> None:
    """Everything that the small model says, but for its sizes."""
    epsilon = float(reader.fields["llama.attention.layer_norm_rms_epsilon"].contents())
    changed: dict[str, Any] = {
        "llama.embedding_length": sizes.width[1],
        "llama.attention.head_count": sizes.heads[1],
        "llama.attention.head_count_kv": sizes.heads[1] // sizes.group,
        "llama.feed_forward_length": sizes.hidden[1],
        "llama.block_count": sizes.layers[1],
        "llama.attention.layer_norm_rms_epsilon": epsilon * sizes.width[0] / sizes.width[1],
    }
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, changed.get(name, field.contents()), field.types[0], element)


def add_weights(writer: gguf.GGUFWriter, tensors: dict[str, Any], sizes: Sizes) -> int:
    """All tensors; the number of weights."""
    count = 0
    shrink = np.float32(np.sqrt(sizes.width[0] / sizes.width[1]))

    def matrix(name: str, data: NDArray[np.uint8], rows: int, columns: int) -> None:
        nonlocal count
        count += rows * columns
        writer.add_tensor(name, padded(data, rows, columns), raw_dtype=Q8_0)

    def norm(name: str, data: NDArray[np.float32]) -> None:
        out = np.zeros(sizes.width[1], np.float32)
        out[: sizes.width[0]] = data * shrink
        writer.add_tensor(name, out)

    for name in ("token_embd.weight", "output.weight"):
        if name in tensors:
            matrix(name, tensors[name].data, tensors[name].data.shape[0], sizes.width[1])
    norm("output_norm.weight", tensors["output_norm.weight"].data)
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for layer in range(sizes.layers[1]):
        new = layer >= sizes.layers[0]
        source = f"blk.{layer % sizes.layers[0]}"
        for name in ("attn_norm", "ffn_norm"):
            norm(f"blk.{layer}.{name}.weight", tensors[f"{source}.{name}.weight"].data)
        for name in matrices:
            data = tensors[f"{source}.{name}.weight"].data
            if new and name in ("attn_output", "ffn_down"):
                data = np.zeros_like(data)
            matrix(f"blk.{layer}.{name}.weight", data, sizes.rows_of(name), sizes.columns_of(name))
    return count


def expand_speculator(source: Path, out: Path, width: tuple[int, int]) -> None:
    """Write a speculator for states of `width[1]` numbers of which those after `width[0]` are 0."""
    description = json.loads((source / "config.json").read_text())
    weights = load_file(str(source / "model.safetensors"))
    first = weights["speculator.proj.0.weight"]
    wide = np.zeros((first.shape[0], width[1]), first.dtype)
    # Scaled states are larger, since their mean square is over more numbers.
    shrink = np.sqrt(width[0] / width[1]) if description["scale_input"] else 1.0
    wide[:, : width[0]] = first * shrink
    out.mkdir(exist_ok=True)
    save_file({**weights, "speculator.proj.0.weight": wide}, str(out / "model.safetensors"))
    (out / "config.json").write_text(json.dumps({**description, "emb_dim": width[1]}))


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="engine folder")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--speculator", type=Path, help="folder of the small model's MLP speculator")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=19)
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.source / "model.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.source.glob("*.json"):
        shutil.copyfile(file, args.out / file.name)
    writer = gguf.GGUFWriter(str(args.out / "model.gguf"), "llama")
    sizes = Sizes(reader, args)
    add_metadata(writer, reader, sizes)
    count = add_weights(writer, tensors, sizes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if args.speculator:
        expand_speculator(args.speculator, args.out / "speculator", sizes.width)
    print(f"{args.out}: {count / 1e6:.0f} million parameters")


if __name__ == "__main__":
    main()
