"""Runs every model of llama.cpp's generator on our server and beside llama-server, and notes what holds.

    python -m models.run --peer PATH/llama-server --models FOLDER --results FILE [--only PATTERN]

`launch/check-models.sh` calls it, and says how to get the two.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from . import checks
from .asks import Ours, Peer
from .checks import Finding
from .servers import Failed, Place, Running, ours, peer, plain
from .table import section, write
from .vocabulary import END, START, pieces, rewrite

OTHER = "llama-dense"
"""The model that is drafted for by all others: with other weights it refuses nearly all that they draft."""
TOKENS = 128
"""Its vocabulary, which a draft model must have, too."""
SIZES = {"max_batch_size": 8, "kv_cache_max_tokens": 16384, "engine": {"threads": 1}}
"""On one thread: models as small as these take longer on two, much longer where others compute as well."""
NO_ROLLBACK = "KV cannot be truncated"
"""What the log says of models that carry a state: no drafts but what is forced, which is no fault."""
STATE = "in one pool"
"""What an engine on a CPU says of models that carry a state."""
REFUSED = ("carries a state", NO_ROLLBACK)
"""Why such a model drafts for no other kind, and none for one that cannot take its state back."""
FREE = ["forced", "prompt_lookup"]
MODEL = ["draft_model"]


@dataclass
class Result:
    """What is known of a model."""

    name: str
    state: str = "served"
    reason: str = ""
    """Why it is refused."""
    promise: str = ""
    engine: str = ""
    rollback: bool = True
    reuses: bool = True
    """Prefixes; a model with a state that runs alone has no room for what it would keep."""
    checks: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0

    def faults(self) -> list[str]:
        """All faults, each with the check that found it."""
        return [f"{name}: {fault}" for name, finding in self.checks.items() for fault in finding.faults]

    def told(self) -> dict[str, Any]:
        """The same for a file."""
        found = {name: {"faults": c.faults, "numbers": c.numbers} for name, c in self.checks.items()}
        return vars(self) | {"checks": found, "seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class Bench:
    """Where models are run, and with what."""

    peer: str
    models: Path
    folder: Path
    port: int

    def model(self, name: str) -> tuple[Path, dict[str, int]]:
        """The model with a vocabulary that text can be written with, and the ids of its tokens."""
        path = self.folder / f"{name}.gguf"
        size = rewrite(self.models / f"{name}.gguf", path)
        return path, {text: index for index, text in enumerate([*pieces(size - 2), START, END])}

    def place(self, index: int) -> Place:
        """One of a few places for servers."""
        return Place(self.port + index, self.folder)

    def check(self, result: Result, name: str, what: Callable[[], Finding]) -> None:
        """Runs a check; what is not answered is a fault."""
        try:
            result.checks[name] = what()
        except (httpx.HTTPError, KeyError, ValueError) as error:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            result.checks[name] = Finding([f"no answer: {told}"])


def config(sources: list[str], length: int) -> dict[str, Any]:
    """A configuration that drafts always, whether it pays or not."""
    return SIZES | {
        "speculative": {"sources": [*sources, "prediction"], "adaptive": False, "max_draft_len": length}
    }


def run(bench: Bench, name: str) -> Result:
    """All checks of a model."""
    start = time.monotonic()
    result = Result(name)
    path, ids = bench.model(name)
    try:
        with ours([path], config(FREE, 8), bench.place(0)) as server:
            ready = server.get("/ready").json()
            result.promise, result.engine = ready["promise"], ready["reason"]
            log = server.log.read_text(errors="replace")
            result.rollback = NO_ROLLBACK not in log
            result.reuses = "no prefix reuse" not in log and "shared by 1 slots" not in log
            alone(bench, result, Ours(server, ids), path)
            alive(result, server)
        pair(bench, result, "as its own draft", [path, path], ids)
        if name != OTHER and len(ids) == TOKENS:
            pair(bench, result, "as another's draft", [bench.folder / f"{OTHER}.gguf", path], ids)
    except Failed as failed:
        result.state = "crashed" if failed.crashed else "refused"
        result.reason = str(failed)
    if name != OTHER:
        path.unlink()
    result.seconds = time.monotonic() - start
    return result


def alone(bench: Bench, result: Result, mine: Ours, path: Path) -> None:
    """What needs no draft model."""
    exact = "bit-identical" in result.promise
    kind = re.search(r"KV (\w+)", result.engine)
    try:
        with peer(bench.peer, path, kind[1] if kind else "f16", bench.place(1)) as other:
            bench.check(result, "peer", lambda: checks.beside_peer(mine, Peer(other)))
    except Failed as failed:
        result.checks["peer"] = Finding([f"llama-server does not serve it: {failed}"])
    bench.check(result, "prefixes", lambda: checks.prefixes(mine, exact))
    bench.check(result, "n", lambda: checks.several(mine, exact))
    bench.check(result, "schemas", lambda: checks.schemas(mine, exact, FREE))
    bench.check(result, "drafts", lambda: checks.drafts(mine, exact, FREE))
    bench.check(result, "among others", lambda: checks.churn(mine, exact, FREE))
    used = [("prefixes", "reused", "no prefix was reused"), ("drafts", "drafted", "nothing was drafted")]
    for name, number, fault in used:
        finding = result.checks[name]
        none = not (result.rollback if name == "drafts" else result.reuses)
        finding.hold(none or bool(finding.faults) or finding.numbers[number] > 0, fault)


def pair(bench: Bench, result: Result, what: str, models: list[Path], ids: dict[str, int]) -> None:
    """A target and its draft model; one that carries a state may be refused."""
    finding = Finding()
    result.checks[what] = finding
    try:
        with ours(models, config(MODEL, 4), bench.place(0)) as server:
            exact = "bit-identical" in server.get("/ready").json()["promise"]
            mine = Ours(server, ids)
            part = Result(result.name)
            bench.check(part, "schemas", lambda: checks.schemas(mine, exact, MODEL))
            bench.check(part, "drafts", lambda: checks.drafts(mine, exact, MODEL))
            bench.check(part, "among others", lambda: checks.churn(mine, exact, MODEL))
            finding.faults += part.faults()
            for name, found in part.checks.items():
                finding.numbers |= {f"{name}, {number}": value for number, value in found.numbers.items()}
            finding.hold(
                "llgtrt_drafters_failed 1" not in server.get("/metrics").text, "the draft model failed"
            )
            alive(result, server)
    except Failed as failed:
        refused = STATE in result.engine and any(why in str(failed) for why in REFUSED)
        finding.hold(refused, f"does not start: {failed}")
        finding.numbers["refused"] = 1


def alive(result: Result, server: Running) -> None:
    """Notes an engine that was started again, which answers may hide."""
    restarted = re.search(
        r"^.*(GGML_ASSERT|panicked|starting it again|restart).*$", server.log.read_text(), re.M
    )
    if restarted:
        result.checks["engine"] = Finding([f"the engine failed: {plain(restarted[0])}"])


def arguments() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True, help="the llama-server program")
    parser.add_argument(
        "--models", type=Path, required=True, help="folder of .gguf files, one for each architecture"
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="what was found, JSON; models that it has are kept"
    )
    parser.add_argument("--page", type=Path, help="the page whose section is written from it")
    parser.add_argument("--only", default="", help="models whose name this regular expression finds")
    parser.add_argument("--port", type=int, default=3200, help="the first of two ports that are used")
    parser.add_argument("--seconds", type=float, default=2400.0, help="most seconds for everything")
    return parser.parse_args()


def main() -> int:
    """Runs what is asked for; 1 where anything is wrong."""
    args = arguments()
    names = sorted(path.stem for path in args.models.glob("*.gguf") if re.search(args.only, path.stem))
    if not names:
        raise SystemExit(f"no model of {args.models} is found by {args.only!r}")
    known = json.loads(args.results.read_text()) if args.results.exists() else {}
    end = time.monotonic() + args.seconds
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.peer, args.models, Path(folder), args.port)
        bench.model(OTHER)
        for name in names:
            if time.monotonic() > end:
                raise SystemExit(
                    f"not done after {args.seconds:.0f} s: {name} and those behind it were not run"
                )
            result = run(bench, name)
            known[name] = result.told()
            args.results.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
            faults = result.faults()
            wrong += bool(faults) or result.state == "crashed"
            state = f"{result.state}: {result.reason or result.promise}"
            print(f"{name}: {state}; {result.seconds:.1f} s", *faults, sep="\n    ", flush=True)
    if args.page:
        write(args.page, section(known))
    print(f"{len(names)} models, {wrong} with faults")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
