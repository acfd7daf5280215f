"""A file of prompts with and without drafts on one server: whether texts are equal, and how fast they are."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from client import Arrivals, Body, Report, all_faults, ask
from record import Record, Table, number
from replay import path
from work import chat

WAYS = {"without drafts": {"enabled": False}, "with drafts": {"enabled": True}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "file", type=Path, help="JSON list of texts, or of objects with `prompt` or `messages`"
    )
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="a server of ours that drafts")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=128, help="most of an answer")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)


def bodies(args: argparse.Namespace) -> list[Body]:
    """A chat for each entry of the file; raises `SystemExit` where it is no such file."""
    try:
        entries: list[Any] = json.loads(args.file.read_text())
        found = [body(entry, args.tokens, seed) for seed, entry in enumerate(entries)]
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise SystemExit(f"{args.file}: not a JSON list of prompts ({e})") from e
    return [one | {"temperature": args.temperature} for one in found]


def body(entry: Any, tokens: int, seed: int) -> Body:
    """An entry of the file as a chat that may end by itself."""
    wanted = chat(entry if isinstance(entry, str) else entry.get("prompt", ""), tokens, seed=seed)
    if isinstance(entry, dict) and "prompt" not in entry:
        wanted["messages"] = entry["messages"]
    del wanted["ignore_eos"]
    return wanted


def run(args: argparse.Namespace) -> int:
    """A row for each way, and how many texts differ; 1 where one does."""
    plain = bodies(args)
    url = path(args.url)
    texts: dict[str, list[Any]] = {}
    reports: dict[str, list[Report]] = {way: [] for way in WAYS}
    for turn in range(args.rounds + 1):
        for way in list(WAYS)[:: 1 if turn % 2 else -1]:
            asked = [one | {"speculative": WAYS[way]} for one in plain]
            report, answers = ask(url, asked, Arrivals(args.clients))
            if turn > 0:
                reports[way].append(report)
            texts[way] = [answer["texts"] for answer in sorted(answers, key=lambda a: int(a["request"]))]
    one, other = texts.values()
    differ = sum(a != b for a, b in zip(one, other, strict=True))
    table = Table(
        f"{len(plain)} prompts, {args.clients} clients", ["", "tokens/s", "whole p50, ms", "faults"]
    )
    for way, several in reports.items():
        speed = statistics.median(report["tokens_per_second"] for report in several)
        spans = [report["whole_ms"]["p50"] for report in several if report["whole_ms"]]
        whole = number(statistics.median(spans or [0.0]))
        table.rows.append([way, number(speed), whole, all_faults(several)])
    Record("dataset", [table], data=reports).save()
    print(f"{differ} of {len(plain)} texts differ")
    return int(differ > 0)
