"""The weightless model, bit for bit that of the server's engine `toy`: logits hash the text before them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_FACTOR = 0xD6E8_FEB8_6659_FD93
_BLURRED = 1 << 20
"""Added to token ids for noise of another kind."""
PIECES = ('{"', '":', '", "', "true", "false", "null", '"}', " the", "ing")
"""Tokens after those of the 256 bytes."""
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
WIDTH = 256 + len(PIECES) + len(SPECIAL)
END = (WIDTH - 2, WIDTH - 1)
"""Tokens that end a generation, the first one the model's own."""


def mix(x: int) -> int:
    """The hash of 64 bits."""
    x = ((x ^ x >> 32) * _FACTOR) & _MASK
    x = ((x ^ x >> 32) * _FACTOR) & _MASK
    return x ^ x >> 32


def _mix(x: Any) -> Any:
    factor, half = np.uint64(_FACTOR), np.uint64(32)
    x = (x ^ x >> half) * factor
    x = (x ^ x >> half) * factor
    return x ^ x >> half


def _bonus(end_bias: float) -> Any:
    """Text-like output: letters are likelier than other bytes."""
    found = np.zeros(WIDTH, np.float32)
    for byte in range(33, 127):
        found[byte] = 3.0 if chr(byte).isalnum() else 1.5
    found[ord(" ")] = 3.0
    found[256 + len(PIECES)] = -20.0
    found[list(END)] = end_bias
    return found


@dataclasses.dataclass(frozen=True)
class Model:
    """One model: another seed is another one, `blur` a per cent of noise on top."""

    seed: int = 1
    blur: float = 0.0
    end_bias: float = 1.0

    @staticmethod
    def of(file: Path) -> Model:
        """From an engine file.

        Raises:
            RuntimeError: there is none, or it is damaged.
        """
        try:
            content = json.loads(file.read_bytes())
            toy = content["toy"]
            return Model(int(toy["seed"]), float(toy["blur"]), float(toy["end_bias"]))
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise RuntimeError(f"[TensorRT-LLM][ERROR] Error opening engine file: {file} ({e})") from e

    def extend(self, hashes: list[int], tokens: Sequence[int]) -> None:
        """Appends the hash of each longer prefix; `hashes` begins with that of no token, the seed."""
        last = hashes[-1]
        for position, token in enumerate(tokens, len(hashes) - 1):
            last = mix(last ^ mix(token << 32 | position))
            hashes.append(last)

    def logits(self, hashes: Sequence[int], columns: slice = slice(0, WIDTH)) -> Any:
        """Rows of float32 for what follows the prefixes, `[hashes, columns]`."""
        ids = np.arange(WIDTH, dtype=np.uint64)[columns]
        prefixes = np.array(hashes, np.uint64)[:, None]

        def noise(shift: int) -> Any:
            drawn = _mix(prefixes ^ (ids + np.uint64(shift))) >> np.uint64(40)
            return drawn.astype(np.float32) / np.float32(1 << 24)

        blur = np.float32(self.blur) / np.float32(100)
        wobble = noise(0) + blur * noise(_BLURRED)
        return _bonus(self.end_bias)[columns] + np.float32(6) * wobble
