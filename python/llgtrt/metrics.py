"""`/metrics`: one collector over the core's snapshot and the HTTP layer's own counts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from llgtrt import __version__
from llgtrt.engine import AsyncEngine

BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds in seconds of the core's histograms (`metrics::BUCKETS`)."""

SIZES = ("1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129+")
"""Numbers of sequences that the core tells apart (`metrics::SIZES`)."""

PROMISES = {"BitIdentical": "exact: bit-identical", "NearTies": "exact: up to near-ties"}
"""`exec::Promise`, in words."""

_OUTCOMES = ("stop", "length", "cancelled", "refused", "failed")

_COUNTERS = {
    "prompt_tokens": "Prompt tokens of admitted requests.",
    "cached_tokens": "Prompt tokens whose KV was reused.",
    "generated_tokens": "Emitted tokens.",
    "computed_tokens": "Tokens computed by the target, prompt chunks and recomputation included.",
    "drafted_tokens": "Tokens proposed by drafters and given to the target.",
    "accepted_tokens": "Drafted tokens that were emitted.",
    "kv_returned_tokens": "KV tokens whose memory was returned to the system.",
    "preemptions": "Sequences preempted.",
    "choices_shortened": "Constrained choices that max_tokens made end earlier, complete.",
    "steps": "Engine steps.",
    "grammar_cache_hits": "Grammars found in the cache.",
    "grammar_cache_misses": "Grammars compiled.",
}

_GAUGES = {
    "waiting": ("llgtrt_waiting_requests", "Requests waiting, compiling ones included."),
    "running": ("llgtrt_running_choices", "Choices running."),
    "kv_used": ("llgtrt_kv_used_tokens", "KV tokens in use by running sequences."),
    "kv_total": ("llgtrt_kv_total_tokens", "KV tokens in total."),
    "kv_kept": ("llgtrt_kv_kept_tokens", "KV tokens of kept prefixes."),
    "kv_resident": (
        "llgtrt_kv_resident_tokens",
        "KV tokens whose memory is allocated; 0 if the engine allocates all KV at its start.",
    ),
    "grammar_cache_entries": ("llgtrt_grammar_cache_entries", "Compiled grammars in the cache."),
    "draft_kv_used": ("llgtrt_draft_kv_used_tokens", "KV tokens that the draft model holds."),
    "drafters_failed": (
        "llgtrt_drafters_failed",
        "Sources of drafts that failed and are not asked any more.",
    ),
}

_FATES = ("accepted", "target", "grammar", "stop", "unverified")
"""What becomes of a drafted token (`metrics::Fates`)."""

_HISTOGRAMS = {
    "queue": ("llgtrt_queue_seconds", "From arrival to admission."),
    "time_to_first_token": ("llgtrt_time_to_first_token_seconds", "From arrival to the first token."),
    "inter_token": ("llgtrt_inter_token_seconds", "Between tokens of a choice."),
    "end_to_end": ("llgtrt_end_to_end_seconds", "From arrival to the end."),
    "step": ("llgtrt_step_seconds", "Per engine step."),
    "verify": ("llgtrt_verify_seconds", "The target's part of a step: pass, masks, sampling."),
    "mask": ("llgtrt_mask_seconds", "Mask computation, per step that had any."),
    "compile": ("llgtrt_grammar_compile_seconds", "Per grammar compilation."),
}


class HttpCounts:
    """How HTTP requests ended: by path and status, or `disconnected` where the client went away."""

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, str]] = Counter()

    def count(self, path: str, outcome: str) -> None:
        """One more request of this path ended so."""
        self._ended[path, outcome] += 1

    def items(self) -> Iterable[tuple[tuple[str, str], int]]:
        """((path, outcome), number)."""
        return sorted(self._ended.items())


class EngineCollector(Collector):
    """Reads everything anew at each scrape; holds no numbers of its own."""

    def __init__(self, engine: AsyncEngine, http: HttpCounts, model: str) -> None:
        self._engine = engine
        self._http = http
        self._model = model

    def collect(self) -> Iterator[Metric]:
        """All metrics of the server."""
        snapshot = self._engine.metrics()
        totals, gauges = snapshot["totals"], snapshot["gauges"]
        yield from self._server(snapshot)
        requests = CounterMetricFamily(
            "llgtrt_requests", "Requests to the engine, by how they ended.", labels=["outcome"]
        )
        for outcome in _OUTCOMES:
            requests.add_metric([outcome], totals[f"requests_{outcome}"])
        yield requests
        for key, text in _COUNTERS.items():
            yield CounterMetricFamily(f"llgtrt_{key}", text, value=totals[key])
        yield from _drafting(totals["drafting"])
        yield from _rates(totals)
        for key, (name, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=gauges[key])
        for key, (name, text) in _HISTOGRAMS.items():
            yield _histogram(name, text, [({}, totals[key])])
        sizes = [({"sequences": size}, drafted) for size, drafted in zip(SIZES, totals["draft"], strict=True)]
        text = "Drafting, per step in which anything could be drafted, by the number of sequences."
        yield _histogram("llgtrt_draft_seconds", text, sizes)

    def _server(self, snapshot: dict[str, Any]) -> Iterator[Metric]:
        ready = self._engine.state()[0] == "ready"
        yield GaugeMetricFamily("llgtrt_ready", "Whether the engine takes requests.", value=float(ready))
        stalled = self._engine.stalled(snapshot) is not None
        text = "Whether choices run and nothing has been computed for 30 s."
        yield GaugeMetricFamily("llgtrt_stalled", text, value=float(stalled))
        if ready:
            labels = {"version": __version__, "model": self._model, "promise": promise(self._engine.info())}
            info = GaugeMetricFamily(
                "llgtrt_engine_info", "What serves, and what it promises.", labels=list(labels)
            )
            info.add_metric(list(labels.values()), 1)
            yield info
            text = "CPU threads that compute; 0 if the engine has threads of its own."
            yield GaugeMetricFamily("llgtrt_engine_threads", text, value=self._engine.info()["threads"])
        yield CounterMetricFamily(
            "llgtrt_engine_restarts", "Restarts of the engine.", value=snapshot.get("restarts", 0)
        )
        http = CounterMetricFamily(
            "llgtrt_http_requests", "HTTP requests, by how they ended.", labels=["path", "outcome"]
        )
        for labels_of, number in self._http.items():
            http.add_metric(labels_of, number)
        yield http


