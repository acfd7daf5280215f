"""Models from the hub, on a hub of this test's own."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from llgtrt import hub
from llgtrt.settings import StartError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "tiny-Q8_0.gguf": b"eight bits" * 1000,
    "tiny-Q4_K_M.gguf": b"four bits" * 1_300_000,
    "big/tiny-F16-00001-of-00002.gguf": b"first",
    "big/tiny-F16-00002-of-00002.gguf": b"second",
    "README.md": b"#",
}


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as downloads need; every request is noted."""

    asked: list[tuple[str, str | None]] = []  # noqa: RUF012 (one for all of the server's handlers)
    lists_only = False
    """It tells which files there are, and is away from then on."""
    breaks_at: int | None = None
    """The byte of the next file before which the connection breaks."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append((f"{self.command} {path}", self.headers.get("range")))
        if path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": name} for name in FILES]
            facts = {"id": "org/tiny", "modelId": "org/tiny", "sha": COMMIT, "siblings": siblings}
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
                for name, data in FILES.items()
            ]
            self.answer(200, json.dumps(tree if "/tree/" in path else facts).encode(), "application/json")
            if self.lists_only:
                self.server.shutdown()
                self.server.server_close()
        elif path.startswith("/org/tiny/resolve/") and path.split("/", 5)[5] in FILES:
            self.file(FILES[path.split("/", 5)[5]])
        else:
            self.send_response(404)
            self.send_header("x-error-code", "RepoNotFound")
            self.send_header("content-length", "0")
            self.end_headers()

    def file(self, data: bytes) -> None:
        begin = int((self.headers.get("range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.answer(206 if begin else 200, data[begin:], "application/octet-stream", len(data))

    def answer(self, status: int, body: bytes, kind: str, total: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-repo-commit", COMMIT)
        if total is not None:
            self.send_header("etag", f'"{total}"')
            self.send_header("accept-ranges", "bytes")
            self.send_header("content-range", f"bytes {total - len(body)}-{total - 1}/{total}")
        self.end_headers()
        if self.command == "GET" and total is not None and Hub.breaks_at is not None:
            body, Hub.breaks_at, self.close_connection = body[: Hub.breaks_at], None, True
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    Hub.asked.clear()
    Hub.lists_only, Hub.breaks_at = False, None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def environment(endpoint: str, home: Path) -> dict[str, str]:
    """Of a process that has this hub, or none."""
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"}
    own |= {"HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(Path(hub.__file__).parents[1])}
    return os.environ | own | ({} if endpoint else {"HF_HUB_OFFLINE": "1"})


def fetch(endpoint: str, home: Path, *names: str) -> list[str]:
    """What each name comes to, in a process of its own: the library reads its settings once."""
    code = """
import sys
from llgtrt import hub
from llgtrt.settings import StartError
for name in sys.argv[1:]:
    try:
        print(hub.fetch(name))
    except StartError as e:
        print(f"refused: {e}")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        env=environment(endpoint, home),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_downloads_are_kept(endpoint: str, tmp_path: Path) -> None:
    first, eight, split = fetch(endpoint, tmp_path, "org/tiny", "org/tiny:q8_0", "org/tiny:F16")
    assert Path(first).name == "tiny-Q4_K_M.gguf"
    assert Path(first).read_bytes() == FILES["tiny-Q4_K_M.gguf"]
    assert Path(eight).read_bytes() == FILES["tiny-Q8_0.gguf"]
    assert Path(split).name == "tiny-F16-00001-of-00002.gguf"
    assert Path(split).with_name("tiny-F16-00002-of-00002.gguf").read_bytes() == b"second"
    downloads = sum(asked.startswith("GET /org/tiny/resolve/") for asked, _ in Hub.asked)
    assert downloads == 4
    assert fetch(endpoint, tmp_path, "org/tiny:Q8_0") == [eight]
    assert sum(asked.startswith("GET /org/tiny/resolve/") for asked, _ in Hub.asked) == downloads
    # The same from the cache, where the hub is away: all of a model, or nothing.
    assert fetch("", tmp_path, "org/tiny:Q8_0", "org/tiny", "org/tiny:F16") == [eight, first, split]
    Path(split).with_name("tiny-F16-00002-of-00002.gguf").unlink()
    (half,) = fetch("", tmp_path, "org/tiny:F16")
    assert "refused: -hf org/tiny:F16: the hub cannot be reached" in half


