"""Reads request bodies, compressed or not, within limits of size and time."""

from __future__ import annotations

import asyncio
import zlib

from starlette.requests import ClientDisconnect, Request

from llgtrt.engine import GoneError
from llgtrt.openai.errors import ApiError, invalid
from llgtrt.settings import ServerSettings

_DISCARDED = 4
"""A body of this many times the limit is read to its end, so that its sender can read the refusal."""

_ENCODINGS = ("gzip", "x-gzip", "deflate")


async def read_body(request: Request, limits: ServerSettings) -> bytes:
    """The request's body, decompressed.

    Raises:
        ApiError: it is too large (413), does not arrive in time (408), or is compressed in a way that is
            not read (415) or wrong (400).
        GoneError: the client went away.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in (*_ENCODINGS, "identity", ""):
        message = f"content-encoding: {encoding:.64} is not supported; send gzip, deflate or no encoding"
        raise ApiError(message, code="unsupported_encoding", headers={"accept-encoding": "gzip, deflate"})
    try:
        body = await _collect(request, limits)
    except ClientDisconnect as e:
        raise GoneError from e
    except asyncio.TimeoutError as e:
        raise ApiError(
            "the body did not arrive in time", code="timeout", headers={"connection": "close"}
        ) from e
    if encoding not in _ENCODINGS:
        return body
    # In a thread: a small body may become a large one.
    return await asyncio.to_thread(decompressed, body, limits.max_body_bytes)


async def _collect(request: Request, limits: ServerSettings) -> bytes:
    most = limits.max_body_bytes
    pieces, size = [], 0
    length = request.headers.get("content-length", "")
    whole = int(length) if length.isdecimal() else -1
    stream = request.stream()
    # Progress counts: a slow body may take its time, a stalled one may not.
    while piece := await asyncio.wait_for(anext(stream, b""), limits.send_timeout):
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        if size > most * _DISCARDED or size == whole:
            break
    if size > most:
        error = _too_large(most)
        error.headers["connection"] = "close"
        raise error
    return b"".join(pieces)


def decompressed(body: bytes, most: int) -> bytes:
    """The bytes of a body in the format of gzip or zlib, at most `most` of them.

    Raises:
        ApiError: there are more, or the body has another format or is not complete.
    """
    # 32 + 15: a window of any size, and either of the two formats.
    stream = zlib.decompressobj(wbits=47)
    try:
        plain = stream.decompress(body, most + 1)
    except zlib.error as e:
        raise invalid(None, f"the body cannot be decompressed: {e}", "invalid_encoding") from e
    if len(plain) > most:
        raise _too_large(most)
    if not stream.eof or stream.unused_data:
        why = "it is not complete" if not stream.eof else "something follows its end"
        raise invalid(None, f"the body cannot be decompressed: {why}", "invalid_encoding")
    return plain


def _too_large(most: int) -> ApiError:
    message = f"the body is larger than {most} bytes (server.max_body_bytes)"
    return ApiError(message, code="request_too_large")
