"""Tensors: a NumPy array, a device, and the mark of the stream that wrote it last."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from torch import cuda
from torch._kinds import CPU, device, dtype, of_numpy
from torch._operations import Operations, elements


class Size(tuple[int, ...]):
    """A shape."""

    __slots__ = ()

    def numel(self) -> int:
        return math.prod(self)


class _Memory:
    """What views of the same elements share: the mark of what wrote them, and whether they are pinned."""

    def __init__(self, pinned: bool = False) -> None:
        self.mark: tuple[int, int] | None = None
        self.pinned = pinned


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    found = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return tuple(int(n) for n in found)


class Tensor(Operations):
    """The operations that an adapter needs, with PyTorch's names and results."""

    __hash__ = object.__hash__

    def __init__(self, array: Any, where: device = CPU, memory: _Memory | None = None) -> None:
        of_numpy(array.dtype)
        self._array, self.device = array, where
        self._memory = memory or _Memory()

    # Streams.

    def _touch(self, *others: Any) -> None:
        """Before work on these: they are on one device, and this stream comes after what wrote them."""
        tensors = [self, *(other for other in others if isinstance(other, Tensor))]
        for other in tensors:
            if other.device != self.device and (other.dim() or other.is_cuda):
                found = f"{self.device} and {other.device}"
                raise RuntimeError(f"Expected all tensors to be on the same device, but found {found}")
            mark = other._memory.mark
            if mark is not None and not cuda.current_stream().comes_after(mark):
                here = cuda.current_stream().cuda_stream
                raise RuntimeError(f"a race: stream {here:#x} has not waited for what {mark[0]:#x} wrote")

    def _written(self) -> Tensor:
        if self.is_cuda:
            self._memory.mark = cuda.current_stream().issue()
        return self

    def _new(self, array: Any, where: device | None = None) -> Tensor:
        return Tensor(np.asarray(array), where or self.device)._written()

    def _view(self, array: Any) -> Tensor:
        return Tensor(array, self.device, self._memory)

    # What it is.

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    @property
    def dtype(self) -> dtype:
        return of_numpy(self._array.dtype)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def ndim(self) -> int:
        return int(self._array.ndim)

    @property
    def T(self) -> Tensor:  # noqa: N802 (PyTorch's name)
        return self._view(self._array.T)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return int(self._array.size)

    nelement = numel

    def element_size(self) -> int:
        return int(self._array.itemsize)

    def stride(self, dim: int | None = None) -> Any:
        steps = tuple(int(n) // self.element_size() for n in self._array.strides)
        return steps if dim is None else steps[dim]

    def is_contiguous(self) -> bool:
        return bool(self._array.flags.c_contiguous)

    def is_pinned(self) -> bool:
        return self._memory.pinned

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def get_device(self) -> int:
        return self.device.index if self.device.index is not None else -1

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"tensor({self._array!r}, device='{self.device}')"

    # Where it is.

    def _host(self) -> Any:
        """The elements for the host, which waits for this thread's stream."""
        if self.is_cuda:
            self._touch()
            cuda.current_stream().synchronize()
        return self._array

    def numpy(self) -> Any:
        if self.is_cuda:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy; use Tensor.cpu() first"
            )
        return self._array

    def tolist(self) -> Any:
        return self._host().tolist()

    def item(self) -> Any:
        return self._host().item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def pin_memory(self) -> Tensor:
        if self.is_cuda:
            raise RuntimeError("cannot pin a tensor on cuda: only dense CPU tensors can be pinned")
        return self if self.is_pinned() else Tensor(self._array.copy(), CPU, _Memory(pinned=True))

    def to(self, *wants: Any, non_blocking: bool = False, copy: bool = False, **named: Any) -> Tensor:
        where, kind = self.device, self.dtype
        for want in (*wants, named.get("device"), named.get("dtype")):
            if isinstance(want, Tensor):
                where, kind = want.device, want.dtype
            elif isinstance(want, dtype):
                kind = want
            elif isinstance(want, (str, device, int)) and not isinstance(want, bool):
                where = device(want)
        if where == self.device and kind is self.dtype and not copy:
            return self
        found = Tensor(np.empty(self._array.shape, kind.numpy), where)
        return found.copy_(self, non_blocking=non_blocking)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        if not isinstance(source, Tensor):
            raise TypeError(f"copy_(): argument 'other' must be Tensor, not {type(source).__name__}")
        for end in (self, source):
            end._touch()
        self._array[...] = source._array
        if self.is_cuda and not source.is_cuda and non_blocking and source.is_pinned():
            cuda.current_stream().reads(source._array)
        elif source.is_cuda and not self.is_cuda and not non_blocking:
            cuda.current_stream().synchronize()
        return self._written()

    def record_stream(self, stream: Any) -> None:
        """Memory here is not handed out again while somebody has it."""

    # Shapes.

    def view(self, *sizes: Any) -> Tensor:
        if len(sizes) == 1 and isinstance(sizes[0], dtype):
            return self._view(self._array.view(sizes[0].numpy))
        found = self._array.reshape(_shape(sizes))
        if found.size and not np.shares_memory(found, self._array):
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride; use .reshape(...)"
            )
        return self._view(found)

    def reshape(self, *sizes: Any) -> Tensor:
        found = self._array.reshape(_shape(sizes))
        return self._view(found) if np.shares_memory(found, self._array) else self._new(found)

    def flatten(self) -> Tensor:
        return self.reshape(-1)

    def unsqueeze(self, dim: int) -> Tensor:
        return self._view(np.expand_dims(self._array, dim))

    def squeeze(self, dim: int | None = None) -> Tensor:
        if dim is not None and self.shape[dim] != 1:
            return self
        return self._view(np.squeeze(self._array, axis=dim))

    def expand(self, *wants: Any) -> Tensor:
        wanted, have = _shape(wants), (1,) * (len(_shape(wants)) - self.ndim) + tuple(self.shape)
        sizes = [h if n == -1 else n for n, h in zip(wanted, have, strict=True)]
        return self._view(np.broadcast_to(self._array, sizes))

    def expand_as(self, other: Tensor) -> Tensor:
        return self.expand(*other.shape)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        if start + length > self.shape[dim]:
            raise RuntimeError(
                f"start ({start}) + length ({length}) exceeds dimension size ({self.shape[dim]})"
            )
        return self._view(self._array[(slice(None),) * (dim % self.ndim) + (slice(start, start + length),)])

    def select(self, dim: int, index: int) -> Tensor:
        return self._view(np.moveaxis(self._array, dim, 0)[index, ...])

    def transpose(self, first: int, second: int) -> Tensor:
        return self._view(np.swapaxes(self._array, first, second))

    def contiguous(self) -> Tensor:
        return self if self.is_contiguous() else self._new(np.ascontiguousarray(self._array))

    def clone(self) -> Tensor:
        self._touch()
        return self._new(self._array.copy())

    def detach(self) -> Tensor:
        return self._view(self._array)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Tensor:
        self._touch()
        return self._new(np.repeat(self._array, repeats, axis=dim))

    def repeat(self, *sizes: Any) -> Tensor:
        self._touch()
        return self._new(np.tile(self._array, _shape(sizes)))

    def __getitem__(self, place: Any) -> Tensor:
        index, plain = _place(place)
        if not plain:
            self._touch(*(part for part in _parts(place) if isinstance(part, Tensor)))
        found = self._array[index]
        return self._view(found) if plain else self._new(found)

    def __setitem__(self, place: Any, value: Any) -> None:
        self._touch(value)
        self._array[_place(place)[0]] = elements(value)
        self._written()


def _parts(place: Any) -> tuple[Any, ...]:
    return place if isinstance(place, tuple) else (place,)


def _place(place: Any) -> tuple[Any, bool]:
    """An index as NumPy takes it, and whether it only names a part: then what it gives is a view."""
    parts = tuple(elements(part) for part in _parts(place))
    plain = not any(isinstance(part, (np.ndarray, list)) for part in parts)
    if plain and Ellipsis not in parts:
        parts += (Ellipsis,)  # NumPy gives a number, and not a view, where every axis has an index
    return parts, plain
