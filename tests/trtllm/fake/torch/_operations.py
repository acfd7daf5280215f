"""What is computed of tensors, element by element and along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import Self

from torch._kinds import bool_, dtype, float16, float32, float64, int8, int16, int32, int64, uint8


def elements(value: Any) -> Any:
    """An operand as NumPy takes it: Python's numbers stay numbers, which don't change an element type."""
    return value._array if isinstance(value, Operations) else value


class Operations:
    """The part of tensors that knows nothing of devices and memory."""

    _array: Any

    def _touch(self, *others: Any) -> None:
        raise NotImplementedError

    def _written(self) -> Self:
        raise NotImplementedError

    def _new(self, array: Any) -> Self:
        raise NotImplementedError

    def _binary(self, compute: Callable[..., Any], other: Any) -> Self:
        self._touch(other)
        return self._new(compute(self._array, elements(other)))

    def _in_place(self, compute: Callable[..., Any], other: Any) -> Self:
        self._touch(other)
        self._array[...] = compute(self._array, elements(other))
        return self._written()

    def _unary(self, compute: Callable[..., Any]) -> Self:
        self._touch()
        return self._new(compute(self._array))

    def _along(self, compute: Callable[..., Any], dim: Any, keepdim: bool) -> Self:
        self._touch()
        return self._new(np.asarray(compute(self._array, axis=dim, keepdims=keepdim)))

    # Arithmetic.

    def __add__(self, other: Any) -> Self:
        return self._binary(np.add, other)

    def __sub__(self, other: Any) -> Self:
        return self._binary(np.subtract, other)

    def __mul__(self, other: Any) -> Self:
        return self._binary(np.multiply, other)

    def __truediv__(self, other: Any) -> Self:
        return self._binary(_divide, other)

    def __floordiv__(self, other: Any) -> Self:
        return self._binary(np.floor_divide, other)

    def __mod__(self, other: Any) -> Self:
        return self._binary(np.mod, other)

    def __rsub__(self, other: Any) -> Self:
        return self._binary(lambda own, left: left - own, other)

    __radd__, __rmul__, add, sub, mul, div = __add__, __mul__, __add__, __sub__, __mul__, __truediv__

    def __neg__(self) -> Self:
        return self._unary(np.negative)

    def add_(self, other: Any) -> Self:
        return self._in_place(np.add, other)

    def sub_(self, other: Any) -> Self:
        return self._in_place(np.subtract, other)

    def mul_(self, other: Any) -> Self:
        return self._in_place(np.multiply, other)

    def div_(self, other: Any) -> Self:
        return self._in_place(_divide, other)

    __iadd__, __isub__, __imul__, __itruediv__ = add_, sub_, mul_, div_

    def exp(self) -> Self:
        return self._unary(np.exp)

    def log(self) -> Self:
        return self._unary(np.log)

    def abs(self) -> Self:
        return self._unary(np.abs)

    def clamp(self, min: float | None = None, max: float | None = None) -> Self:  # noqa: A002 (PyTorch's names)
        return self._unary(lambda own: np.clip(own, min, max))

    # Bits and truth.

    def __and__(self, other: Any) -> Self:
        return self._binary(np.bitwise_and, other)

    def __or__(self, other: Any) -> Self:
        return self._binary(np.bitwise_or, other)

    def __xor__(self, other: Any) -> Self:
        return self._binary(np.bitwise_xor, other)

    def __lshift__(self, other: Any) -> Self:
        return self._binary(np.left_shift, other)

    def __rshift__(self, other: Any) -> Self:
        return self._binary(np.right_shift, other)

    def __invert__(self) -> Self:
        return self._unary(np.invert)

    bitwise_and, bitwise_or, bitwise_xor, bitwise_not = __and__, __or__, __xor__, __invert__
    bitwise_left_shift, bitwise_right_shift = __lshift__, __rshift__

    def bitwise_and_(self, other: Any) -> Self:
        return self._in_place(np.bitwise_and, other)

    def bitwise_right_shift_(self, other: Any) -> Self:
        return self._in_place(np.right_shift, other)

    __iand__ = bitwise_and_

    def logical_and(self, other: Any) -> Self:
        return self._binary(np.logical_and, other)

    def logical_or(self, other: Any) -> Self:
        return self._binary(np.logical_or, other)

    def logical_not(self) -> Self:
        return self._unary(np.logical_not)

    def logical_not_(self) -> Self:
        self._touch()
        self._array[...] = np.logical_not(self._array)
        return self._written()

    # Comparisons.

    def __eq__(self, other: object) -> Self:  # type: ignore[override] # element by element
        return self._binary(np.equal, other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override] # element by element
        return self._binary(np.not_equal, other)

    def __lt__(self, other: Any) -> Self:
        return self._binary(np.less, other)

    def __le__(self, other: Any) -> Self:
        return self._binary(np.less_equal, other)

    def __gt__(self, other: Any) -> Self:
        return self._binary(np.greater, other)

    def __ge__(self, other: Any) -> Self:
        return self._binary(np.greater_equal, other)

    eq, ne, lt, le, gt, ge = __eq__, __ne__, __lt__, __le__, __gt__, __ge__

    # Filling.

    def fill_(self, value: Any) -> Self:
        return self._in_place(lambda _, new: new, value)

    def zero_(self) -> Self:
        return self.fill_(0)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        self._check_mask(mask)
        self._touch(mask, value)
        np.copyto(self._array, np.asarray(elements(value), self._array.dtype), where=elements(mask))
        return self._written()

    def masked_fill(self, mask: Any, value: Any) -> Self:
        self._check_mask(mask)
        self._touch(mask, value)
        return self._new(
            np.where(elements(mask), np.asarray(elements(value), self._array.dtype), self._array)
        )

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        self._touch(index, value)
        np.moveaxis(self._array, dim, 0)[elements(index)] = elements(value)
        return self._written()

    def scatter_(self, dim: int, index: Any, src: Any) -> Self:
        self._touch(index, src)
        np.put_along_axis(self._array, elements(index), elements(src), axis=dim)
        return self._written()

    def index_select(self, dim: int, index: Any) -> Self:
        self._touch(index)
        return self._new(np.take(self._array, elements(index), axis=dim))

    def gather(self, dim: int, index: Any) -> Self:
        self._touch(index)
        return self._new(np.take_along_axis(self._array, elements(index), axis=dim))

    @staticmethod
    def _check_mask(mask: Any) -> None:
        if elements(mask).dtype != np.bool_:
            raise RuntimeError(
                f"masked_fill only supports boolean masks, but got mask of {elements(mask).dtype}"
            )

    # Along axes.

    def sum(self, dim: Any = None, keepdim: bool = False) -> Self:
        return self._along(np.sum, dim, keepdim)

    def any(self, dim: Any = None, keepdim: bool = False) -> Self:
        return self._along(np.any, dim, keepdim)

    def all(self, dim: Any = None, keepdim: bool = False) -> Self:
        return self._along(np.all, dim, keepdim)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Self:
        return self._along(np.max, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        return self._along(np.argmax, dim, keepdim)

    def softmax(self, dim: int) -> Self:
        return self._unary(lambda own: _softmax(own, dim))

    def log_softmax(self, dim: int) -> Self:
        return self._unary(lambda own: _log_softmax(own, dim))

    # Element types.

    def type(self, kind: dtype) -> Self:
        return self._unary(lambda own: own.astype(kind.numpy))

    def bool(self) -> Self:
        return self.type(bool_)

    def half(self) -> Self:
        return self.type(float16)

    def float(self) -> Self:
        return self.type(float32)

    def double(self) -> Self:
        return self.type(float64)

    def byte(self) -> Self:
        return self.type(uint8)

    def char(self) -> Self:
        return self.type(int8)

    def short(self) -> Self:
        return self.type(int16)

    def int(self) -> Self:
        return self.type(int32)

    def long(self) -> Self:
        return self.type(int64)


def _divide(left: Any, right: Any) -> Any:
    found = np.true_divide(left, right)
    whole = all(np.asarray(side).dtype.kind in "biu" for side in (left, right))
    return found.astype(np.float32) if whole else found  # PyTorch's quotient of whole numbers is a float32


def _softmax(array: Any, axis: int) -> Any:
    exponents = np.exp(array - np.max(array, axis=axis, keepdims=True))
    return exponents / np.sum(exponents, axis=axis, keepdims=True)


def _log_softmax(array: Any, axis: int) -> Any:
    shifted = array - np.max(array, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
