"""Memory of the invented GPU: the stand-in's `cuda`, or the real PyTorch's `cpu`, which has no streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

STANDIN = torch.__version__.endswith("standin")


class Device:
    """A stream, and tensors on it."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream() if STANDIN else None
        self.stream_ptr = self._stream.cuda_stream if self._stream else 0

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Work inside goes to the stream; afterwards it is done.

        Raises:
            RuntimeError: a mistake of whoever worked on the stream.
        """
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
        self._stream.synchronize()

    def upload(self, array: Any) -> Any:
        """A tensor with the array's memory, as the stream's work so far leaves it."""
        if self._stream is None:
            return torch.from_numpy(array)
        tensor = torch.Tensor(array, torch.device("cuda"))
        with torch.cuda.stream(self._stream):
            return tensor._written()


def host(tensor: Any) -> Any:
    """The memory of a tensor of this device."""
    return tensor._array if STANDIN else tensor.numpy()