def promise(info: dict[str, Any]) -> str:
    """What the engine promises about the same request in another batch, in words."""
    return PROMISES.get(info["promise"], str(info["promise"]))


class _Families(Collector):
    """Metrics that were read before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(servers: Mapping[str | None, Iterable[Metric]]) -> bytes:
    """The text that `/metrics` answers with: the metrics of servers, with their names as the label `replica`.

    A server without a name gets no label.
    """
    families: dict[str, Metric] = {}
    for name, metrics in servers.items():
        labels = {} if name is None else {"replica": name}
        for metric in metrics:
            family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            family.samples += [s._replace(labels={**s.labels, **labels}) for s in metric.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families.values()))
    return generate_latest(registry)


def _drafting(drafting: dict[str, Any]) -> Iterator[Metric]:
    fates = CounterMetricFamily(
        "llgtrt_draft_fates", "Drafted tokens, by source and what became of them.", labels=["source", "fate"]
    )
    for source, counts in drafting["sources"].items():
        for fate in _FATES:
            fates.add_metric([source, fate], counts[fate])
    yield fates
    places = (
        ("llgtrt_draft_accepted_at", "Accepted tokens, by their place in the draft.", "accepted_at"),
        ("llgtrt_draft_lengths", "Steps of a choice, by the length of its draft.", "lengths"),
    )
    for name, text, key in places:
        family = CounterMetricFamily(name, text, labels=["place"])
        last = len(drafting[key]) - 1
        for place, count in enumerate(drafting[key]):
            family.add_metric([f"{place}+" if place == last else str(place)], count)
        yield family


def acceptance(totals: dict[str, Any]) -> float | None:
    """The share of drafted tokens that were emitted; none where nothing was drafted."""
    drafted: int = totals["drafted_tokens"]
    return totals["accepted_tokens"] / drafted if drafted else None


def efficiency(totals: dict[str, Any]) -> float | None:
    """Tokens emitted in steps with a draft, over those of a draft model that is always right.

    Such a step can emit its draft and one token more; the token more is always emitted. So vLLM and Aphrodite
    define system efficiency.
    """
    drafted: int = totals["drafted_tokens"]
    steps = sum(totals["drafting"]["lengths"][1:])
    return (totals["accepted_tokens"] + steps) / (drafted + steps) if drafted + steps else None


def _rates(totals: dict[str, Any]) -> Iterator[Metric]:
    rates = (
        ("llgtrt_draft_acceptance_rate", "Share of drafted tokens that were emitted.", acceptance),
        (
            "llgtrt_draft_system_efficiency",
            "Tokens emitted in steps with a draft, over those that were possible.",
            efficiency,
        ),
    )
    for name, text, rate in rates:
        value = rate(totals)
        yield GaugeMetricFamily(name, text, value=float("nan") if value is None else value)


def news(before: dict[str, Any], after: dict[str, Any], seconds: float) -> str | None:
    """What was done between two snapshots, in one line; none where nothing was."""
    old, new, gauges = before["totals"], after["totals"], after["gauges"]
    done = {key: new[key] - old[key] for key in _COUNTERS}
    if not (done["computed_tokens"] or gauges["running"] or gauges["waiting"]):
        return None
    ended = sum(new[f"requests_{outcome}"] - old[f"requests_{outcome}"] for outcome in _OUTCOMES)
    accepted = acceptance(done)
    parts = [
        f"{gauges['running']} choices running, {gauges['waiting']} requests waiting, {ended} ended",
        f"{done['generated_tokens'] / seconds:.1f} tokens/s, prompts {done['prompt_tokens'] / seconds:.1f}",
        f"KV {gauges['kv_used'] / gauges['kv_total']:.0%}" if gauges["kv_total"] else "",
        f"drafts accepted {accepted:.0%}" if accepted is not None else "",
    ]
    return "; ".join(part for part in parts if part)


def _histogram(
    name: str, text: str, series: Sequence[tuple[dict[str, str], dict[str, Any]]]
) -> HistogramMetricFamily:
    """`series`: labels, and a core histogram for each."""
    bounds = [*(str(b) for b in BUCKETS), "+Inf"]
    family = HistogramMetricFamily(name, text, labels=list(series[0][0]))
    for labels, histogram in series:
        cumulative = itertools.accumulate(histogram["counts"])
        buckets = [(bound, float(count)) for bound, count in zip(bounds, cumulative, strict=True)]
        family.add_metric(list(labels.values()), buckets, histogram["sum"])
    return family
