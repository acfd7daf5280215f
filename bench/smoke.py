"""Half a minute on the toy engine and the demo model: every kind of load works, every answer is valid."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import commonbench
import contest
import overhead
from client import CHAT, ROOT, Arrivals, faults, load
from record import Record, Table
from replay import HEADER, row
from servers import Server, ours
from work import SCHEMAS, Case

GRID: dict[str, Any] = commonbench.CPU | {
    "concurrent_clients": [2],
    "total_tokens": [128],
    "prompt_token_percentages": [40, 80],
    "total_requests_limit": 4,
}


def add_arguments(_: argparse.ArgumentParser) -> None:
    """No flags."""


def loads(server: Server) -> tuple[Table, list[str]]:
    """Every kind of load, and what went wrong."""
    kinds: list[tuple[str, Case, Arrivals, dict[str, Any]]] = [
        ("closed", Case("smoke", 4, 8, 24), Arrivals(4), {}),
        ("Poisson", Case("smoke", 4, 8, 24), Arrivals(rate=40), {"goodput": {"whole_ms": 60000}}),
        ("fresh, whole", Case("smoke", 4, 8, 24), Arrivals(4), {"connections": "fresh", "stream": False}),
        *((name, Case("smoke", 4, 8, 400, schema=name), Arrivals(4), {}) for name in SCHEMAS),
    ]
    table, wrong = Table(f"{server.name}: loads", HEADER), []
    for name, case, arrivals, more in kinds:
        report = load(server.url + CHAT, case.bodies(1), arrivals, **more)
        table.rows.append(row(name, report))
        if faults(report):
            wrong.append(f"{server.name}, {name}: {faults(report)}")
        if case.schema is not None and report["validated"] == 0:
            wrong.append(f"{server.name}, {name}: no answer finished")
    return table, wrong


def run(_: argparse.Namespace) -> int:
    """Tables of everything; 1 and a line each for what went wrong."""
    record, wrong = Record("smoke"), []
    config = {"max_batch_size": 16, "speculative": {"sources": []}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = str(ROOT / "demo" / "target")
        with (
            ours(overhead.toy(16), config, folder, "toy") as toy,
            ours(demo, config, folder, "demo") as model,
        ):
            for server in (toy, model):
                table, found = loads(server)
                record.tables.append(table)
                wrong += found
            record.tables += [overhead.measure(toy, [1, 16])[0], overhead.connections(toy)]
            table, data = commonbench.measure(model.url + CHAT, "m", GRID)
            record.tables.append(table)
            record.plots |= commonbench.record(table, data, GRID).plots
            meetings = contest.meet((toy, model), [Case("free", 4, 8, 24)], 1, "")
            met = contest.record("smoke", ("toy", "demo"), meetings)
            record.tables += met.tables
            record.plots |= met.plots
            wrong += [
                faults(report) for m in meetings for pair in m.rounds for report in pair if faults(report)
            ]
            wrong += [faults(report) for report in data.values() if faults(report)]
    record.save()
    print("\n".join(wrong) or "smoke: all answered and valid")
    return int(bool(wrong))
