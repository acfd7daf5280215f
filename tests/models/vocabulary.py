"""Gives a model of llama.cpp's generator a vocabulary that text can be written with.

The generator's own has pieces without bytes and no end token. All but the vocabulary stays as it is, byte for
byte: a writer that knows the keys' meaning could drop or round some.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import gguf

START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
JSON = ['{"', '":', '",', '"}', "},", "true", "false", "null", "00"]
WORDS = ["the", "and", "in", "er", "th", "an", "re", "on", "at", "en", "is", "it", "or", "st"]
OLD = "tokenizer."
"""What the names of all keys that are replaced begin with."""


def pieces(count: int) -> list[str]:
    """The texts of `count` normal tokens: printable ASCII, the newline, and some of several letters.

    All ids are used: a token that is in no text would be drawn by a server that takes whatever scores best,
    and not by one that knows what is unused.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    more = (a + b + c for a, b, c in product(letters, repeat=3))
    texts = dict.fromkeys([*map(chr, range(32, 127)), "\n", *JSON, *WORDS])
    for text in more:
        if len(texts) >= count:
            break
        texts[text] = None
    return list(texts)[:count]


def stored(text: str) -> str:
    """A text as `gpt2` vocabularies write it: the space and the newline have letters of their own."""
    return text.replace(" ", "Ġ").replace("\n", "Ċ")


def packed(text: str) -> bytes:
    """A string in GGUF."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def key(name: str, kind: gguf.GGUFValueType, value: bytes) -> bytes:
    """A key and its value."""
    return packed(name) + struct.pack("<I", kind) + value


def array(kind: gguf.GGUFValueType, items: Iterable[bytes]) -> bytes:
    """A list's value."""
    found = list(items)
    return struct.pack("<IQ", kind, len(found)) + b"".join(found)


def vocabulary(size: int) -> Iterator[bytes]:
    """The keys of a byte-level vocabulary without merges, whose last two tokens begin and end a message."""
    kinds = gguf.GGUFValueType
    texts = [stored(text) for text in pieces(size - 2)] + [START, END]
    types = [gguf.TokenType.NORMAL] * (size - 2) + [gguf.TokenType.CONTROL] * 2
    yield key("tokenizer.ggml.model", kinds.STRING, packed("gpt2"))
    yield key("tokenizer.ggml.pre", kinds.STRING, packed("gpt-2"))
    yield key("tokenizer.ggml.tokens", kinds.ARRAY, array(kinds.STRING, map(packed, texts)))
    numbers = (struct.pack("<i", kind) for kind in types)
    yield key("tokenizer.ggml.token_type", kinds.ARRAY, array(kinds.INT32, numbers))
    yield key("tokenizer.ggml.merges", kinds.ARRAY, array(kinds.STRING, ()))
    yield key("tokenizer.ggml.eos_token_id", kinds.UINT32, struct.pack("<I", size - 1))
    yield key("tokenizer.ggml.add_bos_token", kinds.BOOL, b"\0")
    yield key("tokenizer.chat_template", kinds.STRING, packed(TEMPLATE))


def rewrite(source: Path, target: Path) -> int:
    """Writes the model with that vocabulary; gives back how many tokens it has."""
    size = len(gguf.GGUFReader(source).fields["tokenizer.ggml.tokens"].data)
    replace(source, target, OLD, vocabulary(size))
    return size


def replace(source: Path, target: Path, old: str, new: Iterable[bytes]) -> None:
    """Writes the model with the keys `new` in place of those whose names begin with `old`."""
    reader = gguf.GGUFReader(source)
    parts = {name: b"".join(part.tobytes() for part in field.parts) for name, field in reader.fields.items()}
    keys = [*(raw for name, raw in parts.items() if not name.startswith(("GGUF.", old))), *new]
    infos = (part for tensor in reader.tensors for part in tensor.field.parts)
    tensors = b"".join(part.tobytes() for part in infos)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(reader.tensors), len(keys))
    data = head + b"".join(keys) + tensors
    padding = -len(data) % reader.alignment
    with source.open("rb") as weights, target.open("wb") as out:
        weights.seek(reader.data_offset)
        out.write(data + bytes(padding))
        while block := weights.read(1 << 20):
            out.write(block)
