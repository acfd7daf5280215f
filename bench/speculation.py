"""Speculation against none, over HTTP, with prompts from the unseen half of the demo's texts.

    python bench/speculation.py [--target demo/target --draft demo/draft] [--fixed 2 4 8]
    python bench/speculation.py --real [--cold]

One server per way of drafting, all alive, asked in turns: in every round each answers the same new
prompts, and its tokens per second are divided by those without drafts of that round, by each of two
servers `off` and `off, again` (not by their mean, which the one that is fast for a while makes large:
most ratios would be below 1). The row of the second shows how far a difference is noise. Where its
memory lies makes a server faster or slower by a tenth and more as long as it lives, and that follows
from lengths of paths: so these are drawn anew for each of `--starts`, and few starts say little about
differences of some percent, however many the rounds. Each prompt is asked once before, which is not
counted, so that prompts are in the KV (of the draft model too) and what is measured is decoding; with
`--cold` they are not. Prints one row of Markdown per case: the median ratio and its quartiles, accepted
of drafted tokens, accepted at the first places of a draft, and tokens per step and choice. At the end,
for each case: the best of the fixed lengths that are no longer, 0 among them, which is what the best
choice of one length for all steps gives, and how much of it the chosen lengths reach. With `--real`
the models are SmolLM2 and, where `LLGTRT_MODELS` has it, the pair, and the prompts are of all kinds that
`real.py` has but long ones. Run from the repository's root with the server's environment. Loopback
only; it ends by itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

import real
from client import Body
from extractions import extractions
from servers import ROOT
from servers import serving as start

COUNTS = ("drafted_tokens", "accepted_tokens", "generated_tokens")
PLACES = 4
# The servers' default.
DRAFT_LEN = 10
# Of real models, without a schema: tokens of an answer.
KINDS = {"free": 96, "code": 96, "edit": 300}
# All servers have their KV at the same time.
KV = {"kv_cache_max_tokens": 40_000}
# The servers without drafts.
PLAIN = ("off", "off, again")


def modes(
    draft: str | None, mlp: str | None, fixed: list[int], up_to: list[int]
) -> dict[str, dict[str, Any]]:
    """What `speculative` says for each way of drafting; the first is without, the second shows the noise."""
    free = ["forced", "prompt_lookup", "grammar"]
    always = {"adaptive": False}
    adaptive: dict[str, dict[str, Any]] = {
        **{name: {"sources": []} for name in PLAIN},
        "forced": {"sources": ["forced"]},
        "grammar": {"sources": ["forced", "grammar"]},
        "lookup": {"sources": ["forced", "prompt_lookup"]},
        "free": {"sources": free},
    }
    for k in fixed:
        adaptive[f"free, always {k}"] = {"sources": free, **always, "max_draft_len": k}
    if draft is None:
        return adaptive
    model = {"draft_model": draft}
    adaptive |= {"draft": {**model, "sources": ["forced", "draft_model"]}, "all": model}
    if mlp is None:
        return adaptive | {f"draft, always {k}": {**model, **always, "max_draft_len": k} for k in fixed}
    adaptive |= {"mlp": {"mlp_speculator": mlp}, "all": {**model, "mlp_speculator": mlp}}
    return (
        adaptive
        | {f"draft, up to {k}": {**adaptive["draft"], "max_draft_len": k} for k in up_to}
        | {f"all, up to {k}": {**adaptive["all"], "max_draft_len": k} for k in up_to}
        | {f"draft, always {k}": {**model, **always, "max_draft_len": k} for k in fixed}
        | {f"mlp, always {k}": {"mlp_speculator": mlp, **always, "max_draft_len": k} for k in fixed if k < 4}
    )


class Server:
    """A server on loopback."""

    def __init__(self, port: int) -> None:
        """It listens on `port`."""
        self.port = port

    def call(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        """Status and text of one answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def counts(self) -> list[float]:
        """Drafted, accepted and generated tokens, steps of choices, and accepted by place, up to now."""
        time.sleep(0.3)  # a working engine reports a few times a second
        text = self.call("/metrics")[1]
        values = [re.search(rf"^llgtrt_{name}_total (\S+)", text, re.M) for name in COUNTS]
        steps = re.findall(r"^llgtrt_draft_lengths_total\{.*\} (\S+)", text, re.M)
        places = [
            re.search(rf'^llgtrt_draft_accepted_at_total\{{.*place="{k}".*\}} (\S+)', text, re.M)
            for k in range(PLACES)
        ]
        totals = [float(found[1]) if found else 0.0 for found in (*values, *places)]
        return [*totals[:3], sum(map(float, steps)), *totals[3:]]


