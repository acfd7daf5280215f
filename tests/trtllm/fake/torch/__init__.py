"""A stand-in for PyTorch, on NumPy: what an adapter of TensorRT-LLM does with tensors, and no more.

It is stricter than the real one where that finds mistakes. Tensors on `cuda` have no `numpy()`, do not mix
with tensors on `cpu`, and know the stream that wrote them: work on another stream that has not waited for it
is an error, and so is changing pinned memory that a `non_blocking` copy on an unsynchronised stream reads.
"""

from __future__ import annotations

from torch import cuda
from torch._creation import (
    arange,
    argmax,
    as_tensor,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    cat,
    empty,
    empty_like,
    from_numpy,
    frombuffer,
    full,
    full_like,
    inference_mode,
    log_softmax,
    logical_and,
    logical_not,
    logical_or,
    no_grad,
    ones,
    ones_like,
    softmax,
    stack,
    tensor,
    where,
    zeros,
    zeros_like,
)
from torch._kinds import bool_ as bool  # noqa: A004 (PyTorch's own name)
from torch._kinds import (
    device,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from torch._tensor import Size, Tensor

half, float, double, short, int, long = float16, float32, float64, int16, int32, int64  # noqa: A001

__version__ = "2.9.0+standin"
strided = "strided"
__all__ = [
    "Size",
    "Tensor",
    "arange",
    "argmax",
    "as_tensor",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bool",
    "cat",
    "cuda",
    "device",
    "double",
    "dtype",
    "empty",
    "empty_like",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "half",
    "inference_mode",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "long",
    "no_grad",
    "ones",
    "ones_like",
    "short",
    "softmax",
    "stack",
    "strided",
    "tensor",
    "uint8",
    "where",
    "zeros",
    "zeros_like",
]
