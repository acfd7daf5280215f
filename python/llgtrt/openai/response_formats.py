"""`response_format` of requests."""

from __future__ import annotations

import msgspec

from llgtrt.openai.errors import invalid


class BaseFormat(msgspec.Struct, tag_field="type", forbid_unknown_fields=True):
    """A response format. A member that is not known may be a constraint: none is ignored."""


class TextFormat(BaseFormat, tag="text"):
    """`{"type": "text"}`: no constraint."""


class JsonObjectFormat(BaseFormat, tag="json_object"):
    """`{"type": "json_object"}`: any JSON object; with `schema`, what that accepts."""

    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True):
    """`json_schema` of a response format; enforced whatever `strict` says."""

    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class JsonSchemaFormat(BaseFormat, tag="json_schema"):
    """`{"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}`."""

    json_schema: JsonSchema


class JsonFormat(BaseFormat, tag="json"):
    """`{"type": "json", "value": {…}}`: TGI's form of a JSON schema."""

    value: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class RegexFormat(BaseFormat, tag="regex"):
    """`{"type": "regex", "regex": "…"}`, or `pattern` or TGI's `value`: the whole output matches."""

    regex: str | None = None
    pattern: str | None = None
    value: str | None = None


class LarkFormat(BaseFormat, tag="lark_grammar"):
    """`{"type": "lark_grammar", "grammar": "…"}`, or `lark_grammar` for it: llguidance's dialect of Lark."""

    grammar: str | None = None
    lark_grammar: str | None = None


class LlguidanceFormat(BaseFormat, tag="llguidance"):
    """`{"type": "llguidance", "grammar": …}`: a grammar list, as JSON or as its text, or Lark text."""

    grammar: msgspec.Raw


class ChoiceFormat(BaseFormat, tag="choice"):
    """`{"type": "choice", "choices": ["…", …]}`: one of these texts."""

    choices: list[str]


class Structure(msgspec.Struct, forbid_unknown_fields=True):
    """A tag: `begin`, JSON that satisfies the schema, `end`."""

    begin: str
    end: str
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class StructuralTagFormat(BaseFormat, tag="structural_tag"):
    """Tags with constrained contents within free text, in either of the forms that vLLM and SGLang take.

    `{"type": "structural_tag", "structures": […], "triggers": […]}`, or XGrammar's `format`.
    """

    structures: list[Structure] | None = None
    triggers: list[str] | None = None
    format: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


ResponseFormat = (
    TextFormat
    | JsonObjectFormat
    | JsonSchemaFormat
    | JsonFormat
    | RegexFormat
    | LarkFormat
    | LlguidanceFormat
    | ChoiceFormat
    | StructuralTagFormat
)


def required(raw: msgspec.Raw, at: str) -> str:
    """The client's own text of a schema: key order and numbers stay as they were written.

    Raises:
        ApiError: there is none; `at` names the field.
    """
    text = bytes(raw).decode()
    if not text or text == "null":
        raise invalid(at, f"{at}: missing")
    return text
