"""Measures how much of JSON Schema other products enforce, on the sample that our conformance tests use.

`python bench/coverage_peers.py` writes coverage_peers.json, from which coverage.py makes tables. It runs
what is there of the wheels xgrammar, outlines-core and llguidance and of llama.cpp, says what is left out,
and needs `jsonschema[format-nongpl]`, LLGTRT_DATA, and our own wheel. bench/README.md says how llama.cpp's
program is built.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from coverage import DRAFTS, kind, lines
from coverage_beside import PEERS
from coverage_judge import TRIES, Case, judge
from coverage_products import PRODUCTS, Product, make, version_of
from coverage_strict import outside
from coverage_valid import Validity
from jsonschema import Draft202012Validator

MEMORY = 4 << 30
"""Bytes that a schema may take in a child, above what the product takes by itself."""
WAITING = 6
"""Seconds on the clock for each of computing: other work may run beside."""
SUITES = {
    "draft 7": ("draft7", "http://json-schema.org/draft-07/schema#"),
    "2020-12": ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
}
EXAMPLES = 3
"""Invalid outputs that are kept of each product."""


def read(name: str) -> str:
    """A file of the data; raises `SystemExit` where it is not there."""
    file = Path(os.environ.get("LLGTRT_DATA", "")) / name
    if not file.is_file():
        raise SystemExit(f"LLGTRT_DATA must name a folder with {name}")
    return gzip.decompress(file.read_bytes()).decode()


def maskbench(every: int) -> list[Case]:
    """Schemas of MaskBench."""
    found = [json.loads(line) for line in read("maskbench-dev.jsonl.gz").splitlines()[::every]]
    return [
        Case(case["id"], case["schema"], [(t["data"], t["valid"]) for t in case["tests"]], walked=True)
        for case in found
    ]


def suite(all_of_it: Any, draft: str, uri: str) -> list[Case]:
    """The required part of the JSON-Schema-Test-Suite, with the draft's name as in conformance.rs."""
    cases = []
    for file, groups in all_of_it[draft].items():
        for i, group in enumerate(groups):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = schema | {"$schema": schema.get("$schema", uri)}
            tests = [(t["data"], t["valid"]) for t in group["tests"]]
            cases.append(Case(f"{file.removesuffix('.json')} {i} {group['description']}", schema, tests))
    return [case for case in cases if not case.id.startswith("optional")]


def walk(product: Product, case: Case, count: int) -> list[tuple[str, str]]:
    """What is said of each output of the schema that was compiled last, and the output."""
    validity = Validity(case.schema)
    found = []
    for text in product.walks(count, Random(crc32(case.id.encode()))):
        told = "unfinished" if text is None else validity.of(text)
        found.append((told, (text or b"").decode(errors="replace")))
    return found


def child(pipe: Connection, name: str, documents: dict[str, Any], count: int, patience: float) -> None:
    """Judges and walks what it is sent until it is ended, by the system where it computes for too long."""
    os.setsid()  # so that what it starts ends with it
    product = make(name, documents)
    here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    pipe.send(None)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # some warn of every keyword that they ignore
    sys.setrecursionlimit(10_000)
    while True:
        case = pipe.recv()
        signal.setitimer(signal.ITIMER_PROF, patience)
        verdict = judge(product, case)
        pipe.send(verdict)
        if case.walked and verdict not in ("refused", "failed"):
            signal.setitimer(signal.ITIMER_PROF, patience)
            pipe.send(walk(product, case, count))


class Bounded:
    """A product in a child, which is ended where it takes too long."""

    def __init__(self, name: str, documents: dict[str, Any], args: argparse.Namespace) -> None:
        self.arguments, self.patience = (name, documents, args.walks, args.patience), args.patience * WAITING
        self.start()

    def start(self) -> None:
        """A fresh child."""
        fork = get_context("fork")
        self.pipe, there = fork.Pipe()
        self.process = fork.Process(target=child, args=(there, *self.arguments), daemon=False)
        self.process.start()
        there.close()
        self.pipe.recv()

    def end(self) -> None:
        """Ends it."""
        os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()

    def answer(self) -> Any:
        """What it sends next; None, and a fresh one, where it takes too long or crashes."""
        try:
            if self.pipe.poll(self.patience):
                return self.pipe.recv()
        except EOFError:
            pass
        self.end()
        self.start()
        return None

    def judge(self, case: Case) -> tuple[str, list[tuple[str, str]] | None]:
        """The verdict, and what is said of outputs; None where there are none."""
        self.pipe.send(case)
        verdict = self.answer() or "failed"
        if not case.walked or verdict in ("refused", "failed"):
            return verdict, None
        return verdict, self.answer()


Found = dict[str, dict[str, tuple[str, list[tuple[str, str]] | None]]]
"""For each part and case the verdict, and what is said of outputs."""


def through(name: str, parts: dict[str, list[Case]], documents: Any, args: argparse.Namespace) -> Found:
    """These cases by one product."""
    begun, bounded = time.monotonic(), Bounded(name, documents, args)
    found = {part: {case.id: bounded.judge(case) for case in cases} for part, cases in parts.items()}
    bounded.end()
    counts = {part: dict(Counter(verdict for verdict, _ in told.values())) for part, told in found.items()}
    print(f"{name}, a share in {time.monotonic() - begun:.0f} s: {counts}", flush=True)
    return found


