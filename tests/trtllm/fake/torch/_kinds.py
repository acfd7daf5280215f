"""Element types and devices."""

from __future__ import annotations

from typing import Any

import numpy as np


class dtype:  # noqa: N801 (PyTorch's name)
    """An element type."""

    def __init__(self, name: str, numpy: Any) -> None:
        self.name, self.numpy = name, np.dtype(numpy)

    @property
    def itemsize(self) -> int:
        return int(self.numpy.itemsize)

    @property
    def is_floating_point(self) -> bool:
        return bool(self.numpy.kind == "f")

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float16, float32, float64 = (dtype(f"float{n}", f"f{n // 8}") for n in (16, 32, 64))
int8, int16, int32, int64 = (dtype(f"int{n}", f"i{n // 8}") for n in (8, 16, 32, 64))
uint8, bool_ = dtype("uint8", "u1"), dtype("bool", "?")
ALL = (float16, float32, float64, int8, int16, int32, int64, uint8, bool_)


def of_numpy(kind: Any) -> dtype:
    """The type of an array's elements.

    Raises:
        TypeError: there is none such (an unsigned type wider than a byte, text, …).
    """
    for known in ALL:
        if known.numpy == kind:
            return known
    raise TypeError(
        f"can't convert an array of {kind}; float16, 32, 64, int8 to 64, uint8 and bool are known"
    )


class finfo:  # noqa: N801 (PyTorch's name)
    """Limits of a floating-point type."""

    def __init__(self, kind: dtype = float32) -> None:
        limits = np.finfo(kind.numpy)
        self.min, self.max, self.eps = float(limits.min), float(limits.max), float(limits.eps)
        self.tiny = float(limits.tiny)


class device:  # noqa: N801 (PyTorch's name)
    """`cpu`, or `cuda` with a number."""

    type: str
    index: int | None

    def __init__(self, kind: str | device | int, index: int | None = None) -> None:
        text = f"cuda:{kind}" if isinstance(kind, int) else str(kind)
        name, _, number = text.partition(":")
        if name not in ("cpu", "cuda"):
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {kind}")
        self.type = name
        self.index = int(number) if number else index
        if name == "cuda" and self.index is None:
            self.index = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}', index={self.index})"


CPU = device("cpu")
