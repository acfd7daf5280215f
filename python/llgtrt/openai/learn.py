"""Learns from a chat template how its model writes function calls.

The template renders two calls with known names and arguments. They are located in the rendered text, and
the text around them is the format. Text that occurs before the first call and again before the second
belongs to each call, and so does text that occurs after both. The rest opens, separates and closes the
calls.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from llgtrt.openai.described import described
from llgtrt.openai.formats import MARKERS, Format, Parameters, type_of
from llgtrt.openai.known import FORMATS
from llgtrt.openai.signs import ABSENT, UNKNOWN, UNLEARNED
from llgtrt.templates import ASK, ChatTemplate, RenderError

log = logging.getLogger(__name__)

_ASKED = "kqw3 asks"
_SAID = "kqw4 says"
_FIRST: tuple[str, dict[str, Any]] = (
    "kqw_first",
    {
        "kqw_a": "kq\"w'x",
        "kqw_b": 41257,
        "kqw_c": {"kqw": ["y"]},
        "kqw_d": ["kqw5"],
        "kqw_e": True,
        "kqw_f": None,
    },
)
_SECOND: tuple[str, dict[str, Any]] = ("kqw_second", {"kqw_z": "v"})


def _declared(value: Any) -> dict[str, Any]:
    """A schema of a value in which every template finds what it looks for."""
    of_parts = {"type": "string"}
    kind = "string" if value is None else type_of(value)
    return {"type": kind, "description": "", "items": of_parts, "additionalProperties": of_parts}


_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {key: _declared(value) for key, value in given.items()},
                "required": [],
                "additionalProperties": False,
            },
        },
    }
    for name, given in (_FIRST, _SECOND)
]
_SPACE = " \t\r\n"
_ID = re.compile(r"kqwid\d{4}")
_MARK = re.compile(r"<[^<>]*>")
_ENDS = ("<|eom_id|>", "<|calls|>", "<|call|>", "<|tool_response>")
"""Tokens that end an answer with calls."""
_NUMBER = re.compile(r"(?<![\w])\d+(?![\w])")


def tool_format(
    wanted: str | Mapping[str, Any], template: ChatTemplate, ends: Collection[str] = ()
) -> Format:
    """The format of this name, or of these parts; `auto`: the template's, or JSON.

    `ends`: texts that end an answer.

    Raises:
        StartError: the parts are wrong.
    """
    if not isinstance(wanted, str):
        return described(wanted)
    if wanted != "auto":
        return FORMATS[wanted]
    found = learned(template, ends)
    if found is None and re.search(r"\btools\b", template.source):
        log.warning(
            "the chat template's format of function calls is not supported: calls are read as JSON; "
            "set server.tool_format to the name of a known format, or describe it there"
        )
    return found or FORMATS["json"]


def learned(template: ChatTemplate, ends: Collection[str] = ()) -> Format | None:
    """The format of a template; None if it has none, or one that is not supported."""
    if any(sign in template.source for sign in UNKNOWN):
        return None
    listed = _listed(UNLEARNED, template)
    if listed is not None:
        return listed
    found = learn(template, ends)
    if found is None and any(_calls(template, [_FIRST], "kqwid{:04}")):
        return None
    if found is None or found.separator is None:
        return _listed(ABSENT, template) or found
    return found


def _listed(table: Sequence[tuple[str, str]], template: ChatTemplate) -> Format | None:
    return next((FORMATS[name] for sign, name in table if sign in template.source), None)


def learn(template: ChatTemplate, ends: Collection[str] = ()) -> Format | None:
    """The format in which a template writes calls; None if it writes none, or in an unknown way."""
    said = _rendered(template, [{"role": "assistant", "content": _SAID}])
    if said is None or _SAID not in said:
        return None
    before, _, behind = said.partition(_SAID)
    for calls in ([_FIRST, _SECOND], [_FIRST]):
        for written in _calls(template, calls, "kqwid{:04}"):
            body = _ID.sub("{id}", _between(written, before, behind))
            found = _split(body, calls)
            if found is None:
                continue
            found = _tidied(found, {*ends, *_MARK.findall(behind)})
            if _alike(found, body, calls):
                return _of_template(found, template, calls, before, behind)
    return None


def _of_template(
    found: Format,
    template: ChatTemplate,
    calls: Sequence[tuple[str, dict[str, Any]]],
    before: str,
    behind: str,
) -> Format:
    """Adds what calls alone do not show. `before`, `behind`: the texts around an answer's text."""
    short_ids = not any(_calls(template, calls, "kqw-long-id{:04}"))
    parameters = found.parameters
    if parameters is not None:
        parameters = dataclasses.replace(parameters, cdata="<![CDATA[" in template.source)
    lead = _lead(template, before)
    closing = _MARK.match(behind)
    return dataclasses.replace(
        found,
        short_ids=short_ids,
        parameters=parameters,
        ends_thinking=parameters is not None and parameters.raw,
        lead=lead,
        marks=(lead, *([closing[0]] if closing else [])) if lead else (),
    ).with_inner()


