"""Structural tags: free text that may contain tags, whose contents are constrained.

vLLM and SGLang take two forms: `structures` with `triggers`, and XGrammar's `format`. Of XGrammar's formats,
`triggered_tags`, `tags_with_separator`, `tag` and contents alone are supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llgtrt.openai.errors import invalid
from llgtrt.openai.response_formats import StructuralTagFormat, Structure, required

Json = dict[str, Any]

_KNOWN = (
    *("triggered_tags", "tags_with_separator", "tag", "json_schema", "regex", "grammar", "const_string"),
    "any_text",
)
_MEMBERS = {
    "triggered_tags": {"triggers", "tags", "at_least_one", "stop_after_first"},
    "tags_with_separator": {"tags", "separator", "at_least_one", "stop_after_first"},
    "tag": {"begin", "content", "end"},
    "json_schema": {"json_schema"},
    "regex": {"pattern"},
    "grammar": {"grammar"},
    "const_string": {"value"},
    "any_text": set(),
}


def grammar(wanted: StructuralTagFormat, at: str) -> Any:
    """The core's grammar, which may be `{"sections": […]}`; None if nothing is constrained.

    Raises:
        ApiError: a part is missing or not supported.
    """
    if bytes(wanted.format) and wanted.structures is None and wanted.triggers is None:
        return _format(msgspec.json.decode(wanted.format), f"{at}.format")
    if wanted.structures is None or wanted.triggers is None or bytes(wanted.format):
        raise invalid(at, f"{at}: must have either structures and triggers, or format")
    tags = [_structure(one, f"{at}.structures[{i}]") for i, one in enumerate(wanted.structures)]
    return _triggered(tags, wanted.triggers, at, {})


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


def _format(found: Any, at: str) -> Any:
    kind = _kind(found, at)
    match kind:
        case "triggered_tags":
            return _triggered(_tags(found, at), _texts(found, "triggers", at), at, found)
        case "tags_with_separator":
            separator = None if found.get("stop_after_first") else _text(found, "separator", at)
            tags = {"tags": {"tags": _tags(found, at), "separator": separator}}
            if found.get("at_least_one"):
                return tags
            message = f"{at}.at_least_one: must be true; for text without tags use triggered_tags"
            raise invalid(f"{at}.at_least_one", message, "unsupported_parameter")
        case "tag":
            return {"tags": {"tags": [_tag(found, at)]}}
        case _:
            return _content(found, at)


def _kind(found: Any, at: str) -> str:
    """The type of a format.

    Raises:
        ApiError: the type is not supported, or does not have one of the members.
    """
    kind = found.get("type") if isinstance(found, dict) else None
    if kind not in _KNOWN:
        message = f"{at}.type: {kind!s:.40} is not supported; write one of {', '.join(_KNOWN)}"
        raise invalid(f"{at}.type", message, "unsupported_parameter")
    for name in sorted(found.keys() - _MEMBERS[kind] - {"type"}):
        message = f"{at}.{name:.40}: not a member of {kind}"
        raise invalid(f"{at}.{name:.40}", message, "unsupported_parameter")
    return str(kind)


def _text(found: Json, name: str, at: str) -> str:
    text = found.get(name)
    if not isinstance(text, str):
        raise invalid(f"{at}.{name}", f"{at}.{name}: must be a text")
    return text


def _texts(found: Json, name: str, at: str) -> list[str]:
    texts = found.get(name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid(f"{at}.{name}", f"{at}.{name}: must be a list of texts")
    return texts


def _tags(found: Json, at: str) -> list[Json]:
    tags = found.get("tags")
    if not isinstance(tags, list) or not tags:
        raise invalid(f"{at}.tags", f"{at}.tags: must have at least one")
    return [_tag(tag, f"{at}.tags[{i}]") for i, tag in enumerate(tags)]


def _tag(found: Any, at: str) -> Json:
    if not isinstance(found, dict):
        raise invalid(at, f"{at}: must be an object")
    if _kind({"type": "tag", **found}, at) != "tag":
        raise invalid(f"{at}.type", f"{at}.type: must be tag")
    content = _content(found.get("content"), f"{at}.content")
    end = found.get("end")
    if isinstance(end, list) and len(end) == 1:
        end = end[0]
    if not isinstance(end, str):
        raise invalid(f"{at}.end", f"{at}.end: must be a text", "unsupported_parameter")
    return {"begin": _text(found, "begin", at), "content": content, "end": end}


def _content(found: Any, at: str) -> Any:
    """The grammar of a content; None: any text."""
    match _kind(found, at):
        case "json_schema":
            # Objects keep the order of the client's keys.
            return {"json_schema": msgspec.json.encode(found.get("json_schema", {})).decode()}
        case "regex":
            return {"regex": _text(found, "pattern", at)}
        case "const_string":
            return {"text": _text(found, "value", at)}
        case "grammar":
            return {"ebnf": _text(found, "grammar", at)}
        case "any_text":
            return None
        case kind:
            message = (
                f"{at}.type: {kind} cannot stand within another; write json_schema, regex or const_string"
            )
            raise invalid(f"{at}.type", message, "unsupported_parameter")


def _triggered(tags: Sequence[Json], triggers: Sequence[str], at: str, options: Mapping[str, Any]) -> Json:
    """Free text with tags. Each tag begins with one of the triggers."""
    if not triggers or not all(triggers):
        raise invalid(f"{at}.triggers", f"{at}.triggers: must have at least one text, and none that is empty")
    for i, tag in enumerate(tags):
        if not tag["begin"].startswith(tuple(triggers)):
            message = f"{at}: begin of tag {i} starts with none of the triggers"
            raise invalid(f"{at}.triggers", message)
    stops = bool(options.get("stop_after_first"))
    at_least_one = bool(options.get("at_least_one"))
    sections: list[Json] = []
    # With `at_least_one` the text before the first tag may not end the answer, so it has its own sections.
    for may_end in (False, True) if at_least_one and not stops else (not at_least_one,):
        first = len(sections)
        called = [t for t in triggers if any(tag["begin"].startswith(t) for tag in tags)]
        begun = [{"text": text, "next": first + 1 + i, "at_start": False} for i, text in enumerate(called)]
        free = {"triggers": begun, "may_end": may_end, "limit": None, "reasoning": False}
        again = first if may_end else first + 1 + len(called)
        bound = [
            {"bound": {"grammar": {"tags": {"tags": tags, "begun": text}}, "next": None if stops else again}}
            for text in called
        ]
        sections += [{"free": free}, *bound]
    return {"sections": sections}


def is_free(constraint: Any) -> bool:
    """Whether an answer under this constraint may contain free text."""
    return isinstance(constraint, dict) and "sections" in constraint


def shifted(constraint: Json, by: int) -> list[Json]:
    """The sections of a constraint, renumbered to follow `by` others."""

    def moved(section: Json) -> Json:
        if "bound" in section:
            bound = section["bound"]
            after = None if bound["next"] is None else bound["next"] + by
            return {"bound": {**bound, "next": after}}
        free = section["free"]
        triggers = [{**trigger, "next": trigger["next"] + by} for trigger in free["triggers"]]
        return {"free": {**free, "triggers": triggers}}

    return [moved(section) for section in constraint["sections"]]
