"""The command line of replicas, `launch/ray_serve.py`: Ray, the deployment, signals, and their order.

Without `--address`, a Ray cluster starts and ends with this process, and listens on this machine only.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llgtrt
from llgtrt import __version__, cli, flags, spans, templates
from llgtrt.cluster.options import Options, parse
from llgtrt.cluster.proxy import CALLBACK
from llgtrt.settings import Settings, StartError, is_loopback

log = logging.getLogger(__name__)

NAME = "llgtrt"
"""Of the application in Ray Serve."""

STORE_BYTES = 80 * 1024 * 1024
"""Of Ray's object store, which takes no less than 75 MiB. What replicas send is small and goes past it."""

START_SECONDS = 300
"""For Ray to start: the 30 s that it takes for enough are not, on a machine that builds beside."""

WATCH_SECONDS = 1.0
"""Between two looks at the replicas."""

HEALTH_SECONDS = 5.0
"""Between two questions to a replica; Ray replaces it after three without a good answer."""

STARTS = 2
"""Of a replica that fails while it starts: once more, and then it is the model's fault or the machine's."""

UNBOUNDED = 1_000_000
"""Requests of a replica whose waiting line has no bound."""


_QUIET = {"enable_access_log": False, "log_level": "WARNING"}
"""Ray's own log of requests: `server.access_log` is for that."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves replicas until a signal; the exit code."""
    try:
        options, rest = parse(sys.argv[1:] if arguments is None else list(arguments))
        settings = cli.prepare(flags.parse(["serve", *rest], __version__))
        if settings is None:
            return 0
        templates.check(settings)
        spans.exporter()
        if settings.responses_file is not None:
            raise StartError("--responses-file: a file is one server's, and there are several; leave it out")
        if importlib.util.find_spec("ray") is None:
            raise StartError("Ray is missing; install it: pip install 'llgtrt[ray]'")
        return _serve(settings, options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (flags.UsageError, StartError) as e:
        print(f"llgtrt: {' '.join(str(e).split())}", file=sys.stderr)
        return cli.USAGE_ERROR


def _serve(settings: Settings, options: Options) -> int:
    if options.address is None:
        _environment(settings)
    import ray

    try:
        _connect(options)
        port = _start(settings, options)
        host = settings.server.host
        log.info("listening on http://%s:%d, %d replicas of %s", host, port, options.replicas, settings.model)
        _watch(_on_signals())
        _end(settings, options)
    finally:
        ray.shutdown()
    return 0


def _environment(settings: Settings) -> None:
    """What every process of the Ray of our own is to have."""
    if is_loopback(settings.server.host):
        # Ray listens on every address of a machine that it believes to be one of several.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    paths = [str(Path(llgtrt.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ[CALLBACK] = "llgtrt.cluster.proxy:middlewares"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Lines that replicas have in common are each one's own, too.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", str(START_SECONDS))


def _connect(options: Options) -> None:
    """Starts Ray, or joins a running one.

    Raises:
        StartError: that is not possible.
    """
    try:
        _init(options)
    except Exception as e:  # Ray raises this very class, too
        raise StartError(f"Ray cannot be reached or started: {e}") from e


def _init(options: Options) -> None:
    import ray

    if options.address is not None:
        ray.init(address=options.address)
        log.info("every node's Ray must have been started with %s=llgtrt.cluster.proxy:middlewares", CALLBACK)
        return
    port = options.metrics_port or _free_port("127.0.0.1")
    ray.init(
        address="local",  # also where another one runs on this machine, or has left its traces
        num_cpus=max(os.cpu_count() or 1, int(options.cpus * options.most + 0.999)),
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        _metrics_export_port=port,
    )
    log.info("Ray's own metrics: http://127.0.0.1:%d", port)


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _start(settings: Settings, options: Options) -> int:
    """Starts proxies and replicas; the port.

    Raises:
        StartError: the port is taken, or no replica came up.
    """
    from ray import serve

    server = settings.server
    port = server.port or _free_port(server.host)
    options_of_http = {
        "host": server.host,
        "port": port,
        "keep_alive_timeout_s": server.keep_alive,
        "ssl_certfile": server.ssl_certfile,
        "ssl_keyfile": server.ssl_keyfile,
    }
    serve.start(http_options=options_of_http, logging_config=_QUIET)
    try:
        serve.run(_deployment(settings, options), name=NAME, route_prefix="/", blocking=False)
    except RuntimeError as e:
        raise StartError(f"no replica came up: {_message() or e}") from e
    return port


def _deployment(settings: Settings, options: Options) -> Any:
    from ray import serve
    from ray.serve.config import AutoscalingConfig, BackpressureConfig, RequestRouterConfig

    from llgtrt.cluster.replica import Replica

    config = json.loads(settings.config)
    batch, queue = config["max_batch_size"], config["max_queue_size"] or UNBOUNDED
    number: dict[str, Any] = {"num_replicas": options.replicas}
    if options.least < options.most:
        # Half of a batch: the other half is for what comes while a new replica loads.
        target = options.target_ongoing_requests or batch / 2
        scaling = AutoscalingConfig(
            min_replicas=options.least,
            initial_replicas=options.replicas,
            max_replicas=options.most,
            target_ongoing_requests=target,
            upscale_delay_s=options.upscale_delay,
            downscale_delay_s=options.downscale_delay,
        )
        number = {"autoscaling_config": scaling}
    # An eighth of a batch more costs its requests less time than a prompt that is computed again.
    router = RequestRouterConfig(
        request_router_class="llgtrt.cluster.routing:PrefixRouter",
        request_router_kwargs={"spread": max(1, batch // 8)},
    )
    deployment = serve.deployment(
        Replica,
        name="Replica",
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": options.gpus},
        max_ongoing_requests=batch + queue,
        max_queued_requests=queue,
        backpressure_config=BackpressureConfig(status_code=429, retry_after_s=1),
        graceful_shutdown_timeout_s=settings.server.grace_period,
        graceful_shutdown_wait_loop_s=0.2,
        health_check_period_s=HEALTH_SECONDS,
        max_constructor_retry_count=STARTS,
        request_router_config=router,
        logging_config=_QUIET,
        **number,
    )
    alone = options.address is None and is_loopback(settings.server.host)
    return deployment.bind(settings, logging.getLogger().level, alone)


def _message() -> str:
    """What Ray says of the application."""
    from ray import serve

    application = serve.status().applications.get(NAME)
    if application is None:
        return ""
    told = [deployment.message for deployment in application.deployments.values()]
    return str(next(filter(None, told), application.message))


def _on_signals() -> threading.Event:
    """Set by the first signal; a second one ends everything at once."""
    ended = threading.Event()

    def signalled(number: int, _frame: object) -> None:
        if ended.is_set():
            raise SystemExit(128 + number)
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signalled)
    return ended


def _watch(ended: threading.Event) -> None:
    """Logs how many replicas there are, whenever that changes, until the end."""
    from ray import serve

    before: dict[str, int] = {}
    while not ended.wait(WATCH_SECONDS):
        application = serve.status().applications.get(NAME)
        if application is None:
            raise StartError("the application was deleted")
        (deployment,) = application.deployments.values()
        now = {str(state): number for state, number in deployment.replica_states.items() if number}
        if now != before:
            log.info("replicas: %s", ", ".join(f"{number} {state.lower()}" for state, number in now.items()))
        before = now


def _end(settings: Settings, options: Options) -> None:
    """Lets what runs finish, within the grace period, while new requests get 503."""
    from ray import serve

    grace = settings.server.grace_period
    log.info("shutting down: requests have %g s to finish; another signal ends at once", grace)
    serve.delete(NAME, _blocking=False)
    # Ray itself ends what is left after the grace period.
    end = time.monotonic() + grace + HEALTH_SECONDS
    while NAME in serve.status().applications and time.monotonic() < end:
        time.sleep(0.2)
    if options.address is None:
        serve.shutdown()
