"""An entry of `token_origins`: a token, who drafted it, and what would have been in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llgtrt.engine import Free, Origin


def entry(origin: Origin, shown: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """`shown`: gives a token's id and text."""
    token, source, refused, free = origin
    others = [{**shown(other), "source": who} for other, who in refused]
    return {**shown(token), "source": source, "refused": others, **_free(free, shown)}


def _free(free: Free | None, shown: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """What would have been without the constraint, where it is known."""
    if free is None:
        return {}
    allowed, likeliest = free
    told: dict[str, Any] = {"allowed": round(allowed, 6)}
    if likeliest is not None:
        token, logprob = likeliest
        told["likeliest"] = {**shown(token), "probability": round(math.exp(logprob), 6)}
    return told
