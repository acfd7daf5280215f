"""`suffix`: the text after the output, for models with fill-in-the-middle tokens."""

from __future__ import annotations

from llgtrt.openai import schema, translate
from llgtrt.openai.errors import invalid
from llgtrt.prompt import Vocabulary

_MARKS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
"""Qwen's and CodeGemma's; StarCoder's; SantaCoder's; DeepSeek's."""


def check(body: schema.CompletionRequest, wanted: translate.Texts | translate.Tokens) -> None:
    """Refuses `suffix` beside what it cannot be beside.

    Raises:
        ApiError: so it is.
    """
    if not body.suffix:
        return
    beside = {
        "a prompt of token ids": isinstance(wanted, translate.Tokens),
        "echo": body.echo,
        "truncate_prompt_tokens": body.truncate_prompt_tokens is not None,
    }
    found = next((name for name, there in beside.items() if there), None)
    if found:
        raise invalid("suffix", f"suffix: not beside {found}; leave one out", "unsupported_parameter")


def written(vocabulary: Vocabulary, before: str, after: str) -> list[int]:
    """The prompt that asks for what goes on from a text.

    Where another text stands behind that, nothing in the two is a special token.

    Raises:
        ApiError: the vocabulary has no tokens for a text behind it.
    """
    if not after:
        return vocabulary.plain(before)
    found = marks(vocabulary)
    if found is None:
        message = "suffix: this model has no tokens for filling in; leave it out"
        raise invalid("suffix", message, "unsupported_parameter")
    first, second, third = found
    return vocabulary.begun([(first, True), (before, False), (second, True), (after, False), (third, True)])


def marks(vocabulary: Vocabulary) -> tuple[str, str, str] | None:
    """The tokens before the text, the suffix and what is filled in; None where the model has none."""
    return next((m for m in _MARKS if all(_is_token(vocabulary, mark) for mark in m)), None)


def _is_token(vocabulary: Vocabulary, mark: str) -> bool:
    found = vocabulary.encode([(mark, True)])
    return len(found) == 1 and vocabulary.lookup(found[0])[0] == mark.encode()