def test_a_hub_that_goes_away_between_list_and_file(endpoint: str, tmp_path: Path) -> None:
    Hub.lists_only = True
    said = fetch(endpoint, tmp_path, "org/tiny")
    assert "refused: -hf org/tiny: the hub cannot be reached" in said[0]


def test_a_download_goes_on_where_it_broke_off(endpoint: str, tmp_path: Path) -> None:
    # The library writes 10 MiB at a time.
    Hub.breaks_at = 11_000_000
    (first,) = fetch(endpoint, tmp_path, "org/tiny")
    assert Path(first).read_bytes() == FILES["tiny-Q4_K_M.gguf"]
    assert "bytes=10485760-" in [span for _, span in Hub.asked]


def test_a_pair_of_models_is_served_from_the_hub(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = Path(__file__).parents[2] / "demo"
    for name, folder in ("tiny-Q4_K_M.gguf", "target"), ("tiny-Q8_0.gguf", "draft"):
        monkeypatch.setitem(FILES, name, (demo / folder / "model.gguf").read_bytes())
    line = f"{sys.executable} -m llgtrt serve -hf org/tiny -hfd org/tiny:Q8_0 --port 0"
    own = environment(endpoint, tmp_path)
    with subprocess.Popen(line.split(), env=own, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        log = []
        for line in server.stderr:
            log.append(line)
            if "ready: " in line:
                server.terminate()
    said = "".join(log)
    assert "ready: tiny-Q4_K_M at http://127.0.0.1:" in said, said
    assert "HTTP Request" not in said
    assert "speculation: forced, prompt_lookup, prediction, grammar, draft_model draft" in said
    assert server.returncode == 0


def test_what_cannot_be_had(endpoint: str, tmp_path: Path) -> None:
    said = fetch(endpoint, tmp_path, "org/none", "org/tiny:Q2_K")
    assert "refused: -hf org/none: the hub has no such model" in said[0]
    assert "no file of Q2_K; there are big/tiny-F16-00001-of-00002.gguf, " in said[1]
    away = fetch("", tmp_path / "empty", "org/tiny")
    assert "refused: -hf org/tiny: the hub cannot be reached" in away[0]


@pytest.mark.parametrize(
    ("there", "quantisation", "files"),
    [
        (["a-Q8_0.gguf", "a-Q4_K_M.gguf", "mmproj-Q4_K_M.gguf"], "", ["a-Q4_K_M.gguf"]),
        (["a-Q8_0.gguf", "a-Q4_K_S.gguf"], "", ["a-Q8_0.gguf"]),
        (["a-F16.gguf"], "", ["a-F16.gguf"]),
        (["a-IQ4_XS.gguf", "a-Q4_K_M.gguf"], "iq4_xs", ["a-IQ4_XS.gguf"]),
        (["Q6_K/a-00001-of-00002.gguf", "Q6_K/a-00002-of-00002.gguf", "a-Q8_0.gguf"], "Q6_K", None),
    ],
)
def test_which_file(there: list[str], quantisation: str, files: list[str] | None) -> None:
    assert hub.choose(there, quantisation, "org/a") == (files or there[:2])


def test_what_is_not_there() -> None:
    with pytest.raises(StartError, match=r"a-00001-of-00002\.gguf is missing"):
        hub.choose(["a-00002-of-00002.gguf"], "", "org/a")
    with pytest.raises(StartError, match=r"no \.gguf file"):
        hub.choose(["model.safetensors"], "", "org/a")
