"""The playground at `/`: no build step and no foreign host; it talks to the API as any client does."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/style.css": ("style.css", "text/css; charset=utf-8"),
    "/page/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/page/stream.js": ("stream.js", "text/javascript; charset=utf-8"),
    "/page/examples.js": ("examples.js", "text/javascript; charset=utf-8"),
}
"""Each path, its file and its type."""

_HEADERS = {
    # Nothing from elsewhere, nothing inline: what a model writes is text on this page and can't be more.
    "content-security-policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
}


async def serve(request: Request) -> Response:
    """`GET /` and the files that it needs."""
    name, kind = FILES[request.scope["path"]]
    return Response((_FOLDER / name).read_bytes(), headers={**_HEADERS, "content-type": kind})
