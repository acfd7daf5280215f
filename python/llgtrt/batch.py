"""`llgtrt batch`: answers a file of requests in OpenAI's batch format, without a server.

The requests pass through the application, so they are read, refused and answered as over HTTP. The output
has one line for each request, in the order in which they end. Requests that the output has answers for are
skipped, so a batch that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec
import tqdm
from fastapi import FastAPI
from starlette.types import Message

from llgtrt import inside
from llgtrt.app import HANDLERS
from llgtrt.files import numbered_lines
from llgtrt.openai import refusal
from llgtrt.openai.errors import invalid
from llgtrt.settings import Settings, StartError

AHEAD = 2
"""Requests under way for each place in the engine's batch: a place that is free is taken at once."""

RETRY_SECONDS = 1.0
"""Before a request is sent again that found the waiting line full: its own choices may be many."""

_FOR_GOOD = (200, 400, 404, 413)
"""Statuses that would be the same another time."""


class Line(msgspec.Struct):
    """A request of the file."""

    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


class _Answer(msgspec.Struct):
    status_code: int


class _Done(msgspec.Struct):
    """What of a line of the output says that it is done."""

    custom_id: str
    response: _Answer


class _Late(msgspec.Struct):
    """What of a body would make its answer come in pieces, or later."""

    stream: Any = None
    background: Any = None


def main(parsed: argparse.Namespace, settings: Settings) -> int:
    """Runs the batch; the exit code: 1 where a request was not answered with 200.

    Raises:
        StartError: a file or the target cannot be used.
    """
    source, target = Path(parsed.input), Path(parsed.output)
    names = _check(source)
    done = _kept(target, names)
    batch = _Batch(inside.private(settings), source, target, done)
    try:
        failed = asyncio.run(batch.run(len(names)))
    finally:
        print(f"{batch.answered} of {len(names)} requests are in {target}", file=sys.stderr)
    if failed:
        print(f"{failed} of them with an error", file=sys.stderr)
    return 1 if failed else 0


def _check(source: Path) -> set[str]:
    """Reads the whole file once, before anything is done; the names of its requests.

    Raises:
        StartError: a line is not a request; the message has its number.
    """
    pages = {path for path, (method, _) in HANDLERS.items() if method == "POST" and "{" not in path}
    names: set[str] = set()
    for number, text in numbered_lines(source):
        at = f"{source}, line {number}"
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise StartError(f"{at}: not a request of a batch: {e}") from e
        if line.method != "POST" or line.url not in pages:
            raise StartError(
                f"{at}: url: {line.method} {line.url:.100} is not one of {', '.join(sorted(pages))}"
            )
        if line.custom_id in names:
            raise StartError(f"{at}: custom_id: {line.custom_id:.100} is another line's, too")
        names.add(line.custom_id)
    if not names:
        raise StartError(f"{source}: has no request")
    return names


def _kept(target: Path, names: set[str]) -> dict[str, int]:
    """Leaves in the output what is done for good, each request once; the statuses, by name.

    Raises:
        StartError: the file cannot be used, or is another batch's.
    """
    done: dict[str, int] = {}
    kept = target.with_name(target.name + ".part")
    try:
        with kept.open("wb") as out, contextlib.suppress(FileNotFoundError), target.open("rb") as before:
            for text in before:
                try:
                    line = msgspec.json.decode(text, type=_Done)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # it was stopped in the middle of its last line
                if line.custom_id not in names:
                    raise StartError(
                        f"{target}: has {line.custom_id:.100}, of another batch; name another file"
                    )
                if line.response.status_code in _FOR_GOOD and line.custom_id not in done:
                    out.write(text.rstrip(b"\n") + b"\n")
                    done[line.custom_id] = line.response.status_code
        kept.replace(target)
    except OSError as e:
        raise StartError(f"{target}: cannot be written ({e.strerror}); check the path") from e
    return done


class _Batch:
    """A batch under way."""

    def __init__(self, settings: Settings, source: Path, target: Path, done: dict[str, int]) -> None:
        self._settings = settings
        self._target = target
        self._done = done
        self._lines = (
            line
            for _, text in numbered_lines(source)
            if (line := msgspec.json.decode(text, type=Line)).custom_id not in done
        )

    @property
    def answered(self) -> int:
        """Requests in the output."""
        return len(self._done)

    async def run(self, number: int) -> int:
        """Does what is left of so many requests; how many had an error."""
        if self.answered < number:
            async with inside.application(self._settings, "batch") as (app, followed):
                places = AHEAD * app.state.api.engine.info()["max_running"]
                await self._all(app, followed, places, number)
        return sum(status != 200 for status in self._done.values())

    async def _all(self, app: FastAPI, followed: asyncio.Task[None], places: int, number: int) -> None:
        """Raises what `followed` does: an engine that has failed for good ends the batch."""
        with (
            self._target.open("ab") as out,
            tqdm.tqdm(total=number, initial=self.answered, unit="request") as bar,
        ):

            async def place() -> None:
                for line in self._lines:
                    status, answer = await _answered(app, line)
                    out.write(answer + b"\n")
                    out.flush()
                    self._done[line.custom_id] = status
                    bar.update()

            workers = asyncio.gather(*(place() for _ in range(places)))
            under_way: set[asyncio.Future[Any]] = {workers, followed}
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if followed.done():
                workers.cancel()
                followed.result()
            await workers


async def _answered(app: FastAPI, line: Line) -> tuple[int, bytes]:
    """The status, and the line of the output."""
    body = bytes(line.body)
    name = uuid.uuid4().hex
    if late := _late(body):
        error = invalid(late, f"{late}: an answer in a batch is one piece; leave it out")
        status, told = error.status, refusal.body(error, line.url)
    else:
        status, told = await call(app, line.url, body)
        while status == 429:
            await asyncio.sleep(RETRY_SECONDS)
            status, told = await call(app, line.url, body)
    response = {"status_code": status, "request_id": name, "body": msgspec.Raw(told)}
    answer = {"id": f"batch_req_{name}", "custom_id": line.custom_id, "response": response, "error": None}
    return status, msgspec.json.encode(answer)


def _late(body: bytes) -> str | None:
    """The field that asks for such an answer."""
    try:
        asked = msgspec.json.decode(body, type=_Late)
    except msgspec.DecodeError:
        return None  # the application says what is wrong
    return next((name for name in asked.__struct_fields__ if getattr(asked, name)), None)


async def call(app: FastAPI, path: str, body: bytes) -> tuple[int, bytes]:
    """Status and body of the application's answer."""
    status, told = 500, b""

    def take(message: Message) -> None:
        nonlocal status, told
        status = message.get("status", status)
        told += message.get("body", b"")

    await inside.post(app, path, body, take)
    return status, told
