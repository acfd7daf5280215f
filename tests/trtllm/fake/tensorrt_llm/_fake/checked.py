"""Classes as the bindings have them: they refuse arguments of another type, and some cannot be changed."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import functools
import os
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from typing_extensions import dataclass_transform

_Class = TypeVar("_Class", bound=type)

Duration = datetime.timedelta | float
"""What a `std::chrono` argument takes; a number is in seconds."""


def accepts(kind: Any, value: Any) -> bool:
    """Whether the bindings would convert `value` to `kind`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(accepts(option, value) for option in inner)
    if origin is list:
        return isinstance(value, (list, tuple)) and all(accepts(inner[0], item) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            accepts(inner[0], k) and accepts(inner[1], v) for k, v in value.items()
        )
    if origin is collections.abc.Callable:
        return callable(value)
    if kind is None or kind is type(None):
        return value is None
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _check(owner: str, name: str, kind: Any, value: Any) -> None:
    if not accepts(kind, value):
        shown = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"{owner}(): incompatible function arguments: {name} wants {kind}, not {value!r} ({shown})"
        )


def _is_old() -> bool:
    """`FAKE_TRTLLM_RELEASE=0.18` leaves out what later releases have brought."""
    return os.environ.get("FAKE_TRTLLM_RELEASE") == "0.18"


@dataclass_transform(field_specifiers=(dataclasses.field,))
def binding(frozen: bool = False, newer: Sequence[str] = ()) -> Callable[[_Class], _Class]:
    """A class of properties that have the types they are declared with, for ever (`frozen`: and the values).

    `newer`: those that early releases lack.
    """

    def decorate(plain: _Class) -> _Class:
        for name in newer if _is_old() else ():
            del plain.__annotations__[name]
            delattr(plain, name)
        made: Any = dataclasses.dataclass(eq=False)(plain)
        init, names = made.__init__, [field.name for field in dataclasses.fields(made)]
        hints = functools.cache(lambda: typing.get_type_hints(made))

        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807 (put into the class)
            init(self, *given, **named)
            self.__dict__["_whole"] = True

        def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807 (put into the class)
            if frozen and self.__dict__.get("_whole"):
                raise AttributeError(f"property '{name}' of '{made.__name__}' object has no setter")
            if name in hints():
                _check(made.__name__, name, hints()[name], value)
            self.__dict__[name] = value

        __init__.__wrapped__ = init  # type: ignore[attr-defined] # what `inspect.signature` shows
        made.__init__, made.__setattr__ = __init__, __setattr__
        for name in names:
            setattr(made, name, property(_reader(name)))
        result: _Class = made
        return result

    return decorate


def _reader(name: str) -> Callable[[Any], Any]:
    return lambda self: self.__dict__[name]


def seconds(duration: Duration) -> float:
    """A duration's seconds, in whole milliseconds."""
    value = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    return round(value * 1000) / 1000
