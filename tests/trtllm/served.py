"""Servers over the fake of TensorRT-LLM."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from server.serving import PATIENCE, Server, serving

from .conftest import FAKE
from .live import Folder

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
FAULTS = "FAKE_TRTLLM"
"""Names, in JSON, the faults of all executors."""
END_BIAS = 2.0
"""End tokens are as likely that some answers end by themselves, and some don't."""


@contextlib.contextmanager
def over_fake(
    folder: Path,
    target: Folder,
    draft: Folder | None = None,
    config: dict[str, Any] | None = None,
    **faults: Any,
) -> Iterator[Server]:
    """A server on engine folders written to `folder`, ready."""
    config = dict(config or {})
    if draft is not None:
        model = {"draft_model": str(draft.write(folder / "draft"))}
        config["speculative"] = config.get("speculative", {}) | model
    environment = {FAULTS: json.dumps(faults)} if faults else None
    name = str(target.write(folder / "target"))
    flags = ("--served-model-name", "toy")
    with serving(name, *flags, config=config, path=[FAKE], environment=environment) as server:
        yield server.wait_ready()


async def _all(server: Server, bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=16)
    async with httpx.AsyncClient(base_url=server.url, limits=limits, timeout=PATIENCE) as client:
        asked = (client.post(CHAT if "messages" in body else TEXT, json=body) for body in bodies)
        return list(await asyncio.gather(*asked))


def ask_all(server: Server, bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    """The answers to all, 16 at a time, in their order."""
    return asyncio.run(_all(server, bodies))


__all__ = ["CHAT", "END_BIAS", "TEXT", "Folder", "Server", "ask_all", "over_fake", "serving"]
