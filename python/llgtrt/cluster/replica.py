"""One replica: the application and its engine in an actor of Ray Serve."""

from __future__ import annotations

import asyncio
import logging
import sys

from fastapi import FastAPI
from prometheus_client.metrics_core import Metric
from ray import serve
from ray.serve._private import replica
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llgtrt import _core
from llgtrt.app import collector, create_app
from llgtrt.cluster.proxy import REPLICA
from llgtrt.engine import AsyncEngine
from llgtrt.metrics import exposition
from llgtrt.serve import follow, loaded, tell_news
from llgtrt.settings import Settings
from llgtrt.start import open_core

log = logging.getLogger(__name__)

_METRICS_SECONDS = 5.0
"""For all replicas to tell their metrics: Prometheus waits for 10 s."""


class Marked:
    """Names the replica in its answers."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def marking_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (REPLICA, self._name)]
            await send(message)

        await self._app(scope, receive, marking_send)


def _stay_on_loopback() -> None:
    """Has Ray open the port for calls from other deployments, which nobody makes, on this machine alone.

    It would be open on all addresses, and takes pickled objects from whoever reaches it.
    """
    add = replica.add_port_to_grpc_server
    replica.add_port_to_grpc_server = lambda server, address: add(
        server, address.replace("[::]", "127.0.0.1")
    )


@serve.ingress()
class Replica:
    """The server that `llgtrt serve` runs, behind Ray's proxies. It exists once its model is loaded."""

    async def __init__(  # type: ignore[misc] # (Ray waits for it)
        self, settings: Settings, level: int, alone: bool
    ) -> None:
        """`level`: of the log; `alone`: other machines have no part in this Ray.

        Raises:
            StartError: the engine cannot be opened.
        """
        if alone:
            _stay_on_loopback()
        logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)
        context = serve.get_replica_context()
        self._name: str = context.replica_id.unique_id
        self._handle = serve.get_deployment_handle(context.deployment, context.app_name)
        self._core: _core.Engine = open_core(settings)
        self._engine = AsyncEngine(self._core, settings.server.request_timeout)
        self._app = create_app(settings, self._engine)
        self._app.add_middleware(Marked, name=self._name)
        self._app.state.exposition = self._exposition
        self._followed = asyncio.create_task(
            follow(self._engine, self._app.state.api, f"replica {self._name}")
        )
        self._news = asyncio.create_task(tell_news(self._engine))
        # A handle learns of replicas once it has been used.
        self._meeting = asyncio.create_task(self._exposition())
        await loaded(self._followed, self._app.state.api)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The application, for Ray."""
        return self._app

    def check_health(self) -> None:
        """Whether this replica is of any use: an engine that is being restarted is waited for.

        Raises:
            StartError: its engine has failed for good.
        """
        if self._followed.done():
            self._followed.result()

    async def own_metrics(self) -> tuple[str, list[Metric]]:
        """The replica's name, and its metrics."""
        return self._name, list(collector(self._app).collect())

    async def _exposition(self) -> bytes:
        """The metrics of all replicas; those that do not answer in time are left out."""
        told = [await self.own_metrics()]
        asked = self._handle.broadcast("own_metrics")
        try:
            told += await asked.results_async(timeout_s=_METRICS_SECONDS, return_exceptions=True)
        except TimeoutError:
            log.warning("a replica did not tell its metrics in time; they are this one's alone")
        return exposition(dict(one for one in told if isinstance(one, tuple)))

    async def __del__(self) -> None:
        self._news.cancel()
        self._followed.cancel()
        await asyncio.to_thread(self._core.close)
