"""Iterations: schedule, compute logits, let callbacks edit them, draw, answer. The same on every rank."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tensorrt_llm._fake.answers import response
from tensorrt_llm._fake.configs import ExecutorConfig
from tensorrt_llm._fake.device import Device
from tensorrt_llm._fake.engine import Engine
from tensorrt_llm._fake.enums import FinishReason
from tensorrt_llm._fake.group import POLL, Group, ask_for_logits, world_rank
from tensorrt_llm._fake.model import WIDTH
from tensorrt_llm._fake.requests import Request
from tensorrt_llm._fake.results import (
    InflightBatchingStats,
    IterationStats,
    KvCacheStats,
    Response,
    SpeculativeDecodingFastLogitsInfo,
    fast_logits_info,
)
from tensorrt_llm._fake.sampling import distribution
from tensorrt_llm._fake.scheduler import Scheduler, Work
from tensorrt_llm._fake.sequence import Sequence
from tensorrt_llm._fake.verify import Sampler


@dataclasses.dataclass
class News:
    """What the leader tells all ranks before an iteration."""

    requests: list[tuple[int, Request]]
    cancelled: list[int]
    stop: bool = False
    reserved: int = 0
    """Places of the batch that ended drafts keep until their logits are fetched."""


class Loop:
    """The executor's state. Only its thread uses it."""

    def __init__(
        self, engine: Engine, config: ExecutorConfig, group: Group, answer: Callable[[Response, bool], None]
    ) -> None:
        self._engine, self._config, self._group, self._answer = engine, config, group, answer
        self._blocks = engine.blocks(config)
        scheduler = config.scheduler_config
        self._scheduler = Scheduler(
            self._blocks,
            engine.batch,
            engine.step_tokens,
            config.enable_chunked_context,
            scheduler.capacity_scheduler_policy,
        )
        self._device = Device()
        self._calls = 0
        self.iteration = 0
        self.stats: list[IterationStats] = []
        self._kept: dict[int, Any] = {}
        """Logits of ended drafts that a target may ask for, by request."""

    @property
    def is_idle(self) -> bool:
        return not self._scheduler.active and not self._scheduler.waiting

    def close(self) -> None:
        """Gives the memory back."""
        self._engine.give_back(self._blocks)

    def take(self, news: News) -> None:
        """New requests and cancellations."""
        self._scheduler.reserved = news.reserved
        for number, request in news.requests:
            self._add(number, request)
        for number in news.cancelled:
            for sequence in [*self._scheduler.active, *self._scheduler.waiting]:
                if sequence.id == number:
                    sequence.end(FinishReason.CANCELLED)

    def _add(self, number: int, request: Request) -> None:
        why = self._engine.refusal(request, self._config.max_beam_width)
        if self._every(self._engine.faults.refuse_every, number):
            why = "a fault was asked for"
        room = self._engine.room(request)
        if why is None and room < 1:
            why = f"there is no room for an answer in sequences of {self._engine.seq_len} tokens"
        if why is not None:
            self._say(Response(number, why, request.client_id), True)
            return
        sequence = Sequence(number, request, room, [self._engine.model.seed])
        rows = self._draft_logits(sequence)
        if rows is not None:
            rows = rows.astype(np.float32)[:, :WIDTH]
            sequence.draft_probs = [distribution(row, request.sampling_config) for row in rows]
        self._engine.model.extend(sequence.hashes, sequence.tokens)
        self._scheduler.add(sequence)

    def _draft_logits(self, sequence: Sequence) -> Any:
        """Rows that a draft's tokens were drawn from, if there are any: the request's, or another rank's."""
        draft = sequence.draft
        if draft is None or draft.logits is None:
            return None
        if not draft.fast_logits:
            return draft.logits.cpu().numpy()
        found = None
        if self._group.is_leader:
            info = fast_logits_info(draft.logits)
            found = ask_for_logits(info.draft_participant_id, info.draft_request_id)
        found = self._group.broadcast(found)
        if found is None:
            raise RuntimeError("a draft's logits were asked for, but its request is unknown")
        return found

    def hand_out(self, number: int) -> Any:
        """The logits of an ended request, once; its place is free then."""
        return self._kept.pop(number, None)

    @property
    def reserved(self) -> int:
        """Ended drafts whose logits are kept."""
        return len(self._kept)

    @staticmethod
    def _every(count: int, number: int) -> bool:
        return count > 0 and number % count == 0

    def step(self) -> None:
        """One iteration; an error of the pass or of a callback ends all that are active."""
        self.iteration += 1
        began = time.monotonic()
        for sequence in [*self._scheduler.active, *self._scheduler.waiting]:
            if sequence.is_late and not sequence.done:
                sequence.end(FinishReason.TIMED_OUT)
        self._sweep()
        self._scheduler.admit()
        work = self._scheduler.plan()
        try:
            if self.iteration == self._engine.faults.fail_at:
                raise RuntimeError("a fault was asked for")
            self._forward(work)
        except Exception as e:
            for sequence in self._scheduler.active:
                sequence.fail(f"Encountered an error in forwardAsync function: {e}")
        self._respond(work)
        self._count(work, began)
        self._sweep()
        rest = self._engine.faults.iteration_ms / 1000 - (time.monotonic() - began)
        time.sleep(max(rest, 0.0 if work else POLL))

    def _forward(self, work: list[Work]) -> None:
        early = self._engine.faults.early_calls
        work = [w for w in work if not w.sequence.done]
        wanted = [w for w in work if w.is_last or (early and self._has_callback(w.sequence.request))]
        if wanted:
            rows = self._logits(wanted)
            self._process(wanted, rows)
            self._draw(wanted, rows)
        for w in work:
            w.sequence.computed = max(w.upto, w.sequence.computed) if w.is_last else w.upto
            w.sequence.first = w.sequence.first or self.iteration
            w.sequence.iterations += w.is_last
            self._scheduler.store(w.sequence)

    @staticmethod
    def _has_callback(request: Request) -> bool:
        return request.logits_post_processor_name is not None or request.logits_post_processor is not None

    def _logits(self, wanted: list[Work]) -> list[Any]:
        """Rows of each, `[1 + D, 1, padded]`; every rank computes its part of the columns."""
        hashes: list[int] = []
        counts = []
        for w in wanted:
            found = w.sequence.hashes[: w.upto + 1]
            if w.is_last:
                self._engine.model.extend(found, w.sequence.drafted)
            counts.append(len(found) - w.upto)
            hashes += found[w.upto :]
        part = self._engine.padded // self._group.size
        columns = slice(self._group.rank * part, (self._group.rank + 1) * part)
        own = self._engine.model.logits(hashes, columns)
        own = np.pad(own, ((0, 0), (0, part - own.shape[1])))
        parts = self._group.gather(own)
        whole = np.concatenate(parts, axis=1) if parts else np.zeros((len(hashes), self._engine.padded))
        whole = whole.astype(np.float16 if self._engine.half else np.float32)
        ends = np.cumsum(counts)
        return [whole[end - n : end].reshape(n, 1, -1) for n, end in zip(counts, ends, strict=True)]

    def _process(self, wanted: list[Work], rows: list[Any]) -> None:
        """Calls back, on this thread, which takes the GIL for it."""
        config = self._config.logits_post_processor_config
        if config is None or not (self._group.is_leader or config.replicate):
            return
        batched, alone = [], []
        for w, array in zip(wanted, rows, strict=True):
            name, own = (
                w.sequence.request.logits_post_processor_name,
                w.sequence.request.logits_post_processor,
            )
            if name == Request.BATCHED_POST_PROCESSOR_NAME:
                batched.append((w.sequence, array))
            elif name is not None or own is not None:
                alone.append((w.sequence, array, own or (config.processor_map or {})[name or ""]))
        with self._device.work():
            if batched and config.processor_batched is None:
                raise RuntimeError("there is no batched logits post-processor")
            if batched and config.processor_batched is not None:
                self._calls += 1
                tensors = [self._device.upload(array) for _, array in batched]
                if self._calls == self._engine.faults.broken_logits:
                    tensors = [tensor.view(-1)[:1].view(()) for tensor in tensors]
                config.processor_batched(
                    [s.id for s, _ in batched],
                    tensors,
                    [[list(s.tokens)] for s, _ in batched],
                    self._device.stream_ptr,
                    [s.request.client_id for s, _ in batched],
                )
            for sequence, array, callback in alone:
                tensor, client = self._device.upload(array), sequence.request.client_id
                callback(sequence.id, tensor, [list(sequence.tokens)], self._device.stream_ptr, client)

    def _draw(self, wanted: list[Work], rows: list[Any]) -> None:
        """The leader draws; others learn what came."""
        if self._group.is_leader:
            for w, array in zip(wanted, rows, strict=True):
                if w.is_last and not w.sequence.done:
                    Sampler(w.sequence, self._config.normalize_log_probs).step(array[:, 0, :WIDTH])
                    self._plant(w.sequence)
        kept = ("tokens", "log_probs", "accepted", "reason", "done", "error")
        drawn = {w.sequence.id: {name: getattr(w.sequence, name) for name in kept} for w in wanted}
        drawn = self._group.broadcast(drawn)
        for w in wanted:
            if not self._group.is_leader:
                w.sequence.__dict__.update(drawn[w.sequence.id])
            missing = len(w.sequence.hashes) - 1
            self._engine.model.extend(w.sequence.hashes, w.sequence.tokens[missing:])

    def _plant(self, sequence: Sequence) -> None:
        faults = self._engine.faults
        if self._every(faults.error_every, sequence.id):
            sequence.fail("a fault was asked for")
        if faults.one_step and self._engine.external and not sequence.done:
            sequence.end(FinishReason.LENGTH)

    def _respond(self, work: list[Work]) -> None:
        drawn = [w.sequence for w in work if w.is_last and w.sequence.request.streaming]
        for sequence in drawn:
            if not sequence.done and sequence.generated > sequence.sent:
                self._say(response(sequence, self.iteration), False)

    def _sweep(self) -> None:
        """Answers those that have ended, and frees what they held."""
        scheduler = self._scheduler
        for line in (scheduler.active, scheduler.waiting):
            for sequence in [s for s in line if s.done]:
                line.remove(sequence)
                scheduler.release(sequence)
                silent = self._engine.faults.silent_cancel and sequence.reason is FinishReason.CANCELLED
                if not silent:
                    self._say(self._last(sequence), True)

    def _last(self, sequence: Sequence) -> Response:
        found = response(sequence, self.iteration)
        fast = self._config.spec_dec_config
        if fast is not None and fast.fast_logits and sequence.logits and not found.has_error():
            self._kept[sequence.id] = np.array(sequence.logits)
            info = SpeculativeDecodingFastLogitsInfo()
            info.draft_request_id, info.draft_participant_id = sequence.id, world_rank()
            found.result.spec_dec_fast_logits_info = info
        return found

    def _say(self, found: Response, last: bool) -> None:
        if self._group.is_leader:
            self._answer(found, last)

    def _count(self, work: list[Work], began: float) -> None:
        if self._config.iter_stats_max_iterations == 0:
            return
        blocks, scheduler = self._blocks, self._scheduler
        kv = KvCacheStats(
            max_num_blocks=blocks.count,
            free_num_blocks=blocks.available,
            used_num_blocks=blocks.used,
            tokens_per_block=blocks.tokens,
            reused_blocks=blocks.total.reused,
            missed_blocks=blocks.total.missed,
            cache_hit_rate=blocks.total.rate,
        )
        batching = InflightBatchingStats(
            num_scheduled_requests=len(work),
            num_context_requests=sum(w.chunk > 0 for w in work),
            num_gen_requests=sum(w.chunk == 0 for w in work),
            num_paused_requests=scheduler.pauses,
            num_ctx_tokens=sum(w.chunk for w in work),
        )
        self.stats.append(
            IterationStats(
                timestamp=datetime.datetime.now().strftime("%m-%d-%Y %H:%M:%S.%f"),
                iter=self.iteration,
                iter_latency_ms=(time.monotonic() - began) * 1000,
                num_active_requests=len(scheduler.active),
                num_queued_requests=len(scheduler.waiting),
                max_num_active_requests=self._engine.batch,
                kv_cache_stats=kv,
                inflight_batching_stats=batching,
            )
        )
        del self.stats[: -self._config.iter_stats_max_iterations]
