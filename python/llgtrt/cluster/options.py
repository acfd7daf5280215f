"""The flags of `launch/ray_serve.py` that are not those of `llgtrt serve`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import NoReturn

from llgtrt import flags


@dataclasses.dataclass(frozen=True)
class Options:
    """How replicas are run."""

    replicas: int
    """As many to begin with."""
    least: int
    most: int
    target_ongoing_requests: float | None
    """Requests of a replica, waiting ones included, that autoscaling aims at."""
    upscale_delay: float
    downscale_delay: float
    cpus: float
    gpus: float
    address: str | None
    """A running Ray's; none = one of its own, on this machine."""
    metrics_port: int


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise flags.UsageError(f"{message}; see --help")


def parse(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """The options, and the arguments of `llgtrt serve`.

    Raises:
        UsageError: an option cannot be read.
    """
    parser = _parser()
    own, rest = parser.parse_known_args(arguments)
    least = own.min_replicas if own.min_replicas is not None else own.replicas
    most = own.max_replicas if own.max_replicas is not None else max(own.replicas, least)
    if not 1 <= least <= own.replicas <= most:
        parser.error("--min-replicas, --replicas and --max-replicas must rise from 1")
    if own.target_ongoing_requests is not None and least == most:
        parser.error("--target-ongoing-requests needs --max-replicas above --min-replicas")
    if own.ray_metrics_port is not None and own.address is not None:
        parser.error("--ray-metrics-port: that Ray has its own already; leave it out")
    options = Options(
        own.replicas,
        least,
        most,
        own.target_ongoing_requests,
        own.upscale_delay,
        own.downscale_delay,
        own.replica_cpus,
        own.replica_gpus,
        own.address,
        own.ray_metrics_port or 0,
    )
    return options, rest


def _parser() -> _Parser:
    parser = _Parser(
        prog="ray_serve.py",
        description="Serves replicas of a model with Ray Serve.",
        usage="ray_serve.py <target> [<draft>] [flags of this list] [flags of `llgtrt serve`]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--replicas", type=_whole, default=1, metavar="N", help="replicas to begin with (1)")
    add("--min-replicas", type=_whole, metavar="N", help="as few when there is little to do (--replicas)")
    add("--max-replicas", type=_whole, metavar="N", help="as many when there is much to do (--replicas)")
    add(
        "--target-ongoing-requests",
        type=_positive,
        metavar="N",
        help="requests of a replica that autoscaling aims at (half of max_batch_size)",
    )
    add(
        "--upscale-delay",
        type=_share,
        default=30.0,
        metavar="S",
        help="seconds of load before there is one more (30)",
    )
    add(
        "--downscale-delay",
        type=_share,
        default=600.0,
        metavar="S",
        help="seconds of less before there is one less (600)",
    )
    add(
        "--replica-cpus",
        type=_positive,
        default=1.0,
        metavar="N",
        help="cores that each replica reserves (1)",
    )
    add("--replica-gpus", type=_share, default=0.0, metavar="N", help="GPUs that each replica reserves (0)")
    add(
        "--address", metavar="HOST:PORT", help="a running Ray (`auto`: this machine's); none = one of its own"
    )
    add("--ray-metrics-port", type=_whole, metavar="N", help="port of Ray's own metrics (a free one)")
    return parser


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _positive(text: str) -> float:
    value = _share(text)
    if value == 0:
        raise ValueError
    return value
