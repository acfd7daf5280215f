"""XGrammar's formats of structural tags as grammars of the core: those that stand within others.

A tag and a sequence are flattened to a list of atoms: fixed texts, any text, and what is constrained. Any
text ends with the first occurrence of the text that follows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from llgtrt.openai.arguments import mixed, types
from llgtrt.openai.errors import ApiError, invalid
from llgtrt.openai.formats import TYPES, Parameters, tagged
from llgtrt.openai.known import FORMATS

Json = dict[str, Any]

_DEEPEST = 32
"""The most levels of formats within each other."""
_MOST_REPEATED = 10_000
_DSML = {of: f'" string="{"true" if of == "string" else "false"}">' for of in TYPES}
_STYLES = {
    "qwen_xml": tagged("<parameter=", ">", "</parameter>"),
    "minimax_xml": tagged('<parameter name="', '">', "</parameter>"),
    "glm_xml": tagged("<arg_key>", "</arg_key><arg_value>", "</arg_value>"),
    "deepseek_xml": Parameters('<｜DSML｜parameter name="', _DSML, "</｜DSML｜parameter>"),
    "kimi_k3_xml": FORMATS["kimi_k3"].parameters,
}
"""How the members of an object are written one by one."""
FREE = ("triggered_tags", "dispatch")
"""Text in which constrained parts begin."""
_MEMBERS: dict[str, set[str]] = {
    "triggered_tags": {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"},
    "dispatch": {"rules", "loop", "excludes"},
    "tags_with_separator": {"tags", "separator", "at_least_one", "stop_after_first"},
    "tag": {"begin", "content", "end"},
    "sequence": {"elements"},
    "or": {"elements"},
    "optional": {"content"},
    "plus": {"content"},
    "star": {"content"},
    "repeat": {"content", "min", "max"},
    "json_schema": {"json_schema", "style"},
    "qwen_xml_parameter": {"json_schema"},
    "regex": {"pattern"},
    "grammar": {"grammar"},
    "const_string": {"value"},
    "any_text": {"excludes"},
}
_DEFAULTS: Json = {
    "any_order": False,
    "max_whitespace_cnt": None,
    "max_tokens": None,
    "max_chars": None,
    "excludes": [],
    "style": "json",
}
"""Values of other members that change nothing: XGrammar's package writes them."""


@dataclasses.dataclass(frozen=True)
class Texts:
    """One of these texts."""

    texts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Anything:
    """Any text without these."""

    excludes: Sequence[str]
    at: str


@dataclasses.dataclass(frozen=True)
class Bound:
    """What the core's grammar says."""

    grammar: Json


@dataclasses.dataclass(frozen=True)
class Free:
    """A format of `FREE`."""

    format: Json
    at: str


Atom = Texts | Anything | Bound | Free


def kind(found: Any, at: str) -> str:
    """The type of a format.

    Raises:
        ApiError: the type is not supported, or does not have one of the members.
    """
    of = found.get("type") if isinstance(found, dict) else None
    if of not in _MEMBERS:
        message = f"{at}.type: {of!s:.40} is not supported; write one of {', '.join(_MEMBERS)}"
        raise invalid(f"{at}.type", message, "unsupported_parameter")
    for name in sorted(found.keys() - _MEMBERS[of] - {"type"}):
        if name not in _DEFAULTS or found[name] != _DEFAULTS[name]:
            message = f"{at}.{name:.40}: not a member of {of}"
            raise invalid(f"{at}.{name:.40}", message, "unsupported_parameter")
    return str(of)


def atoms(found: Any, at: str, depth: int = 0) -> list[Atom]:
    """What a format consists of, one after the other.

    Raises:
        ApiError: a part is missing or not supported.
    """
    if depth > _DEEPEST:
        raise invalid(at, f"{at}: formats are nested deeper than {_DEEPEST}; make them flatter")
    match kind(found, at):
        case "sequence":
            return [
                atom
                for i, one in enumerate(members(found, "elements", at))
                for atom in atoms(one, f"{at}.elements[{i}]", depth + 1)
            ]
        case "tag":
            content = atoms(found.get("content"), f"{at}.content", depth + 1)
            return [Texts([text(found, "begin", at)]), *content, Texts(ends(found, at))]
        case "const_string":
            return [Texts([text(found, "value", at)])]
        case "any_text":
            return [Anything(texts(found, "excludes", at), at)]
        case of if of in FREE:
            return [Free(found, at)]
    return [Bound(_bound(found, at, depth))]


def grammar(parts: Sequence[Atom]) -> Json:
    """The core's grammar of atoms.

    Raises:
        ApiError: any text has no end, or text has tags within another format.
    """
    made: list[Json] = []
    open_text: Anything | None = None
    for atom in parts:
        if open_text is not None:
            if not isinstance(atom, Texts) or not all(text.strip() for text in atom.texts):
                raise _endless(open_text)
            made.append({"up_to": {"ends": list(atom.texts), "excludes": list(open_text.excludes)}})
            open_text = None
            continue
        match atom:
            case Anything():
                open_text = atom
            case Texts([text]):
                made += [{"text": text}] if text else []
            case Texts(several):
                made.append({"or": [{"text": text} for text in several]})
            case Bound(inner):
                made.append(inner)
            case Free(of, at):
                raise invalid(
                    f"{at}.type",
                    f"{at}.type: {of['type']} can stand alone, or last in a sequence; parts may follow it "
                    "if it has at_least_one and stop_after_first",
                    "unsupported_parameter",
                )
    if open_text is not None:
        raise _endless(open_text)
    return made[0] if len(made) == 1 else {"sequence": made}