@contextmanager
def serving(target: str, speculative: dict[str, Any], folder: Path, name: str, dots: int) -> Iterator[Server]:
    """A server that is ready; `dots` in the paths move its memory."""
    config = folder / f"{name.replace(' ', '-')}{'.' * dots}.json"
    target = "/." * dots + str(Path(target).resolve())
    config.write_text(json.dumps({"speculative": speculative, "max_batch_size": 32, **KV}))
    command = [sys.executable, "-m", "llgtrt", "serve", target, "--served-model-name", "m"]
    with start(name, [*command, "--runtime-config", str(config)], "/ready", {}) as started:
        yield Server(int(started.url.rsplit(":", 1)[1]))


def prompts(kind: str, seed: int, count: int, temperature: float) -> list[Body]:
    """The requests of a round: other ones for each seed."""
    if kind in ("schema", "plain text"):
        return extractions(seed, count, kind == "schema", temperature)
    bodies = real.Real(kind, count, 0, KINDS[kind], kind=kind).bodies(seed)
    return [body | {"stream": False, "stream_options": None, "temperature": temperature} for body in bodies]


def rate(server: Server, bodies: list[dict[str, Any]], clients: int) -> float:
    """Tokens per second with so many clients."""
    left: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for body in bodies:
        left.put(body)
    tokens: list[int] = []

    def client() -> None:
        while True:
            try:
                body = left.get_nowait()
            except Empty:
                return
            status, text = server.call("/v1/chat/completions", body)
            if status != 200:
                raise RuntimeError(text)
            tokens.append(json.loads(text)["usage"]["completion_tokens"])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(tokens) / (time.perf_counter() - begun)


def row(name: str, case: str, ratios: list[float], counts: list[float]) -> str:
    """One line of the table."""
    drafted, accepted, generated, steps, *places = counts
    low, middle, high = statistics.quantiles(ratios, n=4)
    share = f"{accepted / drafted:.0%} of {drafted:,.0f}" if drafted else ""
    length = f"{generated / steps:.2f}" if steps else ""
    at = " ".join(f"{place / steps:.2f}" for place in places) if drafted else ""
    return f"| {case} | {name} | {middle:.2f} ({low:.2f} to {high:.2f}) | {share} | {at} | {length} |"


def longest(way: str) -> int:
    """Most tokens that a way of drafting drafts at once, by its name."""
    return int(way.rsplit(" ", 1)[1]) if way[-1].isdigit() else DRAFT_LEN


def best(case: str, ratios: dict[str, list[float]]) -> str:
    """What the best fixed length gives, and the shares of it that the ways with chosen lengths reach."""
    medians = {name: statistics.median(values) for name, values in ratios.items() if values}
    lines = []
    for way in medians:
        kind = way.split(",")[0]
        if kind not in ("draft", "mlp", "all") or ", always" in way:
            continue
        # One that asks all sources has the choice of what each of them can do.
        fixed = {
            name: value
            for name, value in medians.items()
            if ", always" in name and kind in ("all", name.split(",")[0]) and longest(name) <= longest(way)
        }
        if not fixed:
            continue
        name, ratio = max([*fixed.items(), ("none", 1.0)], key=lambda item: item[1])
        lines.append(
            f"{case}: best fixed length for {way}: {name}, {ratio:.2f}; reached {medians[way] / ratio:.0%}"
        )
    return "\n".join(lines)


@dataclass
class Case:
    """What is measured of so many clients, with a schema or without, by way of drafting."""

    ratios: dict[str, list[float]]
    counts: dict[str, list[float]]


