"""The paged KV cache: blocks of tokens, shared between requests with the same prefix."""

from __future__ import annotations

import collections
import dataclasses
import math

Key = tuple[int | None, int]
"""A salt, and the hash of all tokens up to a block's end."""


@dataclasses.dataclass
class Block:
    key: Key | None = None
    users: int = 1


@dataclasses.dataclass
class Usage:
    """Blocks that a request got: found in the cache, or not."""

    reused: int = 0
    missed: int = 0

    @property
    def rate(self) -> float:
        return self.reused / max(1, self.reused + self.missed)


class Blocks:
    """All blocks of an executor. Full ones stay after their last user; the least recently used goes first."""

    def __init__(self, count: int, tokens: int, reuse: bool) -> None:
        self.count, self.tokens, self.reuse = count, tokens, reuse
        self.used = 0
        """Blocks with users."""
        self.total = Usage()
        self._stored: dict[Key, Block] = {}
        self._idle: collections.OrderedDict[Key, Block] = collections.OrderedDict()

    def needed(self, tokens: int) -> int:
        return math.ceil(tokens / self.tokens)

    @property
    def available(self) -> int:
        return self.count - self.used

    def find(self, keys: list[Key]) -> list[Block]:
        """Takes the longest stored prefix of `keys`."""
        found: list[Block] = []
        for key in keys if self.reuse else []:
            block = self._stored.get(key)
            if block is None:
                break
            if block.users == 0:
                del self._idle[key]
                self.used += 1
            block.users += 1
            found.append(block)
        return found

    def take(self) -> Block | None:
        """An empty block, if there is one."""
        if self.used >= self.count:
            return None
        if self.used + len(self._idle) >= self.count:
            key, _ = self._idle.popitem(last=False)
            del self._stored[key]
        self.used += 1
        return Block()

    def store(self, block: Block, key: Key) -> None:
        """A block is full: others may have it from now on."""
        if self.reuse and block.key is None and key not in self._stored:
            block.key = key
            self._stored[key] = block

    def give_back(self, blocks: list[Block]) -> None:
        """A request's blocks, last one first: the beginning of a prompt is kept longest."""
        for block in reversed(blocks):
            block.users -= 1
            if block.users == 0:
                self.used -= 1
                if block.key is not None:
                    self._idle[block.key] = block
        blocks.clear()
