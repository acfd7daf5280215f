"""Constraints in vLLM's form, and how JSON is written under a schema."""

from __future__ import annotations

from typing import Literal

import msgspec


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's `structured_outputs`: exactly one of the first six, and how JSON is written.

    `disable_fallback` has no effect: there is one grammar engine.
    """

    json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    whitespace_pattern: str | None = None
    disable_fallback: bool | None = None


class JsonStyle(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How JSON is written under a schema, in place of what the server's configuration says."""

    key_order: Literal["required", "schema", "any"] | None = None
    undeclared_keys: Literal["never", "schema"] | None = None
    whitespace: Literal["natural", "compact"] | None = None
    whitespace_pattern: str | None = None
