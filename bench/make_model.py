"""Writes a Llama with random Q8_0 weights and a made-up byte-level vocabulary, to measure speed with.

    python bench/make_model.py model.gguf [--layers 20] [--width 1024] [--vocab 32000]

The default has about 300 million parameters. Needs the wheels `gguf` and `numpy`. Its text is noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
from alphabet import byte_alphabet
from numpy.typing import NDArray

HEAD = 64
BLOCK = 32
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Pieces that JSON is made of, as merges of two.
JSON = [
    '{"',
    '":',
    '",',
    '"}',
    "[{",
    "}]",
    "},",
    "],",
    'Ġ"',
    ',Ġ"',
    ':Ġ"',
    "Ġ{",
    "Ġ[",
    "ĠĠ",
    "ĠĠĠĠ",
    "00",
    "20",
]


def vocabulary(size: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Tokens and merges: bytes, pieces of JSON, then random words; each merge is of two tokens."""
    tokens = byte_alphabet()
    known = set(tokens)
    merges: list[str] = []

    def merge(left: str, right: str) -> bool:
        new = left + right
        if new in known or left not in known or right not in known:
            return False
        known.add(new)
        tokens.append(new)
        merges.append(f"{left} {right}")
        return True

    for piece in JSON:
        half = next((i for i in range(1, len(piece)) if piece[:i] in known and piece[i:] in known), 1)
        merge(piece[:half], piece[half:])
    pieces = list("etaoinshrdlucmfwypvbgkqjxz")
    starts = [*pieces, "Ġ"]
    while len(tokens) < size - len(SPECIAL):
        # Low indices are picked more often, as in a real vocabulary.
        left = starts[int(len(starts) * rng.random() ** 2)]
        right = pieces[int(len(pieces) * rng.random() ** 3)]
        if len(left) + len(right) <= 12 and merge(left, right):
            starts.append(left + right)
            if not left.startswith("Ġ"):
                pieces.append(left + right)
    return tokens + SPECIAL, merges


def quantised(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.uint8]:
    """Random Q8_0 rows, of variance 1 / columns: per block of 32 an f16 scale and 32 signed bytes."""
    blocks = columns // BLOCK
    data = np.empty((rows, blocks, 2 + BLOCK), dtype=np.uint8)
    scale = np.float16(1.0 / (73.9 * np.sqrt(columns)))
    data[:, :, :2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
    data[:, :, 2:] = rng.integers(0, 256, size=(rows, blocks, BLOCK), dtype=np.uint8)
    return data.reshape(rows, blocks * (2 + BLOCK))


def add_weights(writer: gguf.GGUFWriter, layers: int, width: int, vocab: int) -> int:
    """Adds all tensors; gives back the number of parameters."""
    rng = np.random.default_rng(1)
    hidden = width * 11 // 4 // 256 * 256
    kv = width // 4
    count = 0

    def add(name: str, rows: int, columns: int) -> None:
        nonlocal count
        count += rows * columns
        writer.add_tensor(name, quantised(rng, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q8_0)

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    add("token_embd.weight", vocab, width)
    add("output.weight", vocab, width)
    norm("output_norm.weight")
    for i in range(layers):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for name, rows, columns in [
            ("attn_q", width, width),
            ("attn_k", kv, width),
            ("attn_v", kv, width),
            ("attn_output", width, width),
            ("ffn_gate", hidden, width),
            ("ffn_up", hidden, width),
            ("ffn_down", width, hidden),
        ]:
            add(f"blk.{i}.{name}.weight", rows, columns)
    writer.add_feed_forward_length(hidden)
    return count


def add_tokenizer(writer: gguf.GGUFWriter, vocab: int) -> None:
    """Adds the vocabulary."""
    tokens, merges = vocabulary(vocab, np.random.default_rng(2))
    normal = len(tokens) - len(SPECIAL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * normal + [gguf.TokenType.CONTROL] * len(SPECIAL))
    writer.add_token_merges(merges)
    writer.add_eos_token_id(vocab - 1)
    writer.add_bos_token_id(vocab - len(SPECIAL))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--width", type=int, default=1024, help="a multiple of 256")
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--context", type=int, default=2048)
    args = parser.parse_args()

    writer = gguf.GGUFWriter(str(args.path), "llama")
    writer.add_block_count(args.layers)
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.width)
    writer.add_head_count(args.width // HEAD)
    writer.add_head_count_kv(args.width // HEAD // 4)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(args.vocab)
    add_tokenizer(writer, args.vocab)
    count = add_weights(writer, args.layers, args.width, args.vocab)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.path}: {count / 1e6:.0f} million parameters, {args.path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