def _lead(template: ChatTemplate, before: str) -> str:
    """The marks that come before an answer's text, where the prompt does not have them."""
    try:
        prompt = template.render([{"role": "user", "content": _ASKED}], {"tools": _TOOLS, **ASK})
    except RenderError:
        return ""
    size = _same(prompt.rpartition(_ASKED)[2], before)
    opened = before.rfind("<", 0, size)
    rest = before[opened if opened >= 0 and ">" not in before[opened:size] else size :]
    for begin, end in MARKERS:
        rest = rest.removeprefix(begin).removeprefix(end)
    return rest if re.fullmatch(r"(<\|[^<>]*>)+", rest) else ""


def _alike(found: Format, body: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    """Whether the format writes what the template has written; white space, numbers and quotes may differ."""
    again = found.write([(name, json.dumps(given)) for name, given in calls])
    plain = [re.sub(r"[\s\d]", "", text).replace("'", '"') for text in (again, body.replace("{id}", "call"))]
    return bool(found.trigger) and plain[0] in plain[1]


def _rendered(template: ChatTemplate, answer: Sequence[dict[str, Any]]) -> str | None:
    """What a template writes after the user's message; None if it refuses the messages."""
    try:
        text = template.render(
            [{"role": "user", "content": _ASKED}, *answer], {"tools": _TOOLS, "add_generation_prompt": False}
        )
    except RenderError:
        return None
    _, found, rest = text.rpartition(_ASKED)
    return rest if found else None


def _calls(template: ChatTemplate, calls: Sequence[tuple[str, dict[str, Any]]], ids: str) -> Iterator[str]:
    """What a template writes for these calls. Templates differ in the arguments and contents they take."""
    for as_text in (False, True):
        made = [
            {
                "id": ids.format(i),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given) if as_text else given},
            }
            for i, (name, given) in enumerate(calls)
        ]
        for content in ("", None):
            written = _rendered(template, [{"role": "assistant", "content": content, "tool_calls": made}])
            if written is not None and all(name in written for name, _ in calls):
                yield written


def _between(written: str, before: str, behind: str) -> str:
    """What stands in place of an answer's text. A mark is not cut in two at either end."""
    begin = _same(written, before)
    opened = max(written.rfind(mark, 0, begin) for mark in "<[")
    if opened >= 0 and not re.search("[>\\]]", written[opened:begin]):
        begin = opened
    end = _same(written[begin:][::-1], behind[::-1])
    tail = written[len(written) - end :]
    inside = re.match(r"[^<>]*>", tail)
    if inside:
        tail = tail[inside.end() :]
    return written[begin : len(written) - len(tail)]


@dataclasses.dataclass(frozen=True)
class _Call:
    """Where the name and the arguments of a call stand, and how these are written."""

    name: tuple[int, int]
    arguments: tuple[int, int]
    parameters: Parameters | None


