"""The places in vLLM that the plug-in replaces, and what it expects there."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

_CHECK = ("self", "model_config", "structured_outputs_config", "tokenizer")
_MANAGER = "vllm.v1.structured_output:StructuredOutputManager"
_CALLED = {
    "vllm.sampling_params:SamplingParams._validate_structured_outputs": _CHECK,
    "vllm.v1.structured_output.request:get_structured_output_key": ("params",),
    f"{_MANAGER}.grammar_init": ("self", "request"),
    f"{_MANAGER}._create_grammar": ("self", "request"),
    f"{_MANAGER}._fill_bitmasks": ("self", "batch"),
    f"{_MANAGER}.grammar_bitmask": (
        "self",
        "requests",
        "structured_output_request_ids",
        "scheduled_spec_decode_tokens",
    ),
}
"""Functions that are replaced or called, with the names of their parameters."""

_NAMES = {
    _MANAGER + ".__init__": {
        "backend",
        "vllm_config",
        "tokenizer",
        "executor",
        "reasoner_cls",
        "enable_in_reasoning",
        "_grammar_bitmask",
        "_use_async_grammar_compilation",
    },
}
"""Attributes that an initialiser sets."""

_METHODS = {
    "StructuredOutputBackend": {"compile_grammar", "allocate_token_bitmask", "destroy"},
    "StructuredOutputGrammar": {
        "accept_tokens",
        "validate_tokens",
        "rollback",
        "fill_bitmask",
        "is_terminated",
        "reset",
    },
}
"""The methods that a back end has to have; one more is one that this back end lacks."""

_KINDS = {"JSON", "JSON_OBJECT", "REGEX", "GRAMMAR", "CHOICE", "STRUCTURAL_TAG"}
_FIELDS = {
    "json",
    "json_object",
    "regex",
    "choice",
    "grammar",
    "structural_tag",
    "_backend",
    "_backend_was_auto",
}
_OF_REQUEST = {"structured_output_request", "sampling_params", "max_tokens", "num_prompt_tokens"}


def missing() -> list[str]:
    """What the plug-in needs and this vLLM does not have, each in words; empty: nothing."""
    found = []
    for place, parameters in _CALLED.items():
        function = _find(place)
        if function is None:
            found.append(f"there is no {place}")
        elif tuple(inspect.signature(function).parameters) != parameters:
            found.append(f"{place} takes {inspect.signature(function)}, not ({', '.join(parameters)})")
    for place, names in _NAMES.items():
        found += _lacking(place, names, getattr(getattr(_find(place), "__code__", None), "co_names", ()))
    types = "vllm.v1.structured_output.backend_types"
    for name, methods in _METHODS.items():
        has = getattr(_find(f"{types}:{name}"), "__abstractmethods__", ())
        if set(has) != methods:
            found.append(f"{types}:{name} asks for {sorted(has)}, not for {sorted(methods)}")
    found += _lacking(
        f"{types}:StructuredOutputOptions",
        _KINDS,
        getattr(_find(f"{types}:StructuredOutputOptions"), "__members__", ()),
    )
    place = "vllm.sampling_params:StructuredOutputsParams"
    found += _lacking(place, _FIELDS, getattr(_find(place), "__dataclass_fields__", ()))
    place = "vllm.v1.request:Request.__init__"
    found += _lacking(place, _OF_REQUEST, getattr(getattr(_find(place), "__code__", None), "co_names", ()))
    if _find("vllm.v1.request:Request.num_output_tokens") is None:
        found.append("there is no vllm.v1.request:Request.num_output_tokens")
    if _find("vllm.exceptions:VLLMValidationError") is None:
        found.append("there is no vllm.exceptions:VLLMValidationError")
    return found


def _find(place: str) -> Any:
    """`module:name.name`; None where there is no such thing."""
    module, _, names = place.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for name in names.split("."):
            value = inspect.getattr_static(value, name)
    except (ImportError, AttributeError):
        return None
    return value


def _lacking(place: str, names: set[str], has: Any) -> list[str]:
    return [f"{place} has no {name}" for name in sorted(names.difference(has))]


def is_installed() -> bool:
    """Whether `install` was called in this process."""
    return hasattr(_find(_MANAGER), "llgtrt")


def install(mode: str) -> None:
    """Replaces the front end's check and the manager's functions; `mode`: auto or always."""
    from llgtrt.vllm_plugin import engine, frontend

    manager = _find(_MANAGER)
    manager.llgtrt = mode
    params = _find("vllm.sampling_params:SamplingParams")
    params._validate_structured_outputs = frontend.replacement(params._validate_structured_outputs, mode)
    for name, replacement in engine.REPLACEMENTS.items():
        setattr(manager, name, replacement(getattr(manager, name)))
