"""Whether an output is valid by the wheel `jsonschema`, with its formats and with decimal numbers."""

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


def exact(value: Any) -> Any:
    """The same value, its floating-point numbers as the decimals that they were written as."""
    return json.loads(json.dumps(value), parse_float=Decimal)


class Validity:
    """One schema's."""

    def __init__(self, schema: Any) -> None:
        base = validator_for(schema, default=Draft202012Validator)
        kinds = base.TYPE_CHECKER.redefine("integer", is_integer)
        # The registry has the drafts' own documents alone: nothing is fetched.
        kept = {"registry": REGISTRY, "format_checker": base.FORMAT_CHECKER}
        made: Any = extend(base, type_checker=kinds)  # type: ignore[no-untyped-call]
        self.validator = made(exact(schema), **kept)

    def of(self, text: bytes) -> str:
        """Says "valid", "invalid", "leap" where only leap seconds make it so, or "unjudged"."""
        told = self.plainly(text)
        sooner = re.sub(rb"(\d\d:\d\d):60", rb"\1:59", text)
        return "leap" if told == "invalid" and self.plainly(sooner) == "valid" else told

    def plainly(self, text: bytes) -> str:
        """The same, of leap seconds as of any other."""
        try:
            value = json.loads(text.decode(), parse_float=Decimal)
        except ValueError:
            return "invalid"
        except (InvalidOperation, RecursionError):  # an exponent that no decimal has
            return "unjudged"
        try:
            return "valid" if self.validator.is_valid(value) else "invalid"
        except (InvalidOperation, RecursionError):
            return "unjudged"
        except Exception:  # a pattern that Python does not know, a reference to a document that is not there
            return "unjudged"
