"""The vocabulary of a model that vLLM serves, once per tokenizer and process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any

from llgtrt import grammar

_lock = threading.Lock()
_made: dict[tuple[int, int], tuple[Any, grammar.Vocabulary]] = {}
"""By the tokenizer's id and the size. The tokenizer is held so that its id stays its own."""


def of(model_config: Any, tokenizer: Any, settings: Mapping[str, Any] | None = None) -> grammar.Vocabulary:
    """The vocabulary of vLLM's `tokenizer`; as wide as the model's logits.

    settings: the group `grammar` of `runtime.json`, which is the same for all of a process.

    Raises:
        ValueError: the tokenizer is of a kind that cannot be read.
    """
    size: int = model_config.get_vocab_size()
    key = (id(tokenizer), size)
    with _lock:
        if key not in _made:
            _made[key] = (tokenizer, _make(tokenizer, end_tokens(model_config, tokenizer), size, settings))
        return _made[key][1]


def end_tokens(model_config: Any, tokenizer: Any) -> list[int]:
    """The tokens at which vLLM ends an answer of this model, a request's own ones aside."""
    configured = model_config.try_get_generation_config().get("eos_token_id")
    if configured is None:
        configured = []
    elif isinstance(configured, int):
        configured = [configured]
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return list(dict.fromkeys([*own, *configured]))


def _make(
    tokenizer: Any, eos: list[int], size: int, settings: Mapping[str, Any] | None
) -> grammar.Vocabulary:
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        # As vLLM uses it, with tokens that were added to it in memory.
        return grammar.Vocabulary.from_tokenizer_json(fast.to_str(), eos, size=size, settings=settings)
    if getattr(tokenizer, "is_tekken", False):
        return _of_tekken(tokenizer.tokenizer, eos, size, settings)
    raise ValueError(f"llgtrt cannot read a tokenizer of the kind {type(tokenizer).__name__}")


def _of_tekken(
    tekken: Any, eos: list[int], size: int, settings: Mapping[str, Any] | None
) -> grammar.Vocabulary:
    """Mistral's own kind of tokenizer, without a `tokenizer.json`."""
    special = [token for token in range(tekken.n_words) if tekken.is_special(token)]
    tokens: list[bytes | None] = [tekken.id_to_byte_piece(token) for token in range(tekken.n_words)]
    for token in special:
        tokens[token] = tekken.id_to_piece(token).encode()
    tokens += [None] * (size - len(tokens))
    encode = functools.partial(tekken.encode, bos=False, eos=False)
    return grammar.Vocabulary.from_tokens(
        tokens[:size], eos, special=special, encode=encode, settings=settings
    )
