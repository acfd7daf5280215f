"""Stored responses, with their input: in memory, or in an SQLite file.

Both are a database, with the same kinds of limits: a number of responses, and a number of bytes. Beyond
them, the least recently used response of the key with the most responses is deleted, so a key that stores a
lot displaces only its own.
"""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from llgtrt.settings import StartError

Json = dict[str, Any]
Row = tuple[str | None, int, bytes, bytes]


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What may be kept, of all keys together."""

    responses: int
    bytes: int


IN_MEMORY = Bounds(10_000, 64 * 1024 * 1024)
"""Four times the longest body that is usually read, or thousands of ordinary conversations."""
IN_FILE = Bounds(100_000, 1024 * 1024 * 1024)

UNDER_WAY = ("queued", "in_progress")
"""What `status` says before the end."""

_EACH = 512
"""Bytes that count for a response beside its texts: its rows and their indices."""

_ENDED = "the server ended before the response was there"

_TABLES = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, client TEXT NOT NULL, previous TEXT, used INTEGER NOT NULL, size INTEGER NOT NULL,
    running INTEGER NOT NULL, body BLOB NOT NULL, input BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_client ON responses (client, used, size);
CREATE TABLE IF NOT EXISTS items (
    id TEXT, response TEXT, PRIMARY KEY (id, response)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_response ON items (response);
"""


@dataclasses.dataclass(frozen=True)
class Kept:
    """A response and its own input, as JSON objects."""

    body: Json
    input: list[Json]
    size: int
    """Bytes that count for it."""


class TooLargeError(Exception):
    """What is asked for is larger than the caller can take."""


class Store:
    """The responses that are kept. Every call is short, and may come from any thread."""

    def __init__(self, file: Path | None = None, bounds: Bounds | None = None) -> None:
        """`file`: none = in memory.

        Raises:
            StartError: the file cannot be used.
        """
        self._bounds = bounds or (IN_FILE if file else IN_MEMORY)
        self._lock = threading.Lock()
        try:
            if file is not None:
                # Conversations are nobody else's to read.
                os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(file or ":memory:", timeout=1.0, check_same_thread=False)
            # One server alone: what is in progress in the file is then nobody's.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            with self._db:
                self._db.execute("BEGIN EXCLUSIVE")
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._db.execute(statement)
                self._fail_unfinished()
        except (OSError, sqlite3.Error) as e:
            why = e.strerror if isinstance(e, OSError) else e
            raise StartError(f"--responses-file: {file} cannot be used ({why}); name another file") from e

    def close(self) -> None:
        """Ends it; nothing may be asked any more."""
        with self._lock:
            self._db.close()

    def put(self, client: int, body: Json, given: Sequence[Json]) -> bool:
        """Keeps a response, or what has become of it. False: it is larger than all that may be kept."""
        name = body["id"]
        told, written = msgspec.json.encode(body), msgspec.json.encode(given)
        ids = {item["id"] for item in (*given, *body["output"])}
        size = len(told) + len(written) + sum(map(len, ids)) + _EACH
        running = body["status"] in UNDER_WAY
        row = (name, _key(client), body["previous_response_id"], time.time_ns(), size, running, told, written)
        with self._lock, self._db:
            self._drop(name)
            if size > self._bounds.bytes:
                return False
            self._db.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._db.executemany("INSERT INTO items VALUES (?, ?)", [(one, name) for one in ids])
            self._evict()
        return True

    def get(self, client: int, name: str) -> Kept | None:
        """A response of this client's."""
        with self._lock, self._db:
            row = self._use(client, name)
        return _kept(row) if row else None

    def chain(self, client: int, name: str, most: int) -> list[Kept] | None:
        """A response and those that it goes on from, the oldest first; none where one is not kept.

        Raises:
            TooLargeError: they are more than `most` bytes.
        """
        rows: list[Row] = []
        with self._lock, self._db:
            following: str | None = name
            while following is not None:
                row = self._use(client, following)
                if row is None:
                    return None
                following, size, *_ = row
                most -= size
                if most < 0:
                    raise TooLargeError
                rows.append(row)
        return [_kept(row) for row in reversed(rows)]

    def _use(self, client: int, name: str) -> Row | None:
        """A response's row; it is the last that was used."""
        row: Row | None = self._db.execute(
            "UPDATE responses SET used = ? WHERE id = ? AND client = ? RETURNING previous, size, body, input",
            (time.time_ns(), name, _key(client)),
        ).fetchone()
        return row

    def holding(self, client: int, name: str) -> Kept | None:
        """One of this client's responses that has this item in its input or output."""
        with self._lock:
            row = self._db.execute(
                "SELECT r.id FROM items i JOIN responses r ON r.id = i.response"
                " WHERE i.id = ? AND r.client = ? ORDER BY r.used DESC LIMIT 1",
                (name, _key(client)),
            ).fetchone()
        return self.get(client, row[0]) if row else None

    def delete(self, client: int, name: str) -> bool:
        """Forgets a response of this client's; whether there was one."""
        with self._lock, self._db:
            own = self._db.execute(
                "SELECT 1 FROM responses WHERE id = ? AND client = ?", (name, _key(client))
            ).fetchone()
            if own:
                self._drop(name)
        return own is not None

    def _drop(self, name: str) -> None:
        self._db.execute("DELETE FROM items WHERE response = ?", (name,))
        self._db.execute("DELETE FROM responses WHERE id = ?", (name,))

    def _evict(self) -> None:
        """Keeps to the bounds."""
        while True:
            count, size = self._db.execute("SELECT count(*), sum(size) FROM responses").fetchone()
            if count <= self._bounds.responses and size <= self._bounds.bytes:
                return
            held = "count(*)" if count > self._bounds.responses else "sum(size)"
            (name,) = self._db.execute(
                "SELECT id FROM responses WHERE client = (SELECT client FROM responses GROUP BY client"
                f" ORDER BY {held} DESC LIMIT 1) ORDER BY used LIMIT 1"
            ).fetchone()
            self._drop(name)

    def _fail_unfinished(self) -> None:
        """What a server before this one has left in progress will not go on."""
        left = self._db.execute("SELECT id, body FROM responses WHERE running").fetchall()
        for name, told in left:
            body = msgspec.json.decode(told)
            body |= {"status": "failed", "error": {"code": "server_error", "message": _ENDED}}
            self._db.execute(
                "UPDATE responses SET body = ?, running = 0 WHERE id = ?", (msgspec.json.encode(body), name)
            )


def _kept(row: Row) -> Kept:
    _, size, body, given = row
    return Kept(msgspec.json.decode(body), msgspec.json.decode(given), size)


def _key(client: int) -> str:
    """A client's number as text: it may be larger than the integers of a database."""
    return f"{client:016x}"
