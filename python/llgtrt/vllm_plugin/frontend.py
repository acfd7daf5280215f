"""What requests the plug-in takes: vLLM's check of a request, in the process that has the HTTP server.

vLLM chooses a back end here, and refuses what it doesn't enforce. The choice goes to the engine with the
request, as `StructuredOutputsParams._backend`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.request import get_structured_output_key

from llgtrt import grammar
from llgtrt.vllm_plugin import SPEC, backend, logger, plain, vocabulary

NAME = "llgtrt"

Check = Callable[[Any, Any, Any, Any], None]
"""`SamplingParams._validate_structured_outputs`: self, model_config, structured_outputs_config, tokenizer."""


def replacement(original: Check, mode: str) -> Check:
    """The check that goes in the place of `original`; `mode`: auto or always."""

    def check(params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
        constraint = params.structured_outputs
        if config is None or constraint is None or tokenizer is None or _is_diffusion(model_config):
            original(params, model_config, config, tokenizer)
            return
        if str(constraint.grammar).startswith(SPEC):
            constraint._backend, constraint._backend_was_auto = NAME, True
            return
        if constraint._backend == NAME:
            # Parameters of an earlier request. vLLM's check would take the name for a choice of the request.
            constraint._backend = None
        if mode == "always" or not _is_plain(constraint):
            refused = _take(params, model_config, config, tokenizer)
            if refused is None:
                return
            if mode == "always":
                raise refused
        _by_vllm(original, params, model_config, config, tokenizer)

    return check


def _by_vllm(original: Check, params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Leaves a request to vLLM, if it has XGrammar or the back end that was asked for enforce it.

    Raises:
        VLLMValidationError: no back end takes the request; with this one's reason.
    """
    constraint = params.structured_outputs
    before = dict(vars(constraint))
    try:
        original(params, model_config, config, tokenizer)
    except (VLLMValidationError, ValueError, TypeError) as error:
        vars(constraint).update(before)
        refused = _take(params, model_config, config, tokenizer)
        if refused is not None:
            raise refused from error
        return
    # An engine of vLLM has one back end of its own, that of the first request. Where `auto` falls back to
    # another one for a later request, the first compiles what it refused before.
    if config.backend == "auto" and constraint._backend != "xgrammar":
        after = dict(vars(constraint))
        vars(constraint).update(before)
        if _take(params, model_config, config, tokenizer) is not None:
            vars(constraint).update(after)


def _take(params: Any, model_config: Any, config: Any, tokenizer: Any) -> VLLMValidationError | None:
    """Marks a request as this back end's; returns why not, where it cannot be."""
    constraint = params.structured_outputs
    try:
        kind, text = get_structured_output_key(constraint)
        vocab = vocabulary.of(model_config, tokenizer)
        compiled = backend.compile_constraint(vocab, kind.name, text, backend.style_of(constraint, config))
    except grammar.GrammarError as error:
        return VLLMValidationError(f"llgtrt: {error}", parameter=_field(constraint))
    except ValueError as error:
        return VLLMValidationError(f"llgtrt: {error}")
    # With reasoning, the number of tokens that are left for the answer is not known yet.
    needed, most = compiled.min_tokens, None if config.reasoning_parser else params.max_tokens
    if needed is not None and most is not None and needed > most:
        return VLLMValidationError(
            f"llgtrt: max_tokens is {most}, but an output that satisfies the constraint needs at least "
            f"{needed} tokens; raise it to {needed} or more",
            parameter="max_tokens",
        )
    for pointer, keyword, reason in compiled.report:
        _tell(pointer, keyword, reason)
    constraint._backend = NAME
    constraint._backend_was_auto = True
    return None


@functools.lru_cache(maxsize=1024)
def _tell(pointer: str, keyword: str, reason: str) -> None:
    """Logs once that less is allowed than a schema says."""
    logger().info("llgtrt: less is allowed than the schema says, at %s, %s: %s", pointer, keyword, reason)


def _is_diffusion(model_config: Any) -> bool:
    """Whether the model writes a text in no order, which no grammar follows."""
    return bool(getattr(model_config, "is_diffusion", False))


def _is_plain(constraint: Any) -> bool:
    """Whether XGrammar enforces all of the constraint, if it takes it."""
    if constraint.regex is not None:
        return plain.regex_is_plain(constraint.regex)
    if constraint.json is None:
        return True
    try:
        return plain.schema_is_plain(
            json.loads(constraint.json) if isinstance(constraint.json, str) else constraint.json
        )
    except ValueError:
        return True


def _field(constraint: Any) -> str:
    """The field that the constraint came in."""
    names = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
    return "structured_outputs." + next(name for name in names if getattr(constraint, name) is not None)
