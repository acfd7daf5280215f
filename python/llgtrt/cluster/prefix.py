"""The beginning of a prompt, as a chain of hashes: requests that begin alike share links.

The text is taken from the body as it is, without parsing JSON, because a client writes the same messages in
the same way. If it does not, the request is only sent to another replica.
"""

from __future__ import annotations

import hashlib
import re

BLOCK_BYTES = 256
"""Of text in a link, some 64 tokens: to compute less again costs little."""

MOST_LINKS = 32
"""As many blocks as are looked at, some 2,000 tokens: prompts that share as much rarely part behind it."""

LOOK_BYTES = 256 * 1024
"""Of a body in which the prompt's beginning is sought: tools or a schema may stand before it."""

_PROMPT = re.compile(rb'"(?:messages|prompt|input)"\s*:')


def found(body: bytes) -> bool:
    """Whether the beginning of a body holds all that `links` looks at."""
    begin = _PROMPT.search(body)
    whole = begin is not None and len(body) - begin.end() >= BLOCK_BYTES * MOST_LINKS
    return whole or len(body) >= LOOK_BYTES


def links(body: bytes, key: bytes) -> list[str]:
    """One link for each whole block of the prompt, the first block's first.

    `key`: the client's; prompts of other clients have other links, as they have KV of their own.
    """
    begin = _PROMPT.search(body)
    if begin is None:
        return []
    text = body[begin.end() : begin.end() + BLOCK_BYTES * MOST_LINKS]
    chain, last = [], key
    for at in range(0, len(text) - BLOCK_BYTES + 1, BLOCK_BYTES):
        last = hashlib.blake2b(last + text[at : at + BLOCK_BYTES], digest_size=8).digest()
        chain.append(last.hex())
    return chain


def session(name: bytes, key: bytes) -> str:
    """The link of a session that the client names."""
    return hashlib.blake2b(key + b"\0session\0" + name, digest_size=8).hexdigest()
