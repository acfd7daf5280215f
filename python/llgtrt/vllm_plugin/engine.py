"""What the plug-in replaces in the engine's process: functions of vLLM's `StructuredOutputManager`.

A manager has one back end, and gives it to all requests. Here requests of this back end go beside it, so that
both serve in one engine; they share the rows of a pass.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from llgtrt.vllm_plugin import frontend
from llgtrt.vllm_plugin.backend import Backend, Grammar, fill, style_of

_lock = threading.Lock()


class _State:
    """What the plug-in knows of one manager."""

    def __init__(self, manager: Any) -> None:
        size = manager.vllm_config.model_config.get_vocab_size()
        self.backend = Backend(manager.vllm_config, manager.tokenizer, size)
        self.own_rows: Any = None
        """The rows, where this back end has allocated them."""
        self.later: list[tuple[Grammar, int]] | None = None
        """Rows of the pass that are filled together at its end; None: each is filled at once."""


def _state(manager: Any) -> _State:
    """Made at the first request; the vocabulary is read then."""
    with _lock:
        state: _State | None = vars(manager).get("_llgtrt")
        if state is None:
            state = manager._llgtrt = _State(manager)
        return state


def _is_ours(request: Any) -> bool:
    constraint = request.sampling_params and request.sampling_params.structured_outputs
    return constraint is not None and constraint._backend == frontend.NAME


def _grammar_init(original: Any) -> Any:
    @functools.wraps(original)
    def grammar_init(self: Any, request: Any) -> None:
        structured = request.structured_output_request
        if structured is None or not _is_ours(request):
            original(self, request)
        elif self._use_async_grammar_compilation:
            structured.grammar = self.executor.submit(self._create_grammar, request)
        else:
            made: Future[Grammar] = Future()
            try:
                made.set_result(self._create_grammar(request))
            except Exception as error:
                made.set_exception(error)
            structured.grammar = made

    return grammar_init


def _create_grammar(original: Any) -> Any:
    @functools.wraps(original)
    def create_grammar(self: Any, request: Any) -> Any:
        if not _is_ours(request):
            return original(self, request)
        kind, text = request.structured_output_request.structured_output_key
        stops = request.sampling_params.all_stop_token_ids
        config = self.vllm_config.structured_outputs_config
        style = style_of(request.sampling_params.structured_outputs, config)
        made = _state(self).backend.compile_grammar(kind, text, stops, style)
        made.bind(left_for(self, request))
        return made

    return create_grammar


def _fill_bitmasks(original: Any) -> Any:
    @functools.wraps(original)
    def fill_bitmasks(self: Any, batch: Iterable[tuple[Any, ...]]) -> None:
        state: _State | None = vars(self).get("_llgtrt")
        if state is None or state.later is None:
            original(self, batch)
            return
        others = []
        for entry in batch:
            # From 0.33 on there is a fourth member, which is for rows that are not constrained.
            made, row, constrained = entry[:3]
            if constrained and isinstance(made, Grammar) and not made.is_terminated():
                state.later.append((made, row))
            else:
                others.append(entry)
        original(self, others)

    return fill_bitmasks


def _grammar_bitmask(original: Any) -> Any:
    @functools.wraps(original)
    def grammar_bitmask(
        self: Any,
        requests: dict[str, Any],
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> Any:
        state: _State | None = vars(self).get("_llgtrt")
        if state is None:
            return original(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        _allocate(self, state)
        drafts = any(scheduled_spec_decode_tokens.get(name) for name in structured_output_request_ids)
        # A draft moves the grammar on between the rows of a request.
        state.later = None if drafts else []
        state.backend.drafting = True
        try:
            rows = original(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
            # What vLLM returns shares its memory with these rows.
            if state.later:
                fill(state.later, self._grammar_bitmask)
        finally:
            state.later = None
            state.backend.drafting = False
        return rows

    return grammar_bitmask


def _allocate(manager: Any, state: _State) -> None:
    """Allocates the rows where vLLM has no back end that does, and drops them once it has one."""
    if manager.backend is None and manager._grammar_bitmask is None:
        config = manager.vllm_config
        rows = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
        manager._grammar_bitmask = state.own_rows = state.backend.allocate_token_bitmask(rows)
    elif manager.backend is not None and state.own_rows is not None:
        manager._grammar_bitmask = state.own_rows = None


REPLACEMENTS: dict[str, Callable[[Any], Any]] = {
    "grammar_init": _grammar_init,
    "_create_grammar": _create_grammar,
    "_fill_bitmasks": _fill_bitmasks,
    "grammar_bitmask": _grammar_bitmask,
}
"""By the function's name: from vLLM's function to the one in its place."""


def left_for(manager: Any, request: Any) -> Callable[[int], int | None]:
    """For `Grammar.bind`: what `max_tokens`, the context and reasoning leave to the answer of a request."""
    held: Callable[[], Any] = weakref.ref(request)
    room = manager.vllm_config.model_config.max_model_len - request.num_prompt_tokens
    most: int = min(request.max_tokens, room)
    reasons = manager.reasoner_cls is not None and not manager.enable_in_reasoning

    def left(counted: int) -> int | None:
        request: Any = held()
        if request is None:
            return None
        drafted = 0
        if reasons and not counted and not request.structured_output_request.reasoning_ended:
            # How many of the drafted tokens belong to the reasoning is not known here: at most all of them.
            drafted = manager.vllm_config.num_speculative_tokens
        spent: int = request.num_output_tokens - counted + drafted
        return max(most - spent, 0)

    return left
