"""Which replica a request goes to. Skipped where Ray is not installed (see test_replicas.py)."""

from __future__ import annotations

import asyncio
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Ray itself is warned of is not ours
    pytest.importorskip("ray.serve", reason="Ray is not installed")
    from llgtrt.cluster import routing


def request(*links: str) -> Any:
    return SimpleNamespace(
        metadata=SimpleNamespace(session_id=".".join(links)), routing_context=SimpleNamespace()
    )


def router(**lengths: int) -> Any:
    """With replicas by name, and how many requests each of them has."""
    made = routing.PrefixRouter.__new__(routing.PrefixRouter)
    made._replicas = {name: SimpleNamespace(replica_id=name) for name in lengths}
    made._replica_queue_len_cache = lengths
    made.initialize_state(spread=2)
    return made


def choose(made: Any, asked: Any) -> list[list[str]]:
    ranks = asyncio.run(made.choose_replicas(list(made._replicas.values()), asked))
    return [sorted(replica.replica_id for replica in rank) for rank in ranks]


def test_the_replica_that_knows_most_of_the_prompt_comes_first() -> None:
    made = router(a=0, b=0)
    assert choose(made, request("1", "2")) == [["a", "b"]]
    made.on_request_routed(request("1", "2"), "a", None)
    made.on_request_routed(request("1", "3"), "b", None)
    assert choose(made, request("1", "2", "4")) == [["a"], ["a", "b"]]
    assert choose(made, request("1", "5")) == [["b"], ["a", "b"]]
    assert choose(made, request("6")) == choose(made, request()) == choose(made, None) == [["a", "b"]]


def test_a_busy_replica_is_not_preferred_and_a_dead_one_is_forgotten() -> None:
    made = router(a=2, b=0)
    made.on_request_routed(request("1"), "b", None)
    made.on_request_routed(request("1", "2"), "a", None)
    assert choose(made, request("1", "2"))[0] == ["a"]
    made._replica_queue_len_cache["a"] = 3
    assert choose(made, request("1", "2")) == [["a", "b"]]
    made.on_request_routed(request("1"), "b", None)
    del made._replicas["a"]
    assert choose(made, request("1", "2"))[0] == ["b"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MOST_LINKS", 3)
    made = router(a=0)
    for number in range(10):
        made.on_request_routed(request(str(number)), "a", None)
    assert list(made._homes) == ["7", "8", "9"]
