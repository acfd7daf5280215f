"""`llgtrt chat` with an engine of its own: the application in this process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

from fastapi import FastAPI
from starlette.types import Message

from llgtrt import inside
from llgtrt.chat import ChatError, chunks, message_of, talk
from llgtrt.settings import Settings


class Local:
    """The application on an event loop that runs while there is something to wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, app: FastAPI, followed: asyncio.Task[None]) -> None:
        self._loop = loop
        self._app = app
        self._followed = followed

    def answer(self, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """See `chat.Answers`.

        Raises:
            StartError: the engine has failed for good.
        """
        if self._followed.done():
            self._followed.result()
        left, stopped = asyncio.Event(), False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            left.set()

        self._loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield from chunks(self._lines(json.dumps(body).encode(), left))
        except ChatError:
            if not stopped:
                raise
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)
        if stopped:
            raise KeyboardInterrupt

    def _lines(self, body: bytes, left: asyncio.Event) -> Iterator[bytes]:
        """The lines of the answer; what still runs of the request is cancelled with this iterator."""
        news: asyncio.Queue[Message | None] = asyncio.Queue()

        async def post() -> None:
            try:
                await inside.post(self._app, "/v1/chat/completions", body, news.put_nowait, left)
            finally:
                news.put_nowait(None)

        task = self._loop.create_task(post())
        try:
            status, rest, refusal = 200, b"", b""
            while (message := self._loop.run_until_complete(news.get())) is not None:
                status = message.get("status", status)
                if status != 200:
                    refusal += message.get("body", b"")
                    continue
                *lines, rest = (rest + message.get("body", b"")).split(b"\n")
                yield from lines
            if status != 200:
                raise ChatError(message_of(status, refusal))
        finally:
            left.set()
            self._loop.run_until_complete(task)


def main(parsed: argparse.Namespace, settings: Settings) -> int:
    """Loads the engine, and talks with it; the exit code.

    Raises:
        StartError: a file or the target cannot be used.
    """
    if sys.stdin.isatty():
        print(f"loading {settings.model} …")
    with _opened(settings) as local:
        return talk(parsed, local)


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[Local]:
    """Loads the engine, and ends it.

    Raises:
        StartError: the target cannot be used.
    """
    loop = asyncio.new_event_loop()
    try:
        context = inside.application(inside.private(settings), "chat")
        app, followed = loop.run_until_complete(context.__aenter__())
        try:
            yield Local(loop, app, followed)
        finally:
            loop.run_until_complete(context.__aexit__(None, None, None))
    finally:
        loop.close()
