"""Chooses the replica of a request: the one that had the prompt's beginning before, unless it is busy."""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

MOST_LINKS = 100_000
"""Links that are remembered, those of some thousands of prompts: about 20 MB in each proxy."""


class PrefixRouter(RequestRouter):
    """Prefix affinity within bounds of load.

    Ray's `PrefixCacheAffinityRouter` takes the prompt from the arguments of a call, and an HTTP request has
    its body there only on the replica. This one takes the links that the proxy has found (`proxy`).
    """

    def initialize_state(self, spread: int) -> None:
        """`spread`: requests by which a replica may be ahead of the least busy one and still be preferred."""
        self._spread = spread
        self._homes: OrderedDict[str, ReplicaID] = OrderedDict()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica that knows most of the prompt, then the less busy one of two."""
        two = random.sample(candidate_replicas, min(2, len(candidate_replicas)))
        if pending_request is None:
            return [two]
        pending_request.routing_context.should_backoff = True
        home = self._home(_links(pending_request))
        return [two] if home is None or self._busy(home) else [[home], two]

    def _home(self, links: list[str]) -> RunningReplica | None:
        known = (self.curr_replicas.get(self._homes[link]) for link in reversed(links) if link in self._homes)
        return next((replica for replica in known if replica is not None), None)

    def _busy(self, home: RunningReplica) -> bool:
        lengths = {name: self.replica_queue_len_cache.get(name) or 0 for name in self.curr_replicas}
        return lengths[home.replica_id] - min(lengths.values()) > self._spread

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Remember where the prompt is known from now on."""
        for link in _links(pending_request):
            self._homes[link] = replica_id
            self._homes.move_to_end(link)
        while len(self._homes) > MOST_LINKS:
            self._homes.popitem(last=False)


def _links(request: PendingRequest) -> list[str]:
    name = request.metadata.session_id
    return name.split(".") if name else []
