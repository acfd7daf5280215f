"""The C++ runtime's own guided decoding, which llgtrt does not use."""

from __future__ import annotations

import enum

from tensorrt_llm._fake.checked import binding


class _Backend(enum.Enum):
    XGRAMMAR = 0
    LLGUIDANCE = 1


class _GuideType(enum.Enum):
    JSON = 0
    JSON_SCHEMA = 1
    REGEX = 2
    EBNF_GRAMMAR = 3
    STRUCTURAL_TAG = 4


@binding()
class GuidedDecodingConfig:
    backend: _Backend
    encoded_vocab: list[str] | None = None
    tokenizer_str: str | None = None
    stop_token_ids: list[int] | None = None


@binding(frozen=True)
class GuidedDecodingParams:
    guide_type: _GuideType
    guide: str | None = None


GuidedDecodingConfig.GuidedDecodingBackend = _Backend  # type: ignore[attr-defined] # nested, as in the bindings
GuidedDecodingParams.GuideType = _GuideType  # type: ignore[attr-defined] # nested, as in the bindings
