"""Spans of requests, sent to a receiver of OTLP over HTTP, and what the environment says about them."""

from __future__ import annotations

import contextlib
import http.server
import importlib
import importlib.util
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llgtrt import spans
from llgtrt.settings import StartError

from .serving import COMMAND, PACKAGE, PATIENCE, PYTHON, Server, serving, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JSON = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Receiver:
    """Takes spans as a collector does."""

    def __init__(self) -> None:
        service = importlib.import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        self.spans: list[Any] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                sent = service.ExportTraceServiceRequest()
                sent.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
                for group in sent.resource_spans:
                    named = {a.key: a.value.string_value for a in group.resource.attributes}
                    receiver.services.add(named["service.name"])
                    receiver.spans += [span for scope in group.scope_spans for span in scope.spans]
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def trace(self, request: str) -> dict[str, Any]:
        """The spans of a request by name, once that of the request itself is there; it is `request`."""
        for _ in until():
            spans = list(self.spans)
            root = next((s for s in spans if attributes(s).get("llgtrt.request_id") == request), None)
            if root is not None:
                children = {s.name: s for s in spans if s.parent_span_id == root.span_id}
                return {**children, "request": root}
        raise AssertionError("no span")


def attributes(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    pytest.importorskip("opentelemetry.proto", reason="skipped: no opentelemetry")
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.fixture(name="receiver", scope="module")
def fixture_receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(name="server", scope="module")
def fixture_server(receiver: Receiver) -> Iterator[Server]:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with serving(environment=asked) as server:
        yield server.wait_ready()


def chat(server: Server, request: str, **more: Any) -> Any:
    body = {"messages": [{"role": "user", "content": "secret words"}], "max_tokens": 20, "seed": 1, **more}
    headers = {"x-request-id": request, **more.pop("headers", {})}
    body.pop("headers", None)
    return server.http.post("/v1/chat/completions", json=body, headers=headers)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_has_spans_in_the_order_of_what_it_goes_through(
    server: Server, receiver: Receiver, stream: bool
) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": JSON}}
    request = f"parts-{stream}"
    assert chat(server, request, response_format=schema, stream=stream).status_code == 200
    spans = receiver.trace(request)
    root = spans.pop("request")
    assert (root.name, root.kind, len(root.parent_span_id)) == ("POST /v1/chat/completions", 2, 0)
    assert spans.keys() == {"compile", "queue", "prompt", "decode"}
    ordered = [spans[name] for name in ("compile", "queue", "prompt", "decode")]
    # Each begins where the one before it ends; a nanosecond may be lost in rounding.
    for before, after in itertools.pairwise(ordered):
        assert abs(after.start_time_unix_nano - before.end_time_unix_nano) < 1000
    assert all(span.trace_id == root.trace_id for span in ordered)
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in ordered)
    told = attributes(root)
    assert told["http.response.status_code"] == 200
    assert told["http.route"] == "/v1/chat/completions"
    assert told["gen_ai.usage.input_tokens"] > 0
    assert 0 < told["gen_ai.usage.output_tokens"] <= 20
    assert receiver.services == {"llgtrt"}
    assert not any("secret" in str(span) for span in receiver.spans)


def test_the_clients_trace_goes_on(server: Server, receiver: Receiver) -> None:
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert chat(server, "traced", headers=parent).status_code == 200
    spans = receiver.trace("traced")
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["request"].parent_span_id.hex() == PARENT
    assert "compile" not in spans
    # A client that does not sample its trace gets no spans.
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert chat(server, "unsampled", headers=unsampled).status_code == 200
    assert chat(server, "after").status_code == 200
    receiver.trace("after")
    assert not any(attributes(s).get("llgtrt.request_id") == "unsampled" for s in receiver.spans)


def test_what_is_refused_has_a_span_and_pages_for_operators_have_none(
    server: Server, receiver: Receiver
) -> None:
    assert chat(server, "wrong", temperature=9).status_code == 400
    wrong = attributes(receiver.trace("wrong")["request"])
    assert wrong["http.response.status_code"] == 400
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "strin"}}}
    assert chat(server, "unenforceable", response_format=schema).status_code == 400
    receiver.trace("unenforceable")
    for path in ("/ready", "/metrics", "/"):
        server.http.get(path)
    chat(server, "last")
    receiver.trace("last")
    assert all("/v1/" in span.name for span in receiver.spans if span.kind == 2)


def test_the_variables_that_are_usual_are_read() -> None:
    with receiving() as receiver:
        asked = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": receiver.url + "/v1/traces",
            "OTEL_SERVICE_NAME": "drafting",
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
        }
        with serving(environment=asked) as server:
            server.wait_ready()
            assert chat(server, "named").status_code == 200
            assert server.stop() == 0
        # What is left is sent when the server ends.
        receiver.trace("named")
        assert receiver.services == {"drafting"}


@pytest.mark.parametrize(
    "off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}], ids=lambda off: next(iter(off))
)
def test_it_can_be_switched_off(off: dict[str, str]) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with serving(environment=endpoint | off) as server:
        assert chat(server.wait_ready(), "off").status_code == 200
        assert "opentelemetry" not in server.log()


def start(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A start that fails before anything is loaded."""
    variables = {"PYTHONPATH": f"{folder}:{PACKAGE}", "PATH": "/usr/bin:/bin", **environment}
    command = [PYTHON, *COMMAND, "serve", "toy", "--port", "0"]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: is zipkin; it must be one of otlp, console, none",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: is grpc; only http/protobuf is supported (port 4318)",
        ),
    ],
)
def test_what_cannot_be_done_is_said_at_the_start(
    environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    ended = start(environment, tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_missing_packages_are_named(tmp_path: Path) -> None:
    # A module in the place of the package, which has no others within.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['opentelemetry.sdk'] = None\nsys.modules['opentelemetry.exporter'] = None\n"
    )
    ended = start({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, tmp_path)
    assert ended.returncode == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in ended.stderr
    assert "pip install 'llgtrt[otel]'" in ended.stderr


def test_a_fastapi_without_spans_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StartError, match="this FastAPI makes no spans: pip install"):
        spans.exporter()


def test_without_the_variables_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, llgtrt.app, llgtrt.spans\n"
        "assert llgtrt.spans.provider() is None\n"
        "parts = ('opentelemetry.sdk', 'opentelemetry.exporter')\n"
        "assert not [name for name in sys.modules if name.startswith(parts)]"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": PACKAGE}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
