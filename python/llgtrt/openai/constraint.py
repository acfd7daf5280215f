"""Converts the constraint of a request, under the names of several servers, to the core's grammar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from llgtrt import _core
from llgtrt.openai import hints, response_formats, schema, structural
from llgtrt.openai.errors import invalid
from llgtrt.openai.outputs import JsonStyle, StructuredOutputs

_MOST_WORDS, _LONGEST_WORD = 128, 1024
_LITERAL = re.compile("[^A-Za-z0-9 ]")
"""What is written by its number in a regular expression, whose syntax it may be part of."""


def constraint(body: schema.Common) -> Any:
    """The core's grammar; none without a constraint.

    Raises:
        ApiError: there are several, or one is incomplete.
    """
    given = _given(body)
    if len(given) > 1:
        raise invalid(next(iter(given)), f"{' and '.join(given)}: more than one constraint; leave one")
    for name, grammar in given.items():
        if isinstance(grammar, dict) and "json_schema" in grammar:
            hints.schema(name, grammar["json_schema"])
    return styled(body, next(iter(given.values()), None))


def field(body: schema.Common) -> str:
    """The field that has the constraint; `response_format` where there is none."""
    return next(iter(_given(body)), "response_format")


def _given(body: schema.Common) -> dict[str, Any]:
    """The constraints of a request, by the fields that have them."""
    named = {"response_format": _grammar(body.response_format), **_foreign(body)}
    return {name: grammar for name, grammar in named.items() if grammar is not None}


def check(core: _core.Engine, grammar: Any) -> None:
    """Compiles a grammar, if there is one. This may take as long as `grammar.compile_seconds`.

    Raises:
        GrammarError: it cannot be enforced.
    """
    if grammar is not None:
        core.check_grammar(msgspec.json.encode(grammar).decode(), None, False)


def styled(body: schema.Common, grammar: Any) -> Any:
    """The grammar with JSON written as the request wants it."""
    style = _style(body)
    if grammar is None or not style:
        return grammar
    return structural.each(grammar, lambda inner: {"styled": {"style": style, "grammar": inner}})


def _style(body: schema.Common) -> dict[str, str]:
    """How JSON is written, as far as the request says it.

    Raises:
        ApiError: white space is said in two ways.
    """
    outputs = body.structured_outputs or StructuredOutputs()
    own = body.json_style or JsonStyle()
    style: dict[str, str] = msgspec.to_builtins(own)
    patterns = {
        "json_style.whitespace_pattern": own.whitespace_pattern,
        "structured_outputs.whitespace_pattern": outputs.whitespace_pattern,
        "guided_whitespace_pattern": body.guided_whitespace_pattern,
        "json_style.whitespace": own.whitespace,
        "structured_outputs.disable_any_whitespace": "compact" if outputs.disable_any_whitespace else None,
    }
    given = {name: said for name, said in patterns.items() if said is not None}
    if len(given) > 1:
        raise invalid(next(iter(given)), f"{' and '.join(given)}: white space is said twice; leave one")
    for name, said in given.items():
        style["whitespace_pattern" if name.endswith("pattern") else "whitespace"] = said
    if outputs.disable_additional_properties:
        style["undeclared_keys"] = "never"
    return style


def _foreign(body: schema.Common) -> dict[str, Any]:
    """Constraints under other servers' names."""
    outputs = body.structured_outputs or StructuredOutputs()
    json = {
        "structured_outputs.json": outputs.json,
        "guided_json": body.guided_json,
        "json_schema": body.json_schema,
    }
    regex = {
        "structured_outputs.regex": outputs.regex,
        "guided_regex": body.guided_regex,
        "regex": body.regex,
    }
    grammars = {
        "structured_outputs.grammar": outputs.grammar,
        "guided_grammar": body.guided_grammar,
        "grammar": body.grammar,
        "ebnf": body.ebnf,
    }
    tags = {
        "structured_outputs.structural_tag": outputs.structural_tag,
        "structural_tag": body.structural_tag,
    }
    choice = {"structured_outputs.choice": outputs.choice, "guided_choice": body.guided_choice}
    return {
        **{name: {"json_schema": text} for name, raw in json.items() if (text := _json_text(raw))},
        **{name: structural.read(text, name) for name, text in tags.items() if text is not None},
        **{name: {"regex": text} for name, text in regex.items() if text is not None},
        **{name: {"choice": texts} for name, texts in choice.items() if texts is not None},
        **{name: _ebnf(name, text) for name, text in grammars.items() if text},
        "structured_outputs.json_object": "json_object" if outputs.json_object else None,
        "bad_words": _without(body.bad_words) if body.bad_words else None,
    }


def _ebnf(name: str, text: str) -> dict[str, str]:
    """Under its own name llama-server's dialect, else XGrammar's.

    VLLM takes two kinds of grammars under its names, and tells them apart like this.
    """
    either = "guided" in name or "structured" in name
    if either and "::=" not in text:
        return {"lark_grammar": text}
    return {"gbnf" if name == "grammar" else "ebnf": text}


def _without(words: Sequence[str]) -> dict[str, str]:
    """A grammar of all texts in which none of these words is: whatever tokens would write them.

    Raises:
        ApiError: a word is empty or too long, or there are too many.
    """
    if len(words) > _MOST_WORDS:
        raise invalid("bad_words", f"bad_words: has {len(words)} entries; at most {_MOST_WORDS}")
    if not all(0 < len(word.encode()) <= _LONGEST_WORD for word in words):
        raise invalid("bad_words", f"bad_words: each must have 1 to {_LONGEST_WORD} bytes")
    any_of = "|".join(_LITERAL.sub(lambda found: f"\\x{{{ord(found[0]):x}}}", word) for word in words)
    return {"lark_grammar": f"start: TEXT\nTEXT: /(?s:.*)/ & ~/(?s:.*)({any_of})(?s:.*)/"}


def _json_text(raw: msgspec.Raw) -> str:
    """A JSON schema as the client wrote it, in place or as text; empty where there is none."""
    text = bytes(raw).decode()
    if text.startswith('"'):
        text = msgspec.json.decode(text, type=str)
    return "" if text == "null" else text


def _grammar(wanted: response_formats.ResponseFormat | None) -> Any:
    match wanted:
        case None | response_formats.TextFormat():
            return None
        case response_formats.JsonObjectFormat():
            text = _json_text(wanted.schema)
            return {"json_schema": text} if text else "json_object"
        case response_formats.JsonSchemaFormat():
            text = response_formats.required(wanted.json_schema.schema, "response_format.json_schema.schema")
            return {"json_schema": text}
        case response_formats.JsonFormat():
            return {"json_schema": response_formats.required(wanted.value, "response_format.value")}
        case response_formats.RegexFormat():
            return {"regex": _one(wanted, "regex", "pattern", "value")}
        case response_formats.LarkFormat():
            return {"lark_grammar": _one(wanted, "grammar", "lark_grammar")}
        case response_formats.LlguidanceFormat():
            return {"llguidance": _json_text(wanted.grammar)}
        case response_formats.ChoiceFormat():
            return {"choice": wanted.choices}
        case response_formats.StructuralTagFormat():
            return structural.grammar(wanted, "response_format")


def _one(wanted: response_formats.BaseFormat, *names: str) -> str:
    given: list[str] = [getattr(wanted, name) for name in names if getattr(wanted, name) is not None]
    if len(given) != 1:
        message = f"response_format: must have one of {', '.join(names)}"
        raise invalid(f"response_format.{names[0]}", message)
    return given[0]