def _split(body: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> Format | None:
    """The format of a text that has these calls."""
    found: list[_Call] = []
    at, parameters = 0, None
    for name, given in calls:
        call = _call(body, at, name, given, parameters)
        if call is None:
            return None
        found.append(call)
        at, parameters = call.arguments[1], call.parameters
    first, last = found[0], found[-1]
    head, tail = body[: first.name[0]], body[last.arguments[1] :]
    between = body[first.name[1] : first.arguments[0]]
    before, after, opening, separator, closing = head, tail, "", None, ""
    if len(found) > 1:
        middle = body[first.arguments[1] : last.name[0]]
        head, middle = _numbered(head, middle)
        between, _ = _numbered(between, body[last.name[1] : last.arguments[0]])
        before = _common_end(head, middle)
        opening, middle = head[: len(head) - len(before)], middle[: len(middle) - len(before)]
        after = _common_begin(middle, tail)
        separator, closing = middle[len(after) :], tail[len(after) :]
    return Format(before, between, after, "", opening, separator, closing, parameters=first.parameters)


def _call(
    body: str, at: int, name: str, given: dict[str, Any], parameters: Parameters | None
) -> _Call | None:
    """The next call; `parameters`: how the first one's arguments are written."""
    at = body.find(name, at)
    if at < 0:
        return None
    end = at + len(name)
    if parameters is not None:
        written = parameters.separator.join(parameters.write(*pair) for pair in given.items())
        begin = body.find(written, end)
        return None if begin < 0 else _Call((at, end), (begin, begin + len(written)), parameters)
    whole = _json(body, end, given)
    if whole is not None:
        return _Call((at, end), whole, None)
    found = _parameters(body, end, given)
    return None if found is None else _Call((at, end), *found)


def _json(body: str, at: int, value: Any) -> tuple[int, int] | None:
    """Where a value stands as JSON."""
    begin = body.find(json.dumps(value)[0], at)
    while begin >= 0:
        try:
            read, size = json.JSONDecoder().raw_decode(body[begin:])
        except ValueError:
            read, size = None, 0
        if size and read == value:
            return begin, begin + size
        begin = body.find(json.dumps(value)[0], begin + 1)
    return None


def _parameters(body: str, at: int, given: dict[str, Any]) -> tuple[tuple[int, int], Parameters] | None:
    """Where arguments stand that are written one by one, and how they are."""
    between: dict[str, str] = {}
    edges = [at]
    raw = python = False
    for key, value in given.items():
        begin = body.find(key, edges[-1])
        found = _value(body, begin + len(key), value) if begin >= 0 else None
        if found is None:
            return None
        span, spelled = found
        raw |= spelled == "raw"
        python |= spelled == "python" and not isinstance(value, dict | list)
        between[type_of(value)] = body[begin + len(key) : span[0]]
        edges += [begin, span[1]]
    gaps = {body[end:begin] for end, begin in zip(edges[2:-1:2], edges[3::2], strict=True)}
    if len(gaps) != 1:
        return None
    head, gap, tail = body[at : edges[1]], gaps.pop(), body[edges[-1] :]
    before = _common_end(head, gap)
    gap = gap[: len(gap) - len(before)]
    after = _common_begin(gap, tail)
    if raw and not after.strip():
        return None
    span = at + len(head) - len(before), edges[-1] + len(after)
    return span, Parameters(before, between, after, gap[len(after) :], raw=raw, python=python)


def _value(body: str, at: int, value: Any) -> tuple[tuple[int, int], str] | None:
    """Where an argument's value stands, and how it is spelled: `raw`, `json` or `python`."""
    found = []
    if isinstance(value, dict | list) and (span := _json(body, at, value)):
        found.append((span, "json"))
    spellings = {"json": json.dumps(value), "python": repr(value)}
    for spelled, text in {**spellings, "raw": value if isinstance(value, str) else spellings["json"]}.items():
        begin = body.find(text, at)
        if begin >= 0 and not (spelled == "raw" and not isinstance(value, str)):
            found.append(((begin, begin + len(text)), spelled))
    return min(found, key=lambda one: one[0][0], default=None)


def _numbered(first: str, second: str) -> tuple[str, str]:
    """Both texts with `{index}` in place of numbers that count the calls."""
    ones, twos = list(_NUMBER.finditer(first)), list(_NUMBER.finditer(second))
    if not ones or not twos or int(twos[-1][0]) != int(ones[-1][0]) + 1:
        return first, second
    one, two = ones[-1], twos[-1]
    if first[one.end() :] != second[two.end() :]:
        return first, second
    return (
        f"{first[: one.start()]}{{index}}{first[one.end() :]}",
        f"{second[: two.start()]}{{index}}{second[two.end() :]}",
    )


def _same(one: str, other: str) -> int:
    """The number of characters that both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _common_end(one: str, other: str) -> str:
    """The longest common end of both texts that does not begin inside a mark."""
    size = _same(one[::-1], other[::-1])
    common = one[len(one) - size :]
    half = re.match(r"[^<>]*>", common)
    return common[half.end() :] if half else common


def _common_begin(one: str, other: str) -> str:
    """The longest common beginning of both texts that does not end inside a mark."""
    common = one[: _same(one, other)]
    half = re.search(r"<[^<>]*$", common)
    return common[: half.start()] if half and common not in (one, other) else common


def _tidied(found: Format, ends: Collection[str]) -> Format:
    """Removes what does not belong to calls, and adds the trigger that separates them from text.

    White space at the edges, marks of reasoning and what ends an answer are removed.
    """
    before, opening, separator = found.before, found.open, found.separator
    for begin, end in MARKERS:
        opening = opening.removeprefix(begin + end)
    opening = opening.lstrip(_SPACE)
    if not opening:
        rest = before.lstrip(_SPACE)
        separator = None if separator is None else separator + before[: len(before) - len(rest)]
        before = rest
    closing, after = _unended(found.close, ends), found.after
    if not closing:
        after = _unended(after, ends)
    head = opening + before
    mark = re.match(r"<[^<>]*>|\[[A-Z_]+\]", head)
    is_marked = head.startswith(("<", "[")) and not re.match(r"\[\s*{", head)
    return dataclasses.replace(
        found,
        before=before,
        after=after,
        open=opening,
        close=closing,
        separator=separator,
        trigger=mark[0] if mark else opening.rstrip(_SPACE) or head,
        at_start=not is_marked,
        resumes=is_marked and not opening and not closing and separator is not None,
    )


def _unended(text: str, ends: Collection[str]) -> str:
    """The text up to what ends an answer."""
    places = [text.find(end) for end in (*ends, *_ENDS)]
    return text[: min((at for at in places if at >= 0), default=len(text))].rstrip(_SPACE)
