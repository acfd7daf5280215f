"""The grid of `commonbench-sdk`, with its keys: clients, tokens, and the prompt's share of them."""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from client import CHAT, Arrivals, Body, Report, faults, load
from plot import lines
from record import Record, Table
from replay import HEADER, path, row
from work import chat, prompt

FULL: dict[str, Any] = {
    "concurrent_clients": [32, 64, 128, 256],
    "total_tokens": [250, 500, 1000, 2000, 4000],
    "prompt_token_percentages": [20, 40, 60, 80],
    "total_requests_limit": 512,
    "enable_stream": False,
}
CPU: dict[str, Any] = FULL | {
    "concurrent_clients": [1, 2, 4, 8],
    "total_tokens": [64, 128, 256, 512],
    "total_requests_limit": 16,
}
"""The same shapes for a machine that makes some hundred tokens per second."""
OFF = ("api_validation", "data_upload")
"""Sections that may be there when they are off."""
PROBE_WORDS = 64
WARM_UP = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("--url", help="server; else the configuration's endpoint_url")
    parser.add_argument("--model", default="m", help="the model's name")
    parser.add_argument(
        "--config", type=Path, help="that tool's YAML (with the wheel `pyyaml`), or the same as JSON"
    )
    parser.add_argument("--grid", choices=["full", "cpu"], default="cpu", help="without --config")


def read(file: Path) -> dict[str, Any]:
    """A configuration; refuses what would not be done."""
    text = file.read_text()
    if file.suffix == ".json":
        config: dict[str, Any] = json.loads(text)
    else:
        try:
            import yaml
        except ImportError:
            raise SystemExit("YAML needs the wheel `pyyaml`; the same as JSON needs none") from None
        config = yaml.safe_load(text)
    for name in OFF:
        if config.pop(name, {"enabled": False}) != {"enabled": False}:
            raise SystemExit(f"{name} is not done here: leave it off")
    payload = config.pop("api_payload", {"api_type": "OpenAIChatCompletion"})
    if payload != {"api_type": "OpenAIChatCompletion"}:
        raise SystemExit("api_payload must be {api_type: OpenAIChatCompletion}")
    grid: dict[str, Any] = config.pop("perf_benchmark", {})
    url = config.pop("endpoint_url", None)
    unknown = [*config, *(key for key in grid if key not in FULL)]
    if unknown:
        raise SystemExit(f"unknown keys: {', '.join(unknown)}")
    return FULL | grid | {"endpoint_url": url}


def words_for(url: str, model: str) -> tuple[float, float]:
    """Tokens of a word and of an empty prompt, by what the server counts: no tokenizer is needed."""
    counts = []
    for words in (PROBE_WORDS, 2 * PROBE_WORDS):
        probe = chat(prompt(Random(0), words), 1) | {"model": model}
        report = load(url, [probe], Arrivals(1))
        if faults(report):
            raise SystemExit(f"{url}: {faults(report)}")
        counts.append(report["prompt_tokens"])
    each = (counts[1] - counts[0]) / PROBE_WORDS
    return each, counts[0] - each * PROBE_WORDS


def cell(model: str, rule: tuple[float, float], total: int, percent: int, count: int) -> list[Body]:
    """Different prompts of about so many tokens, whose answers have the rest of `total`."""
    wanted = total * percent // 100
    words = max(1, round((wanted - rule[1]) / rule[0]))
    rng = Random(f"{total} {percent}")
    return [chat(prompt(rng, words), total - wanted, seed=i) | {"model": model} for i in range(count)]


def measure(url: str, model: str, grid: dict[str, Any]) -> tuple[Table, dict[str, Report]]:
    """All cells, `total_requests_limit` requests in each."""
    rule = words_for(url, model)
    header = ["tokens, share of the prompt", "prompt tokens", *HEADER]
    table, data = Table(f"commonbench, {url}", header), {}
    for total, percent in product(grid["total_tokens"], grid["prompt_token_percentages"]):
        for clients in grid["concurrent_clients"]:
            count = grid["total_requests_limit"]
            bodies = cell(model, rule, total, percent, count + WARM_UP)
            more = {"stream": grid["enable_stream"]}
            load(url, bodies[count:], Arrivals(1), **more)
            report = load(url, bodies[:count], Arrivals(clients), **more)
            mean = round(report["prompt_tokens"] / max(1, report["answered"]))
            table.rows.append([f"{total}, {percent} %", str(mean), *row(str(clients), report)])
            data[f"{total}/{percent}/{clients}"] = report
    return table, data


def record(table: Table, data: dict[str, Report], grid: dict[str, Any]) -> Record:
    """With a plot of tokens per second, one line for each shape of the largest size."""
    largest = max(grid["total_tokens"])
    curves = {
        f"{largest} tokens, {share} % prompt": [
            (n, data[f"{largest}/{share}/{n}"]["tokens_per_second"]) for n in grid["concurrent_clients"]
        ]
        for share in grid["prompt_token_percentages"]
    }
    plots = {"tokens": lines(table.title, "clients", "completion tokens/s", curves)}
    return Record("commonbench", [table], plots, data)


def run(args: argparse.Namespace) -> int:
    """The grid; 1 where something failed."""
    grid = read(args.config) if args.config else (FULL if args.grid == "full" else CPU)
    url = args.url or grid.get("endpoint_url") or "http://127.0.0.1:3000"
    table, data = measure(path(url) if CHAT not in url else url, args.model, grid)
    record(table, data, grid).save()
    return int(any(faults(report) for report in data.values()))
