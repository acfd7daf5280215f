"""The arithmetic behind the tables, and what is refused before anything is measured."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import commonbench
import limit
import masks
import pytest
from client import Arrivals, validate
from contest import Meeting
from masks_outlines import spread
from work import SCHEMAS, Case

PASSES = """rows  sequences  past        ms   reads
   1          1   128     10.00    2.00
 128          1     0     64.00    8.00
 200         16     0   1600.00    2.00
2 threads read 31.7 GB/s; q8_0 KV
"""


def test_limits() -> None:
    """Reading is the time over the reads; products go by the fastest row of a long pass."""
    found = limit.limits(limit.parse(PASSES))
    assert [(reading, products) for _, reading, products in found] == [(5, 0.5), (8, 64), (800, 1600)]
    assert [p.count for p, _, _ in found] == [1, 1, 7]


def test_validation() -> None:
    """Finished texts are held to their schema; cut and failed ones are not."""
    body = Case("x", 1, 1, 1, schema="flat").bodies(0)[0]
    good = json.dumps({"name": "a", "city": "b", "age": 3, "known": True})
    texts = [(good, "stop"), (good.replace("3", "151"), "stop"), ("{", "stop"), ("{", "length")]
    answers: list[dict[str, Any]] = [
        {"request": i, "error": None, "texts": [text], "finish": [finish]}
        for i, (text, finish) in enumerate(texts)
    ]
    answers.append({"request": 0, "error": "timeout", "texts": ["{"], "finish": ["stop"]})
    assert validate([body], answers) == (3, 2)
    assert validate([{"messages": []}], answers) == (0, 0)


def test_prompts_come_again_only_where_they_should() -> None:
    """Cold ones are new in every round and case."""
    first, again = (Case(name, 4, 9, 1, again=True) for name in ("a", "b"))
    assert first.bodies(1) == again.bodies(1) != first.bodies(2)
    assert Case("a", 4, 9, 1).bodies(1) != Case("b", 4, 9, 1).bodies(1)
    assert all(Case("a", 1, 9, 1, schema=name).bodies(1) for name in SCHEMAS)


def test_ratios() -> None:
    """They are of each round, in order; a server that answered nothing has none."""
    meeting = Meeting(Case("x", 1, 1, 2), "x")
    rates: list[Any] = [
        ({"tokens_per_second": a}, {"tokens_per_second": b}) for a, b in ((6, 2), (2, 2), (1, 0))
    ]
    meeting.rounds += rates
    assert meeting.ratios() == [1, 3]


def test_plans() -> None:
    """A rate makes it Poisson."""
    assert Arrivals(3).plan() == {"clients": 3}
    assert Arrivals(3, rate=0.5).plan() == {"poisson": {"rate": 0.5, "seed": 1}}


def test_commonbench_cells() -> None:
    """Prompts have their share of the tokens by the rule that was measured, answers have the rest."""
    bodies = commonbench.cell("m", (2.0, 10.0), 250, 20, 3)
    assert [len(body["messages"][0]["content"].split()) for body in bodies] == [20] * 3
    assert {body["max_tokens"] for body in bodies} == {200}
    assert len({body["messages"][0]["content"] for body in bodies}) == 3


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"perf_benchmark": {"clients": [1]}}, "unknown keys: clients"),
        ({"data_upload": {"enabled": True}}, "data_upload is not done here"),
        ({"api_payload": {"api_type": "Other"}}, "api_payload must be"),
        ({"strange": 1}, "unknown keys: strange"),
    ],
)
def test_commonbench_refuses(config: dict[str, Any], why: str, tmp_path: Path) -> None:
    """What would not be done."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(SystemExit, match=why):
        commonbench.read(file)


def test_commonbench_reads(tmp_path: Path) -> None:
    """What is not said is the tool's own grid."""
    file = tmp_path / "config.json"
    file.write_text('{"endpoint_url": "http://a", "perf_benchmark": {"total_requests_limit": 5}}')
    assert commonbench.read(file) == commonbench.FULL | {
        "total_requests_limit": 5,
        "endpoint_url": "http://a",
    }


def test_tokenizers_are_converted(tmp_path: Path) -> None:
    """Tokens in the byte-level alphabet, and every pair that makes one."""
    file = tmp_path / "tokenizer.model"
    tokens = [b"a", b"b", b" ", b"ab", b" a", b" ab"]
    file.write_text("\n".join(f"{base64.b64encode(t).decode()} {i}" for i, t in enumerate(tokens)))
    model = masks.converted(file)
    assert model["model"]["vocab"] == {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4, "Ġab": 5}
    assert model["model"]["merges"] == [["a", "b"], ["Ġ", "a"], ["Ġ", "ab"], ["Ġa", "b"]]
    assert model["added_tokens"][0]["id"] == 6


def test_all_of_maskbench_is_read_from_a_folder(tmp_path: Path) -> None:
    """Each file is a line, in the order of the names."""
    (tmp_path / "b.json").write_text('{"schema": {},\n "tests": []}')
    (tmp_path / "a.json").write_text("{}")
    assert masks.whole(tmp_path) == ["{}", '{"schema": {}, "tests": []}']
    with pytest.raises(SystemExit, match="--maskbench"):
        masks.whole(tmp_path / "none")


def test_spreads() -> None:
    """By nearest rank, as in masks.rs."""
    assert spread([]) is None
    values = spread([float(i) for i in range(1, 1001)])
    assert values == {"mean": 500.5, "p50": 500, "p99": 990, "p999": 999, "max": 1000, "count": 1000}