def everything(
    names: list[str], parts: dict[str, list[Case]], documents: Any, args: argparse.Namespace
) -> Any:
    """All cases by all products, shared out to so many children at a time."""
    shares = [{part: cases[i :: args.jobs] for part, cases in parts.items()} for i in range(args.jobs)]
    with ThreadPoolExecutor(args.jobs) as pool:
        tasks = {
            name: [pool.submit(through, name, share, documents, args) for share in shares] for name in names
        }
        done = {name: [task.result() for task in of] for name, of in tasks.items()}
    return {
        product: {part: {name: told for share in of for name, told in share[part].items()} for part in parts}
        for product, of in done.items()
    }


def empties() -> dict[str, set[str]]:
    """Schemas that nothing satisfies: refusing them is right."""
    files = {"maskbench": "maskbench.txt", **DRAFTS}
    return {
        part: {name for name, told in lines(file) if kind(told) == "empty"} for part, file in files.items()
    }


def outputs(found: Any) -> dict[str, Any]:
    """Counts of outputs, of the schemas they are of, and a few invalid ones."""
    told: Counter[str] = Counter()
    bad = []
    for name, (_, texts) in found.items():
        kinds = Counter(what for what, _ in texts or ())
        told.update(kinds)
        told["schemas"] += bool(kinds["valid"] + kinds["invalid"] + kinds["leap"])
        told["schemas_invalid"] += bool(kinds["invalid"] + kinds["leap"])
        bad += [(len(text), text, name) for what, text in texts or () if what == "invalid"]
    shortest = {name: text for _, text, name in sorted(bad, reverse=True)}  # the last of each schema counts
    examples = sorted(shortest.items(), key=lambda one: len(one[1]))[:EXAMPLES]
    return {**told, "examples": [{"schema": name, "output": text} for name, text in examples]}


def summary(found: dict[str, Found], parts: dict[str, list[Case]]) -> Iterator[tuple[str, Any]]:
    """What the file has of each product: verdicts counted, by keyword for the suites."""
    empty = empties()
    for product, by_part in found.items():
        counts: dict[str, dict[str, Counter[str]]] = {part: defaultdict(Counter) for part in parts}
        for part, cases in by_part.items():
            for name, (verdict, _) in cases.items():
                group = "all" if part == "maskbench" else name.split(" ")[0]
                right = verdict == "refused" and name in empty[part]
                counts[part][group]["empty" if right else verdict] += 1
        yield product, {"version": version_of(product), **counts, "outputs": outputs(by_part["maskbench"])}


def there(name: str) -> bool:
    """Whether the product can be run; says so where not."""
    try:
        version_of(name)
    except (ImportError, KeyError, OSError):
        print(f"{name} is left out: {PRODUCTS[name]} is not there")
        return False
    return True


def main() -> None:
    """Runs everything that is there, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", nargs="+", default=list(PRODUCTS), choices=PRODUCTS)
    parser.add_argument("--every", type=int, default=1, help="only every so manieth schema of MaskBench")
    parser.add_argument("--walks", type=int, default=5, help="outputs of each schema")
    parser.add_argument(
        "--patience",
        type=float,
        default=10,
        help="seconds of computing for a schema, and again for its outputs",
    )
    parser.add_argument("--jobs", type=int, default=2, help="children at a time")
    parser.add_argument("--out", type=Path, default=PEERS)
    parser.add_argument("--details", type=Path, help="a file for every verdict and output")
    args = parser.parse_args()
    known = Draft202012Validator.FORMAT_CHECKER.checkers
    if missing := {"date-time", "time", "uri", "hostname"} - known.keys():
        raise SystemExit(f"formats that are not checked: {missing}; install jsonschema[format-nongpl]")
    tests = json.loads(read("json-schema-test-suite.json.gz"))
    documents = {f"http://localhost:1234/{name}": schema for name, schema in tests["remotes"].items()}
    parts = {"maskbench": maskbench(args.every)}
    parts |= {name: suite(tests, *where) for name, where in SUITES.items()}
    names = [name for name in args.products if there(name)]
    found = everything(names, parts, documents, args)
    if args.details:
        args.details.write_text(json.dumps(found))
    reasons = Counter(reason for case in parts["maskbench"] if (reason := outside(case.schema)))
    told: dict[str, Any] = {
        "date": date.today().isoformat(),
        "jsonschema": version("jsonschema"),
        "schemas": len(parts["maskbench"]),
        "walks": args.walks,
        "patience": args.patience,
        "tries": TRIES,
        "products": dict(summary(found, parts)),
        "strict": {
            "within": len(parts["maskbench"]) - reasons.total(),
            "outside": dict(reasons.most_common()),
        },
    }
    if args.out.exists():  # what it has of other products stays, where it was found in the same way
        old = json.loads(args.out.read_text())
        if all(old[key] == told[key] for key in ("jsonschema", "walks", "patience", "tries")):
            told["products"] = old["products"] | told["products"]
            if args.every > 1:
                told |= {key: old[key] for key in ("schemas", "strict")}
    args.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