def _endless(text: Anything) -> ApiError:
    message = f"{text.at}: any_text must be followed by what ends it: const_string, or a tag's begin or end"
    return invalid(text.at, message, "unsupported_parameter")


def of_format(found: Any, at: str, depth: int = 0) -> Json:
    """The core's grammar of a format within another one.

    Raises:
        ApiError: a part is missing or not supported.
    """
    return grammar(atoms(found, at, depth))


def _bound(found: Json, at: str, depth: int) -> Json:
    match found["type"]:
        case "json_schema" | "qwen_xml_parameter":
            return _json(found, at)
        case "regex":
            return {"regex": text(found, "pattern", at)}
        case "grammar":
            return {"ebnf": text(found, "grammar", at)}
        case "or":
            elements = members(found, "elements", at)
            return {
                "or": [of_format(one, f"{at}.elements[{i}]", depth + 1) for i, one in enumerate(elements)]
            }
        case "tags_with_separator":
            return _separated(found, at)
        case repeated:
            least, most = {"optional": (0, 1), "plus": (1, None), "star": (0, None)}.get(
                repeated, (found.get("min"), found.get("max"))
            )
            inner = of_format(found.get("content"), f"{at}.content", depth + 1)
            return {"repeat": {"grammar": inner, **_counts(least, most, at)}}


def _counts(least: Any, most: Any, at: str) -> Json:
    top = None if most == -1 else most
    for name, count in (("min", least), ("max", top)):
        if count is not None and (type(count) is not int or not 0 <= count <= _MOST_REPEATED):
            message = f"{at}.{name}: must be a whole number from 0 to {_MOST_REPEATED}"
            raise invalid(f"{at}.{name}", message)
    if least is None or (top is not None and top < least):
        raise invalid(f"{at}.min", f"{at}.min: must be there, and not above max")
    return {"least": least, "most": top}


def _json(found: Json, at: str) -> Json:
    # Objects keep the order of the client's keys.
    schema = found.get("json_schema", {})
    written = msgspec.json.encode(schema).decode()
    style = "qwen_xml" if found["type"] == "qwen_xml_parameter" else found.get("style", "json")
    if style == "json":
        return {"json_schema": written}
    parameters = _STYLES.get(style) if isinstance(style, str) else None
    if parameters is None:
        message = f"{at}.style: {style!s:.40} is not supported; write one of json, {', '.join(_STYLES)}"
        raise invalid(f"{at}.style", message, "unsupported_parameter")
    tool = {"name": "", "schema": written, "types": mixed(types(schema))}
    return {"arguments": {"tool": tool, "parameters": parameters.core()}}


def _separated(found: Json, at: str) -> Json:
    separator = None if found.get("stop_after_first") else text(found, "separator", at)
    listed = {"tags": {"tags": tags(found, at), "separator": separator}}
    if found.get("at_least_one"):
        return listed
    return {"repeat": {"grammar": listed, "least": 0, "most": 1}}


def tags(found: Json, at: str) -> list[Json]:
    """The tags of a format, as the core knows them.

    Raises:
        ApiError: there are none, or one is incomplete.
    """
    listed = members(found, "tags", at)
    if not listed:
        raise invalid(f"{at}.tags", f"{at}.tags: must have at least one")
    return [_tag(tag, f"{at}.tags[{i}]") for i, tag in enumerate(listed)]


def _tag(found: Any, at: str) -> Json:
    if not isinstance(found, dict):
        raise invalid(at, f"{at}: must be an object")
    tag = {"type": "tag", **found}
    if kind(tag, at) != "tag":
        raise invalid(f"{at}.type", f"{at}.type: must be tag")
    begin, *rest = atoms(tag, at)
    assert isinstance(begin, Texts)
    return {"begin": begin.texts[0], "content": grammar(rest), "end": ""}


def text(found: Json, name: str, at: str) -> str:
    """A member that is a text.

    Raises:
        ApiError: it is none.
    """
    said = found.get(name)
    if not isinstance(said, str):
        raise invalid(f"{at}.{name}", f"{at}.{name}: must be a text", "unsupported_parameter")
    return said


def texts(found: Json, name: str, at: str) -> list[str]:
    """A member that is a list of texts; empty where it is missing.

    Raises:
        ApiError: it is none.
    """
    said = found.get(name, [])
    if not isinstance(said, list) or not all(isinstance(text, str) for text in said):
        raise invalid(f"{at}.{name}", f"{at}.{name}: must be a list of texts")
    return said


def ends(found: Json, at: str) -> list[str]:
    """The texts that may end a tag.

    Raises:
        ApiError: there are none.
    """
    if not isinstance(found.get("end"), list):
        return [text(found, "end", at)]
    said = texts(found, "end", at)
    if not said:
        raise invalid(f"{at}.end", f"{at}.end: must have at least one text")
    return said


def members(found: Json, name: str, at: str) -> list[Any]:
    """A member that is a list.

    Raises:
        ApiError: it is none.
    """
    listed = found.get(name)
    if not isinstance(listed, list):
        raise invalid(f"{at}.{name}", f"{at}.{name}: must be a list")
    return listed
