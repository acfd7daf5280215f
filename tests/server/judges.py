"""Validators of JSON that are not ours, in Python and in Rust, and where we read rules otherwise."""

from __future__ import annotations

import contextlib
import decimal
import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import jsonschema
import jsonschema_rs
import referencing
import referencing.jsonschema

FORMATS = (
    *("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"),
    *("idn-email", "idn-hostname"),
    *("uri-reference", "uri-template", "json-pointer", "relative-json-pointer", "regex"),
)
"""Those that are enforced and that both validators know; IRIs only the one in Rust does."""
PRECISION = 999
"""Digits of the judges' numbers: more than a 64-bit float has."""
PATIENCE = 20.0
"""Seconds of computing for a value: Python's expressions backtrack."""


class Reading(NamedTuple):
    """A rule that a validator reads otherwise."""

    name: str
    same: Callable[[str], str]
    """A string on which the readings agree, in place of one on which they may not."""


WHITE = Reading(
    "white space in patterns is that of ECMA-262, not Python's",
    lambda text: re.sub("[\x1c-\x1f\x85]", "!", text).replace("\ufeff", " "),
)


class Judge:
    """A validator of one schema, with documents by URI, which are of the schema's draft where they name none.

    Raises ValueError or re.error where it cannot read the schema.
    """

    readings: tuple[Reading, ...]

    def __init__(self, schema: Any, documents: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a value of `parse`.

        Raises re.error for a pattern that it cannot read, TimeoutError where it does not come to an end.
        """
        raise NotImplementedError

    def excuse(self, value: Any) -> str | None:
        """The last of the readings that are needed to find a value valid; None where they do not do."""
        for reading in self.readings:
            value = _rewritten(value, reading.same)
            if self.complaint(value) is None:
                return reading.name
        return None


class PythonJudge(Judge):
    """The package `jsonschema`."""

    readings = (WHITE,)

    def __init__(self, schema: Any, documents: Mapping[str, Any]) -> None:
        schema = parse(json.dumps(schema))
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        types = kind.TYPE_CHECKER.redefine("integer", lambda _, value: _is_integer(value))
        kind = jsonschema.validators.extend(kind, type_checker=types)  # type: ignore[no-untyped-call]
        formats, known = jsonschema.FormatChecker(()), jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers
        formats.checkers = {name: known[name] for name in FORMATS}
        newest = referencing.jsonschema.DRAFT202012
        draft = referencing.jsonschema.specification_with(_metaschema(schema), default=newest)
        pairs = [(uri, draft.create_resource(document)) for uri, document in documents.items()]
        registry: referencing.Registry[Any] = referencing.Registry().with_resources(pairs)
        self._validator = kind(schema, registry=registry, format_checker=formats)

    def complaint(self, value: Any) -> str | None:
        with _in_time(), decimal.localcontext(decimal.Context(prec=PRECISION)):
            error = next(self._validator.iter_errors(value), None)
        return f"{error.json_path}: {error.message}" if error else None


class RustJudge(Judge):
    """The crate `jsonschema`."""

    readings = ()

    def __init__(self, schema: Any, documents: Mapping[str, Any]) -> None:
        schema = parse(json.dumps(schema))
        draft = jsonschema_rs.Draft7 if "draft-07" in _metaschema(schema) else jsonschema_rs.Draft202012
        registry = jsonschema_rs.Registry(list(documents.items()), draft=draft)
        self._validator = jsonschema_rs.validator_for(
            schema, validate_formats=True, registry=registry, offline=True
        )

    def complaint(self, value: Any) -> str | None:
        error = next(self._validator.iter_errors(value), None)
        return f"{error.instance_path}: {error.message}" if error else None


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Ends what takes longer, which only the main thread may ask for. Raises TimeoutError then."""

    def late(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"more than {PATIENCE:g} s of computing")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def parse(text: str) -> Any:
    """A value with its numbers as clients read them: 64-bit floats, with which the judges compute exactly."""
    return json.loads(text, parse_float=_number, parse_int=_number)


def _number(text: str) -> int | Decimal:
    value = float(text)
    return int(value) if value.is_integer() else Decimal(repr(value))


def _is_integer(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _metaschema(schema: Any) -> str:
    newest = "https://json-schema.org/draft/2020-12/schema"
    return str(schema.get("$schema", newest)) if isinstance(schema, dict) else newest


def _rewritten(value: Any, same: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return same(value)
    if isinstance(value, list):
        return [_rewritten(item, same) for item in value]
    if isinstance(value, dict):
        return {key: _rewritten(member, same) for key, member in value.items()}
    return value
