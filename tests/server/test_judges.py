"""Complete outputs under schemas from the field and from the test suite: two validators find none invalid.

`LLGTRT_JUDGED` says how many outputs of every schema: 20 take some ten minutes. Without it there are a few of
some schemas.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from .judges import Judge, PythonJudge, RustJudge, parse
from .walks import Case, maskbench, start, suite, walk

JUDGES: tuple[type[Judge], ...] = (PythonJudge, RustJudge)
EVERY, EACH = 20, 6
"""One of so many schemas, and so many outputs of it."""
UNREAD = (re.error, jsonschema_rs.ValidationError)
"""What validators raise for schemas that they cannot read: expressions unknown to Python, broken rules
of the metaschema."""
FORGOTTEN: list[tuple[dict[str, Any], str]] = [
    ({"type": "integer", "maximum": 5}, "maximum"),
    ({"type": "number", "multipleOf": 7}, "multipleOf"),
    ({"type": "string", "pattern": "^a"}, "pattern"),
    ({"type": "string", "format": "date-time"}, "format"),
    ({"type": "string", "maxLength": 2}, "maxLength"),
    ({"type": "object", "required": ["a"]}, "required"),
    (
        {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
        "additionalProperties",
    ),
    ({"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "uniqueItems": True}, "uniqueItems"),
    ({"type": ["array", "null"], "contains": {"const": 1}}, "contains"),
    ({"enum": [0, 1, "a"], "not": {"type": "integer"}}, "not"),
]
"""Schemas, and the keyword of each that walks forget."""


def find(kind: type[Judge], case: Case, counts: Counter[str]) -> list[str]:
    """What a judge holds against the outputs of a case, and counts of what it says."""
    name = kind.__name__
    try:
        judge = kind(case.schema, case.documents)
        said = [(text, judge.complaint(parse(text))) for text in case.texts]
    except UNREAD:
        counts[f"{name}: schema not read"] += 1
        return []
    except TimeoutError:
        counts[f"{name}: schema not judged in time"] += 1
        return []
    wrong = []
    for text, complaint in said:
        excuse = judge.excuse(parse(text)) if complaint else None
        counts[f"{name}: {'valid' if complaint is None else excuse or 'invalid'}"] += 1
        if complaint and not excuse:
            wrong.append(f"{case.name}: {complaint}, says {name} of {text}")
    return wrong


@pytest.mark.timeout(7200)
def test_whatever_is_complete_is_valid_to_both(tmp_path: Path) -> None:
    each = int(os.environ.get("LLGTRT_JUDGED", 0))
    cases = (maskbench() + suite())[:: 1 if each else EVERY]
    walk(start(cases, tmp_path), cases, each or EACH)
    counts: Counter[str] = Counter()
    wrong = []
    for case in cases:
        counts["schemas refused" if case.refused else "schemas"] += 1
        counts["outputs"] += len(case.texts)
        counts["cut short"] += case.cut
        counts["broken off"] += len(case.broken)
        counts["schemas with outputs broken off"] += bool(case.broken)
        counts["schemas without an output"] += not case.refused and not case.texts
        wrong += [complaint for kind in JUDGES for complaint in find(kind, case, counts)]
    print(json.dumps(counts, indent=2))
    assert not wrong, "\n".join(wrong[:20])
    # Limits of the lexer are met on the way only, in words that are counted and the like.
    assert counts["schemas with outputs broken off"] <= 0.002 * counts["schemas"]
    assert counts["outputs"] >= 0.95 * counts["schemas"] * (each or EACH)
    for kind in JUDGES:
        assert counts[f"{kind.__name__}: schema not read"] <= 0.01 * counts["schemas"]


def test_a_forgotten_keyword_is_found_out(tmp_path: Path) -> None:
    cases = []
    for schema, keyword in FORGOTTEN:
        rest = {name: value for name, value in schema.items() if name != keyword}
        cases.append(Case(keyword, rest))
    walk(start(cases, tmp_path), cases, EACH)
    for case, (schema, _) in zip(cases, FORGOTTEN, strict=True):
        case.schema = schema
        for kind in JUDGES:
            assert find(kind, case, Counter()), f"{kind.__name__} finds {case.texts} valid: {case.name}"
