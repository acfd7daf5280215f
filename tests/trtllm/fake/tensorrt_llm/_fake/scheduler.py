"""Who gets memory and a place in the next iteration."""

from __future__ import annotations

import dataclasses

from tensorrt_llm._fake.blocks import Blocks
from tensorrt_llm._fake.enums import CapacitySchedulerPolicy
from tensorrt_llm._fake.sequence import Sequence


@dataclasses.dataclass
class Work:
    """What an iteration computes of one sequence."""

    sequence: Sequence
    upto: int
    """Tokens whose KV is there afterwards, drafts apart."""
    chunk: int
    """Tokens of a prompt among it; 0 where it generates."""

    def __post_init__(self) -> None:
        self.is_last = self.upto == len(self.sequence.tokens)
        """Whether a token follows."""


@dataclasses.dataclass
class Scheduler:
    """Waiting and active sequences, the best first: by priority, then by arrival."""

    blocks: Blocks
    batch: int
    step_tokens: int
    chunked: bool
    policy: CapacitySchedulerPolicy
    waiting: list[Sequence] = dataclasses.field(default_factory=list)
    active: list[Sequence] = dataclasses.field(default_factory=list)
    reserved: int = 0
    """Places of ended sequences that something of is still wanted."""
    pauses: int = 0

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)
        self.waiting.sort(key=lambda s: (-s.priority, s.id))

    def admit(self) -> None:
        """Lets in what there is room for."""
        while self.waiting and len(self.active) + self.reserved < self.batch:
            first = self.waiting[0]
            if not self._allocate(first, self._reach(first)):
                if not self.active:
                    first.fail("the KV cache is too small for this request")
                    self.active.append(self.waiting.pop(0))
                return
            self.active.append(self.waiting.pop(0))

    def _reach(self, sequence: Sequence) -> int:
        """Tokens that memory is needed for from the beginning."""
        ahead = len(sequence.drafted)
        if self.policy is CapacitySchedulerPolicy.GUARANTEED_NO_EVICT:
            return sequence.prompt + sequence.room + ahead
        return len(sequence.tokens) + ahead + 1

    def _allocate(self, sequence: Sequence, tokens: int) -> bool:
        if not sequence.blocks:
            most = max(0, len(sequence.tokens) - 1)  # the last token's row is needed
            sequence.blocks = self.blocks.find(sequence.keys(most, self.blocks.tokens))
            sequence.computed = len(sequence.blocks) * self.blocks.tokens
            sequence.context = len(sequence.tokens)
            self._count(sequence)
        while len(sequence.blocks) < self.blocks.needed(tokens):
            block = self.blocks.take()
            if block is None:
                if sequence in self.waiting:
                    self.blocks.give_back(sequence.blocks)
                return False
            sequence.blocks.append(block)
        return True

    def _count(self, sequence: Sequence) -> None:
        usage = sequence.usage
        usage.reused = len(sequence.blocks)
        usage.missed = self.blocks.needed(len(sequence.tokens)) - usage.reused
        self.blocks.total.reused += usage.reused
        self.blocks.total.missed += usage.missed

    def plan(self) -> list[Work]:
        """The next iteration: all that generate, then prompts in the order of their arrival."""
        budget, found = self.step_tokens, []
        for sequence in [s for s in self.active if not s.in_context]:
            if sequence in self.active and self._grow(sequence) and budget > 0:
                found.append(Work(sequence, len(sequence.tokens), 0))
                budget -= 1
        found = [work for work in found if work.sequence in self.active]
        for sequence in [s for s in self.active if s.in_context]:
            left = sequence.context - sequence.computed
            whole = left + len(sequence.drafted)
            if whole <= budget:
                found.append(Work(sequence, sequence.context, left))
                budget -= whole
            elif self.chunked:
                chunk = min(left, budget) // self.blocks.tokens * self.blocks.tokens
                if chunk == left:
                    chunk -= self.blocks.tokens  # the drafts did not fit behind it
                if chunk <= 0:
                    break
                found.append(Work(sequence, sequence.computed + chunk, chunk))
                budget -= chunk
            else:
                if whole > self.step_tokens:
                    sequence.fail(f"the prompt's {whole} tokens exceed max_num_tokens ({self.step_tokens})")
                break
        return found

    def _grow(self, sequence: Sequence) -> bool:
        """Memory for one more token, taken from the youngest where there is none."""
        while not self._allocate(sequence, len(sequence.tokens) + 1):
            victim = self.active[-1]
            self.pauses += 1
            self.active.remove(victim)
            self.release(victim)
            victim.computed = 0
            self.waiting.insert(0, victim)
            if victim is sequence:
                return False
        return True

    def store(self, sequence: Sequence) -> None:
        """Makes full blocks available to others."""
        keys = sequence.keys(min(sequence.computed, len(sequence.hashes) - 1), self.blocks.tokens)
        for block, key in zip(sequence.blocks, keys, strict=False):
            self.blocks.store(block, key)

    def release(self, sequence: Sequence) -> None:
        self.store(sequence)
        self.blocks.give_back(sequence.blocks)
