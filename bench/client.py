"""The load client, `bench/load`: runs a plan, reads its report, validates its answers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "llgtrt-load"
CHAT = "/v1/chat/completions"
Body = dict[str, Any]


class Spread(TypedDict):
    """How values lie, in milliseconds."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class Report(TypedDict):
    """What `bench/load/src/report.rs` writes, and what validation found."""

    requests: int
    answered: int
    failed: dict[str, int]
    first_failure: str | None
    cut: int
    json: int
    invalid_json: int
    connections: int
    seconds: float
    requests_per_second: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    tokens_per_second: float
    goodput: float | None
    first_ms: Spread | None
    gap_ms: Spread | None
    per_token_ms: Spread | None
    whole_ms: Spread | None
    chunks: int
    client_cpu_share: float
    validated: int
    invalid: int


@dataclass(frozen=True)
class Arrivals:
    """So many clients in a closed loop, or so many requests per second where `rate` is above 0."""

    clients: int = 1
    rate: float = 0.0

    def plan(self) -> dict[str, Any]:
        """As the client wants it; arrival times are the same in every run."""
        return {"poisson": {"rate": self.rate, "seed": 1}} if self.rate > 0 else {"clients": self.clients}

    def __str__(self) -> str:
        return f"{self.rate:g}/s" if self.rate > 0 else str(self.clients)


def load(url: str, bodies: list[Body], arrivals: Arrivals, requests: int = 0, **more: Any) -> Report:
    """Sends `requests` (0: each body once) to `url`; `more` are further keys of the plan.

    Raises `RuntimeError` where the plan cannot be carried out; what servers do wrong is in the report.
    """
    return ask(url, bodies, arrivals, requests, **more)[0]


def ask(
    url: str, bodies: list[Body], arrivals: Arrivals, requests: int = 0, **more: Any
) -> tuple[Report, list[dict[str, Any]]]:
    """As `load`, with the answers: `request` (its number), `texts`, `finish` and `error` of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bodies.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
        plan = {
            "url": url,
            "bodies": str(folder / "bodies.jsonl"),
            "answers": str(folder / "answers.jsonl"),
            "requests": requests or len(bodies),
            "arrivals": arrivals.plan(),
        }
        done = subprocess.run(
            [PROGRAM], input=json.dumps(plan | more), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        report: Report = json.loads(done.stdout)
        answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    report["validated"], report["invalid"] = validate(bodies, answers)
    return report, answers


def validate(bodies: list[Body], answers: list[dict[str, Any]]) -> tuple[int, int]:
    """Finished texts that had to follow a schema, and how many of them do not."""
    validators: dict[str, Any] = {}
    checked = wrong = 0
    for answer in answers:
        form = bodies[answer["request"] % len(bodies)].get("response_format", {})
        if answer["error"] is not None or form.get("type") != "json_schema":
            continue
        schema = form["json_schema"]["schema"]
        key = json.dumps(schema)
        if key not in validators:
            validators[key] = validator_for(schema, default=Draft202012Validator)(schema)
        for text, finish in zip(answer["texts"], answer["finish"], strict=True):
            if finish == "stop":
                checked += 1
                wrong += not follows(validators[key], text)
    return checked, wrong


def follows(validator: Any, text: str) -> bool:
    """Whether a text is JSON that a validator accepts."""
    try:
        return bool(validator.is_valid(json.loads(text)))
    except json.JSONDecodeError:
        return False


def all_faults(reports: list[Report]) -> str:
    """What went wrong in several runs, each thing once."""
    return "; ".join(dict.fromkeys(f for report in reports if (f := faults(report))))


def faults(report: Report) -> str:
    """What went wrong in a run, in a few words; empty where nothing did."""
    found = [f"{count} {kind}" for kind, count in report["failed"].items()]
    if report["invalid_json"] or report["invalid"]:
        found.append(f"{max(report['invalid'], report['invalid_json'])} invalid")
    if report["first_failure"]:
        found.append(report["first_failure"][:80])
    return ", ".join(found)
