"""Where tensors come from, and what is computed of several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from torch._kinds import CPU, bool_, device, dtype, float32, int64
from torch._tensor import Tensor, _Memory, _shape


def _placed(array: Any, where: Any, pin_memory: bool = False) -> Tensor:
    place = CPU if where is None else device(where)
    if pin_memory and place != CPU:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return Tensor(array, place, _Memory(pin_memory))._written()


def empty(*sizes: Any, dtype: dtype = float32, device: Any = None, pin_memory: bool = False) -> Tensor:
    found = np.empty(_shape(sizes), dtype.numpy)
    found.view(np.uint8 if found.ndim else found.dtype)[...] = 0xA5 if found.ndim else 0  # nothing to rely on
    return _placed(found, device, pin_memory)


def zeros(*sizes: Any, dtype: dtype = float32, device: Any = None, pin_memory: bool = False) -> Tensor:
    return _placed(np.zeros(_shape(sizes), dtype.numpy), device, pin_memory)


def ones(*sizes: Any, dtype: dtype = float32, device: Any = None, pin_memory: bool = False) -> Tensor:
    return _placed(np.ones(_shape(sizes), dtype.numpy), device, pin_memory)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    kind = dtype or _kind_of(fill_value)
    return _placed(np.full(_shape((tuple(size),)), fill_value, kind.numpy), device, pin_memory)


def empty_like(like: Tensor, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    return empty(like.shape, dtype=dtype or like.dtype, device=device or like.device)


def zeros_like(like: Tensor, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    return zeros(like.shape, dtype=dtype or like.dtype, device=device or like.device)


def ones_like(like: Tensor, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    return ones(like.shape, dtype=dtype or like.dtype, device=device or like.device)


def full_like(like: Tensor, fill_value: Any, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    return full(like.shape, fill_value, dtype=dtype or like.dtype, device=device or like.device)


def arange(*bounds: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    whole = all(isinstance(bound, int) for bound in bounds)
    kind = dtype or (int64 if whole else float32)
    return _placed(np.arange(*bounds).astype(kind.numpy), device)


def _kind_of(data: Any) -> dtype:
    kind = np.asarray(data).dtype.kind
    return bool_ if kind == "b" else int64 if kind in "iu" else float32


def tensor(data: Any, *, dtype: dtype | None = None, device: Any = None, pin_memory: bool = False) -> Tensor:
    """A copy of Python's numbers, or of an array."""
    if isinstance(data, Tensor):
        return data.clone()
    if isinstance(data, np.ndarray):
        return _placed(np.array(data, dtype.numpy if dtype else data.dtype), device, pin_memory)
    return _placed(np.array(data, (dtype or _kind_of(data)).numpy), device, pin_memory)


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    found = data if isinstance(data, Tensor) else None
    if found is None:
        found = from_numpy(data) if isinstance(data, np.ndarray) else tensor(data, dtype=dtype)
    return found.to(device=device, dtype=dtype)


def from_numpy(array: Any) -> Tensor:
    """The array's memory."""
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors have none such"
        )
    return Tensor(array)


def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """The buffer's memory."""
    return Tensor(np.frombuffer(buffer, dtype.numpy, count, offset))


def _joined(join: Callable[..., Any], tensors: Sequence[Tensor], dim: int) -> Tensor:
    tensors[0]._touch(*tensors[1:])
    return tensors[0]._new(join([t._array for t in tensors], axis=dim))


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return _joined(np.concatenate, tensors, dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return _joined(np.stack, tensors, dim)


def where(condition: Tensor, this: Any, other: Any) -> Tensor:
    condition._touch(this, other)
    sides = [side._array if isinstance(side, Tensor) else side for side in (this, other)]
    return condition._new(np.where(condition._array, *sides))


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """There are no gradients."""
    yield


inference_mode = no_grad

argmax, softmax, log_softmax = Tensor.argmax, Tensor.softmax, Tensor.log_softmax
bitwise_and, bitwise_or, bitwise_not = Tensor.__and__, Tensor.__or__, Tensor.__invert__
bitwise_right_shift = Tensor.__rshift__
logical_and, logical_or, logical_not = Tensor.logical_and, Tensor.logical_or, Tensor.logical_not
