"""Structural tags: free text that may contain tags, whose contents are constrained.

vLLM and SGLang take two forms: `structures` with `triggers`, and XGrammar's `format` (`composed.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from llgtrt.openai import composed
from llgtrt.openai.errors import invalid
from llgtrt.openai.response_formats import StructuralTagFormat, Structure, required

Json = dict[str, Any]


def grammar(wanted: StructuralTagFormat, at: str) -> Any:
    """The core's grammar, which may be `{"sections": […]}`; None if nothing is constrained.

    Raises:
        ApiError: a part is missing or not supported.
    """
    if bytes(wanted.format) and wanted.structures is None and wanted.triggers is None:
        try:
            found = msgspec.json.decode(wanted.format)
        except RecursionError as e:
            raise invalid(f"{at}.format", f"{at}.format: nested too deeply") from e
        return _chained(composed.atoms(found, f"{at}.format"))
    if wanted.structures is None or wanted.triggers is None or bytes(wanted.format):
        raise invalid(at, f"{at}: must have either structures and triggers, or format")
    tags = [_structure(one, f"{at}.structures[{i}]") for i, one in enumerate(wanted.structures)]
    return {"sections": _triggered(tags, wanted.triggers, at, {})}


def read(text: str, at: str) -> Any:
    """As `grammar`, for a structural tag that is JSON text.

    Raises:
        ApiError: the text is not such JSON, or as `grammar`.
    """
    try:
        wanted = msgspec.json.decode(text, type=StructuralTagFormat)
    except msgspec.DecodeError as e:
        raise invalid(at, f"{at}: no structural tag ({e})") from e
    return grammar(wanted, at)


def _structure(one: Structure, at: str) -> Json:
    text = required(one.schema, f"{at}.schema")
    return {"begin": one.begin, "content": {"json_schema": text}, "end": one.end}


def _chained(atoms: Sequence[composed.Atom]) -> Any:
    """The grammar of what stands at the top: free text is a section of its own."""
    bound: list[composed.Atom] = []
    sections: list[Json] = []
    for i, atom in enumerate(atoms):
        is_last = i == len(atoms) - 1
        if isinstance(atom, composed.Free) and (is_last or _ends(atom.format)):
            sections = _joined(sections, _bound(bound), _of_free(atom))
            bound = []
        elif isinstance(atom, composed.Anything) and is_last:
            if not (sections or bound or atom.excludes):
                return None
            excluded = [_trigger(text, None) for text in atom.excludes]
            return {"sections": _joined(sections, _bound(bound), [_free(excluded, may_end=True)])}
        else:
            bound.append(atom)
    if not sections:
        return composed.grammar(bound)
    return {"sections": _joined(sections, _bound(bound))}


def _bound(atoms: Sequence[composed.Atom]) -> list[Json]:
    return [{"bound": {"grammar": composed.grammar(atoms), "next": None}}] if atoms else []


def _joined(*parts: list[Json]) -> list[Json]:
    """Sections one after the other: where those of a part end, the next part begins."""
    made: list[Json] = []
    for part in filter(None, parts):
        made = [
            {"bound": {**one["bound"], "next": len(made)}}
            if "bound" in one and one["bound"]["next"] is None
            else one
            for one in made
        ]
        made += shifted({"sections": part}, len(made))
    return made


def _ends(found: Json) -> bool:
    """Whether free text ends with its first tag, so that something may follow."""
    return bool(found.get("stop_after_first") and found.get("at_least_one"))


def _of_free(atom: composed.Free) -> list[Json]:
    found, at = atom.format, atom.at
    if found["type"] == "triggered_tags":
        tags = composed.tags(found, at)
        return _triggered(tags, composed.texts(found, "triggers", at), at, found)
    rules = composed.members(found, "rules", at)
    tags = []
    for i, rule in enumerate(rules):
        if not (isinstance(rule, list) and len(rule) == 2 and isinstance(rule[0], str)):
            raise invalid(f"{at}.rules[{i}]", f"{at}.rules[{i}]: must be a list of a text and a format")
        content = composed.of_format(rule[1], f"{at}.rules[{i}][1]")
        tags.append({"begin": rule[0], "content": content, "end": ""})
    if not tags:
        raise invalid(f"{at}.rules", f"{at}.rules: must have at least one")
    options = {"stop_after_first": found.get("loop") is False, "excludes": found.get("excludes", [])}
    return _triggered(tags, [tag["begin"] for tag in tags], at, options)


def _triggered(
    tags: Sequence[Json], triggers: Sequence[str], at: str, options: Mapping[str, Any]
) -> list[Json]:
    """The sections of free text with tags. Each tag begins with one of the triggers."""
    if not triggers or not all(triggers):
        raise invalid(f"{at}.triggers", f"{at}.triggers: must have at least one text, and none that is empty")
    for i, tag in enumerate(tags):
        if not tag["begin"].startswith(tuple(triggers)):
            message = f"{at}: begin of tag {i} starts with none of the triggers"
            raise invalid(f"{at}.triggers", message)
    stops = bool(options.get("stop_after_first"))
    at_least_one = bool(options.get("at_least_one"))
    excluded = [_trigger(text, None) for text in composed.texts(dict(options), "excludes", at)]
    sections: list[Json] = []
    # With `at_least_one` the text before the first tag may not end the answer, so it has its own sections.
    for may_end in (False, True) if at_least_one and not stops else (not at_least_one,):
        first = len(sections)
        called = [t for t in triggers if any(tag["begin"].startswith(t) for tag in tags)]
        begun = [_trigger(text, first + 1 + i) for i, text in enumerate(called)]
        again = first if may_end else first + 1 + len(called)
        bound = [
            {"bound": {"grammar": {"tags": {"tags": tags, "begun": text}}, "next": None if stops else again}}
            for text in called
        ]
        sections += [_free([*begun, *excluded], may_end), *bound]
    return sections


def _trigger(text: str, after: int | None) -> Json:
    return {"text": text, "next": after, "at_start": False}


def _free(triggers: list[Json], may_end: bool) -> Json:
    return {"free": {"triggers": triggers, "may_end": may_end, "limit": None, "reasoning": False}}


def is_free(constraint: Any) -> bool:
    """Whether an answer under this constraint may contain free text."""
    return isinstance(constraint, dict) and "sections" in constraint


def each(constraint: Any, change: Callable[[Any], Any]) -> Any:
    """The constraint with its grammar changed, or that of each of its sections."""
    if not is_free(constraint):
        return change(constraint)
    return {
        "sections": [
            {"bound": {**one["bound"], "grammar": change(one["bound"]["grammar"])}} if "bound" in one else one
            for one in constraint["sections"]
        ]
    }


def begins_free(constraint: Any) -> bool:
    """Whether an answer under this constraint begins with free text."""
    return is_free(constraint) and "free" in constraint["sections"][0]


def shifted(constraint: Json, by: int) -> list[Json]:
    """The sections of a constraint, renumbered to follow `by` others."""

    def moved(section: Json) -> Json:
        if "bound" in section:
            bound = section["bound"]
            after = None if bound["next"] is None else bound["next"] + by
            return {"bound": {**bound, "next": after}}
        free = section["free"]
        triggers = [
            {**one, "next": None if one["next"] is None else one["next"] + by} for one in free["triggers"]
        ]
        return {"free": {**free, "triggers": triggers}}

    return [moved(section) for section in constraint["sections"]]
