"""Who does an executor's work: a thread of this process, or ranks that an orchestrator speaks to."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from tensorrt_llm._fake.configs import ExecutorConfig
from tensorrt_llm._fake.engine import Engine
from tensorrt_llm._fake.group import POLL, Group, Link, answer_asks
from tensorrt_llm._fake.loop import Loop, News
from tensorrt_llm._fake.mailbox import IDLE, Mailbox
from tensorrt_llm._fake.requests import Request
from tensorrt_llm._fake.results import IterationStats, Response


@dataclasses.dataclass
class _Inbox:
    """What other threads leave for the executor's; under the mailbox's lock."""

    requests: list[tuple[int, Request]] = dataclasses.field(default_factory=list)
    cancelled: list[int] = dataclasses.field(default_factory=list)


class Worker:
    """A thread that iterates. Where an orchestrator leads, `link` brings requests and takes answers."""

    def __init__(
        self, engine: Engine, config: ExecutorConfig, group: Group, mailbox: Mailbox, link: Link | None
    ) -> None:
        self._engine, self._group, self._mailbox, self._link = engine, group, mailbox, link
        self._inbox, self._shutdown = _Inbox(), False
        self._loop = Loop(engine, config, group, self._answer)
        self._serves_logits = config.spec_dec_config is not None and config.spec_dec_config.fast_logits
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        return self._group.is_leader and self._link is None

    def waiting(self) -> int:
        return len(self._inbox.requests)

    def enqueue(self, numbered: list[tuple[int, Request]]) -> None:
        """Under the mailbox's lock, as `cancel`."""
        self._inbox.requests += numbered

    def cancel(self, number: int) -> None:
        self._inbox.cancelled.append(number)

    def stop(self) -> None:
        """Waits for all requests to end; where it does not lead, for whoever leads."""
        with self._mailbox.changed:
            self._shutdown = self._link is None
            self._mailbox.changed.notify_all()
        self._thread.join()

    def stats(self) -> list[IterationStats]:
        found, self._loop.stats = self._loop.stats, []
        return found

    def _run(self) -> None:
        why = ""
        try:
            while True:
                news = self._group.broadcast(self._wait() if self._group.is_leader else None)
                self._loop.take(news)
                if news.stop:
                    break
                self._loop.step()
                self._misbehave()
        except Exception as e:
            why = f"{type(e).__name__}: {e}"
        finally:
            self._loop.close()
            self._mailbox.close(why)
            if self._link is not None and self._group.is_leader:
                self._link.send(("closed", why))

    def _wait(self) -> News:
        """Until there is work, or it is over: then all requests have ended."""
        while True:
            self._listen()
            with self._mailbox.changed:
                if not self._loop.is_idle or self._inbox.requests or self._shutdown:
                    inbox, self._inbox = self._inbox, _Inbox()
                    stop = self._shutdown and self._loop.is_idle and not inbox.requests
                    return News(inbox.requests, inbox.cancelled, stop, self._loop.reserved)
                self._inbox.cancelled.clear()
                self._mailbox.changed.wait(IDLE if self._link is None else POLL)

    def _listen(self) -> None:
        """Messages of other ranks."""
        if self._serves_logits:
            answer_asks(self._loop.hand_out)
        while self._link is not None and (message := self._link.receive()) is not None:
            kind, content = message
            with self._mailbox.changed:
                if kind == "requests":
                    self._inbox.requests += content
                elif kind == "cancel":
                    self._inbox.cancelled.append(content)
                else:
                    self._shutdown = True

    def _misbehave(self) -> None:
        faults = self._engine.faults
        if faults.stop_after and self._loop.iteration >= faults.stop_after:
            raise RuntimeError("a fault was asked for: the executor has shut itself down")
        while faults.hang_after and self._loop.iteration >= faults.hang_after:
            if self._shutdown:
                raise RuntimeError("a fault was asked for: the executor hung until it was shut down")
            time.sleep(IDLE)

    def _answer(self, response: Response, last: bool) -> None:
        if self._link is not None:
            self._link.send(("answer", (response, last)))
            return
        faults = self._engine.faults
        self._mailbox.put(response, last, faults.late_ms / 1000, faults.twice)


class Orchestrator:
    """Hands requests to the leader of other ranks."""

    leads = True

    def __init__(self, mailbox: Mailbox, link: Link) -> None:
        self._mailbox, self._link, self._open = mailbox, link, 0
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._thread.start()

    def waiting(self) -> int:
        return 0

    def enqueue(self, numbered: list[tuple[int, Request]]) -> None:
        self._link.send(("requests", numbered))

    def cancel(self, number: int) -> None:
        self._link.send(("cancel", number))

    def stop(self) -> None:
        if self._thread.is_alive():
            self._link.send(("stop", None))
        self._thread.join()

    def stats(self) -> list[Any]:
        """They stay with the ranks."""
        return []

    def _run(self) -> None:
        while True:
            message = self._link.receive()
            if message is None:
                time.sleep(POLL)
                continue
            kind, content = message
            if kind == "closed":
                self._mailbox.close(content)
                return
            response, last = content
            self._mailbox.put(response, last, 0.0, False)
