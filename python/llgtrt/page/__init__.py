"""The playground at `/`: no build step and no foreign host; it talks to the API as any client does."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_NAMES = (
    "style.css",
    *("app.js", "code.js", "decide.js", "dom.js", "examples.js", "output.js", "plots.js", "store.js"),
    *("stream.js", "text.js", "view.js", "vendor/marked.js", "vendor/purify.js"),
)
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{f"/page/{name}": (name, _KINDS[Path(name).suffix]) for name in _NAMES},
}
"""Each path, its file and its type."""

_HEADERS = {
    # Nothing from elsewhere, nothing inline: what a model writes can't load or run anything.
    "content-security-policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
}


async def serve(request: Request) -> Response:
    """`GET /` and the files that it needs."""
    name, kind = FILES[request.scope["path"]]
    return Response((_FOLDER / name).read_bytes(), headers={**_HEADERS, "content-type": kind})
