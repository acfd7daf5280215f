"""Two servers on the same work, in turns within one run."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from client import CHAT, Arrivals, Report, all_faults, load
from plot import bars
from record import Record, Table, number
from servers import Server
from work import Case

SETTLING = 5.0
"""Most seconds that a round waits for the one before to end."""
QUIET = 0.05
"""Cores that servers without work take at most."""


@dataclass
class Meeting:
    """A case's reports, one of each server a round."""

    case: Case
    label: str
    rounds: list[tuple[Report, Report]] = field(default_factory=list)

    def rate(self, report: Report) -> float:
        """Tokens per second; requests where an answer is one token."""
        return report["requests_per_second"] if self.case.tokens == 1 else report["tokens_per_second"]

    def ratios(self) -> list[float]:
        """How much faster the first one is, round by round, in order; none where one answered nothing."""
        return sorted(self.rate(a) / self.rate(b) for a, b in self.rounds if self.rate(b) > 0)

    def row(self) -> list[str]:
        """Medians of the rounds."""
        rates = [statistics.median(self.rate(pair[i]) for pair in self.rounds) for i in (0, 1)]
        firsts = [statistics.median(latest(pair[i]) for pair in self.rounds) for i in (0, 1)]
        wrong = [all_faults([pair[i] for pair in self.rounds]) for i in (0, 1)]
        unit = "requests/s" if self.case.tokens == 1 else "tokens/s"
        speeds = [f"{number(rates[0])} {unit}", number(rates[1])]
        ratio = span(self.ratios())
        return [self.label, str(self.case.clients), *speeds, ratio, *map(number, firsts), *wrong]


def span(ratios: list[float]) -> str:
    """The median of sorted ratios, and how they lie; empty where there are none."""
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else ""


def latest(report: Report) -> float:
    """The last first text, in ms; 0 where nothing came."""
    return report["first_ms"]["max"] if report["first_ms"] else 0.0


def meet(pair: tuple[Server, Server], cases: list[Case], rounds: int, label: str) -> list[Meeting]:
    """Every case with both servers; who goes first changes; the first round is not counted."""
    meetings = [Meeting(case, f"{label}{case.name}") for case in cases]
    for turn in range(rounds + 1):
        for meeting in meetings:
            bodies = meeting.case.bodies(turn)
            reports: dict[str, Report] = {}
            for server in pair if turn % 2 else pair[::-1]:
                settle(pair)
                arrivals = Arrivals(meeting.case.clients)
                reports[server.url] = load(server.url + CHAT, bodies, arrivals, errors_cut=True)
            if turn > 0:
                meeting.rounds.append((reports[pair[0].url], reports[pair[1].url]))
    return meetings


def settle(servers: tuple[Server, ...]) -> None:
    """Waits until nothing runs in the servers: the peer's threads spin for a while after a pass."""
    end = time.monotonic() + SETTLING
    before = sum(sum(server.cpu().values()) for server in servers)
    while time.monotonic() < end:
        time.sleep(0.1)
        now = sum(sum(server.cpu().values()) for server in servers)
        if now - before < 0.1 * QUIET:
            return
        before = now


def record(name: str, names: tuple[str, str], meetings: list[Meeting]) -> Record:
    """A table with all cases, and their ratios as bars."""
    one, two = names
    header = ["case", "clients", one, two, "ratio", f"{one}: last first text, ms", f"{two}: ms"]
    header += [f"{one}: faults", f"{two}: faults"]
    table = Table(f"{one} beside {two}: medians of rounds", header, [m.row() for m in meetings])
    rows = [
        (f"{m.label}, {m.case.clients}", statistics.median(r), r[0], r[-1])
        for m in meetings
        if (r := m.ratios())
    ]
    data: Any = [{"case": vars(m.case), "label": m.label, "rounds": m.rounds} for m in meetings]
    return Record(name, [table], {"ratios": bars(f"{one} beside {two}, clients", rows)}, data)
