"""How Hugging Face's transformers 5.24 renders chats: the same environment and the same steps.

The library itself takes 130 MB, so what it does is written here anew. Left out is what only its own callers
have: message objects, images, and Python functions as tools.
"""

from __future__ import annotations

import copy
import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

Message = Mapping[str, Any]
_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = ("reasoning_content", "thinking", "reasoning")


class CannotContinue(ValueError):
    """The last message is not in the chat as it was written."""


class _Tracker(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}`, without the list of what lies in it."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller: Callable[[], str]) -> str:
        return caller()


class _Dict:
    """Takes the place of the type `dict`, whose own attributes a template has no business with."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(jinja2.utils.Namespace):
    """Has no members that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        members = dict(*args[1:], **kwargs)
        for name in members:
            _Namespace._check(name)
        jinja2.utils.Namespace.__init__(args[0], members)

    def __setitem__(self, name: str, value: Any) -> None:
        _Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"no member of a namespace: {name!r}")


def _strftime_now(layout: str) -> str:
    return datetime.datetime.now().strftime(layout)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.cache
def _compiled(source: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Tracker, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment.from_string(source)


def _normal(message: Message) -> dict[str, Any]:
    """Without members that are None, and with reasoning under all its names."""
    known = {name: value for name, value in message.items() if value is not None}
    reasoning = next((known[name] for name in _REASONING if name in known), None)
    return known if reasoning is None else {"thinking": reasoning, **known, "reasoning_content": reasoning}


def render(source: str, messages: Sequence[Message], special: Mapping[str, str], **options: Any) -> str:
    """What `apply_chat_template(…, tokenize=False)` gives, or the exception that it ends with.

    `special`: texts of special tokens by name. `options`: its arguments and the template's variables.
    """
    chat = copy.deepcopy([_normal(message) for message in messages])
    variables = {"tools": None, "documents": None, "add_generation_prompt": False, **special, **options}
    if not variables.pop("continue_final_message", False):
        return _compiled(source).render(messages=chat, **variables)
    last = chat[-1]["content"]
    chat[-1]["content"] = last + _TAG
    rendered = _compiled(source).render(messages=chat, **variables)
    if last.strip() not in rendered or _TAG.strip() not in rendered:
        raise CannotContinue("the last message is not in the chat")
    at = rendered.rindex(_TAG.strip())
    kept = rendered[at : at + len(_TAG)] == _TAG
    return rendered[:at] if kept else rendered[:at].rstrip()
