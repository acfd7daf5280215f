"""From text to prompt tokens, so that nothing a client writes becomes a special token of the template.

A chat prompt is rendered from the messages as they are and encoded once. Protection is needed only if a
special token comes out whose text also occurs in a message. Then the messages are rendered again with each
such text between two random marks. If the marks come out whole, and the prompt without them is the same as
before, the text between them is encoded as plain text. So the prompt is always exactly what the template
makes of the messages, and an ordinary request costs one rendering and one encoding.

A template may cut messages: a mark that lost its partner is dropped. If the marks change what the template
does, the request is refused. A client's text is never trusted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from llgtrt import _core
from llgtrt.templates import ASK, NAMED, ChatTemplate, Message, RenderError

Parts = list[tuple[str, bool]]
"""Texts, and whether the text of special tokens in them stands for those tokens."""


class Vocabulary:
    """Token ids and their texts, looked up once each."""

    def __init__(self, core: _core.Engine) -> None:
        self._core = core
        self._known: dict[int, tuple[bytes, bool]] = {}
        self._longest: int | None = None

    def lookup(self, token: int) -> tuple[bytes, bool]:
        """The token's bytes, and whether it is special: written, but no part of the text."""
        known = self._known.get(token)
        if known is None:
            written = self._core.token_bytes(token)
            known = self._known[token] = written, bool(written) and not self._core.decode([token])
        return known

    def longest(self) -> int:
        """Bytes of the longest token."""
        if self._longest is None:
            self._longest = self._core.longest_token()
        return self._longest

    def ends(self) -> list[str]:
        """Written forms of the tokens that end an answer."""
        tokens: list[int] = msgspec.json.decode(self._core.info())["eog"]
        return [text for token in tokens if (text := self.lookup(token)[0].decode("utf-8", "replace"))]

    def special_texts(self, tokens: Iterable[int]) -> set[str]:
        """Written forms of the special tokens among these."""
        found = (self.lookup(token) for token in set(tokens))
        return {written.decode("utf-8", "replace") for written, special in found if special}

    def encode(self, parts: Parts) -> list[int]:
        """The tokens of the parts' concatenation."""
        return self._core.encode(parts)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones left out."""
        return self._core.decode(tokens)

    def plain(self, text: str) -> list[int]:
        """A prompt that comes as text, special tokens included, after the model's first token."""
        return self.begun([(text, True)])

    def begun(self, parts: Parts) -> list[int]:
        """A prompt of parts, after the model's first token."""
        return self._begin(self.encode(parts))

    def text(self, text: str) -> list[int]:
        """Plain text, in which nothing is a special token."""
        return self.encode([(text, False)]) if text else []

    def chat(
        self, template: ChatTemplate, messages: Sequence[Message], options: Mapping[str, Any] = ASK
    ) -> list[int]:
        """The prompt of a chat; `options`: of the template.

        Raises:
            RenderError: the template refuses the messages, or mixes them up with its own special tokens.
        """
        rendered = template.render(messages, options)
        tokens = self.encode([(rendered, True)])
        risky_texts = self.special_texts(tokens)
        data = {name: options[name] for name in NAMED.values() if options.get(name)}
        clients = [*strings([_told(m) for m in messages]), *strings(list(data.values()))]
        risky = {t for t in risky_texts if any(t in text for text in clients)}
        for text in strings({n: v for n, v in options.items() if n not in data}):
            if any(t in text for t in risky_texts):
                raise RenderError("chat_template_kwargs contains a special token of the model; leave it out")
        if risky:
            tokens = self.encode(protect(template, messages, rendered, risky, options))
        return self._begin(tokens)

    def _begin(self, tokens: list[int]) -> list[int]:
        bos = self._core.bos_token()
        return tokens if bos is None or tokens[:1] == [bos] else [bos, *tokens]


def protect(
    template: ChatTemplate,
    messages: Sequence[Message],
    rendered: str,
    risky: set[str],
    options: Mapping[str, Any] = ASK,
) -> Parts:
    """Splits a rendered prompt so that `risky` texts from messages are not parsed as special tokens.

    Raises:
        RenderError: the template treats a message differently because of such a text.
    """
    begin, end = f"b{secrets.token_hex(12)}", f"e{secrets.token_hex(12)}"
    one = "|".join(re.escape(t) for t in sorted(risky, key=lambda t: (-len(t), t)))

    def mark(text: str) -> str:
        return re.sub(one, lambda t: f"{begin}{t[0]}{end}", text)

    marked = [{**m, **_mapped(_told(m), mark)} for m in messages]
    data = {name: options[name] for name in NAMED.values() if options.get(name)}
    options = {**options, **_mapped(data, mark)}
    pieces = re.split(f"{begin}({one}){end}", template.render(marked, options))
    pieces[::2] = [piece.replace(begin, "").replace(end, "") for piece in pieces[::2]]
    if "".join(pieces) != rendered:
        named = ", ".join(sorted(risky))
        raise RenderError(
            f"one contains {named}, which the model's chat template treats as its own; leave it out"
        )
    return [(piece, i % 2 == 0) for i, piece in enumerate(pieces) if piece]


def strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value, however deeply it is nested, keys too."""
    line = [value]
    while line:
        part = line.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            line.extend((*part, *part.values()))
        elif isinstance(part, list):
            line.extend(part)


def _told(message: Message) -> Message:
    """What of a message is the client's text."""
    return {name: value for name, value in message.items() if name != "role"}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with all texts in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _mapped(part, change) for name, part in value.items()}
    return [_mapped(part, change) for part in value] if isinstance(value, list) else value
