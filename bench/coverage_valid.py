"""Whether an output is valid by the wheel `jsonschema`, for clients who read numbers as 64-bit floats."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from jsonschema import Draft202012Validator, TypeChecker
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY


def is_integer(checker: TypeChecker, value: Any) -> bool:
    """As drafts from 6 on have it: 1.0 is one."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def read(text: str) -> Any:
    """A value with its numbers as clients read them: 64-bit floats, with which the judge computes exactly."""
    return json.loads(text, parse_float=number, parse_int=number)


def number(text: str) -> int | Decimal:
    """A 64-bit float as its shortest decimal. Raises OverflowError for what no such float holds."""
    value = float(text)
    return int(value) if value.is_integer() else Decimal(repr(value))


class Validity:
    """One schema's."""

    def __init__(self, schema: Any) -> None:
        base = validator_for(schema, default=Draft202012Validator)
        kinds = base.TYPE_CHECKER.redefine("integer", is_integer)
        # The registry has the drafts' own documents alone: nothing is fetched.
        kept = {"registry": REGISTRY, "format_checker": base.FORMAT_CHECKER}
        made: Any = extend(base, type_checker=kinds)  # type: ignore[no-untyped-call]
        self.validator = made(read(json.dumps(schema)), **kept)

    def of(self, text: bytes) -> str:
        """Says "valid", "invalid", "leap" where only leap seconds make it so, or "unjudged"."""
        told = self.plainly(text)
        sooner = re.sub(rb"(\d\d:\d\d):60", rb"\1:59", text)
        return "leap" if told == "invalid" and self.plainly(sooner) == "valid" else told

    def plainly(self, text: bytes) -> str:
        """The same, of leap seconds as of any other."""
        try:
            value = read(text.decode())
        except ValueError:
            return "invalid"
        except (OverflowError, RecursionError):
            return "unjudged"
        try:
            return "valid" if self.validator.is_valid(value) else "invalid"
        except (InvalidOperation, RecursionError):
            return "unjudged"
        except Exception:  # a pattern that Python does not know, a reference to a document that is not there
            return "unjudged"