def models(args: argparse.Namespace) -> list[tuple[str, str | None, str | None]]:
    """Targets, each with its draft model and its speculator."""
    if args.real:
        return [(target, draft, None) for target, draft in real.models()]
    return [(args.target, args.draft, args.mlp)]


def measure(
    args: argparse.Namespace, label: str, servers: dict[str, Server], start: int, cases: dict[str, Case]
) -> None:
    """Adds to all cases what these servers do."""
    for clients in args.clients:
        for kind in ("schema", *KINDS) if args.real else ("plain text", "schema"):
            before = {name: server.counts() for name, server in servers.items()}
            name_of_case = f"{label}{clients} client{'s' * (clients > 1)}, {kind}"
            empty = Case(
                {name: [] for name in servers}, {name: [0.0] * len(before["off"]) for name in servers}
            )
            case = cases.setdefault(name_of_case, empty)
            # The first round is not counted: costs are not known yet.
            for number in range(args.rounds + 1):
                # No more than the servers keep prefixes of.
                count = min(28, args.prompts * max(1, clients // 4))
                if args.real:
                    count = max(args.prompts, clients * 3 // 2)
                seed = start * (args.rounds + 1) + number
                bodies = prompts(kind, seed, count, args.temperature)
                order = list(servers)
                Random(seed).shuffle(order)
                rates = {}
                for name in order:
                    if not args.cold:
                        rate(servers[name], bodies, clients)
                    rates[name] = rate(servers[name], bodies * args.repeat, clients)
                for name in servers if number > 0 else ():
                    others = [plain for plain in PLAIN if plain in rates and plain != name]
                    case.ratios[name] += [rates[name] / rates[plain] for plain in others]
            for name, server in servers.items():
                now = zip(case.counts[name], server.counts(), before[name], strict=True)
                case.counts[name] = [old + after - then for old, after, then in now]


def report(cases: dict[str, Case]) -> None:
    """Prints the table."""
    print(
        "| case | drafts | tokens/s against none | accepted | at place 1 to 4, of steps | tokens per step |"
    )
    print("|---|---|---|---|---|---|")
    for name, case in cases.items():
        for way in case.ratios:
            if way != "off" and len(case.ratios[way]) > 1:
                print(row(way, name, case.ratios[way], case.counts[way]))
    print("", *filter(None, (best(name, case.ratios) for name, case in cases.items())), sep="\n")


def main() -> None:
    """Read the flags, start the servers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="real models and what people ask of them")
    parser.add_argument("--target", default=str(ROOT / "demo" / "target"))
    parser.add_argument("--draft", default=str(ROOT / "demo" / "draft"))
    parser.add_argument("--mlp", default=str(ROOT / "demo" / "speculator"))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--prompts", type=int, default=12, help="prompts of a round with 1 to 4 clients")
    parser.add_argument(
        "--repeat", type=int, default=1, help="ask each prompt so many times in what is measured"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--starts", type=int, default=1, help="start all servers so many times, for so many rounds each"
    )
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--fixed", type=int, nargs="*", default=[], help="also draft always so many tokens")
    parser.add_argument(
        "--up-to", type=int, nargs="*", default=[], help="also choose lengths up to so many tokens"
    )
    parser.add_argument("--cold", action="store_true", help="with the time that prompts take")
    parser.add_argument("--only", nargs="*", help="some of the ways of drafting")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"), help="where configurations are written")
    args = parser.parse_args()
    # The servers end with this process, even when it is told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cases: dict[str, Case] = {}
    try:
        for (target, draft, mlp), start in product(models(args), range(args.starts)):
            wanted = modes(draft, mlp, args.fixed, args.up_to)
            chosen = {n: s for n, s in wanted.items() if n == "off" or args.only is None or n in args.only}
            with ExitStack() as stack:
                random = Random(start)
                servers = {
                    name: stack.enter_context(
                        serving(target, speculative, args.folder, name, random.randrange(100))
                    )
                    for name, speculative in chosen.items()
                }
                measure(args, f"{Path(target).stem}, " if args.real else "", servers, start, cases)
    finally:
        # What there is, if it was ended.
        report(cases)


if __name__ == "__main__":
    main()
