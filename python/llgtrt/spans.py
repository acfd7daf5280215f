"""Spans of requests by OpenTelemetry, if the environment asks for them (docs/operation.md#traces).

FastAPI makes the span of the HTTP request, and reads `traceparent`. What the engine's events say is added
here.
"""

from __future__ import annotations

import importlib.util
import os
import time
from typing import TYPE_CHECKING

from llgtrt.settings import StartError

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from llgtrt.engine import Generation

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTERS = ("otlp", "console", "none")


def _setting(*names: str) -> tuple[str, str] | None:
    """The first of these variables that is set, and its value; an empty one counts as unset."""
    found = ((name, os.environ.get(name, "").strip()) for name in names)
    return next(((name, value) for name, value in found if value), None)


def exporter() -> str | None:
    """Which exporter the environment asks for; None if for none.

    Raises:
        StartError: it asks for one that there is not, or the packages are missing.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    chosen = _setting("OTEL_TRACES_EXPORTER")
    if chosen is not None and chosen[1] not in _EXPORTERS:
        raise StartError(f"{chosen[0]}: is {chosen[1]}; it must be one of {', '.join(_EXPORTERS)}")
    asked = chosen or _setting(*_ENDPOINTS)
    if asked is None or (chosen is not None and chosen[1] == "none"):
        return None
    protocol = _setting(*_PROTOCOLS)
    if protocol is not None and protocol[1] != "http/protobuf":
        raise StartError(f"{protocol[0]}: is {protocol[1]}; only http/protobuf is supported (port 4318)")
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401 (whether both are there)
    except ImportError as e:
        raise StartError(
            f"{asked[0]} is set, but the packages that export traces are missing ({e.name}): "
            "pip install 'llgtrt[otel]', or set OTEL_SDK_DISABLED=true"
        ) from e
    if importlib.util.find_spec("fastapi.telemetry") is None:
        # Beside vLLM there may be one that makes no spans.
        raise StartError(
            f"{asked[0]} is set, but this FastAPI makes no spans: pip install 'llgtrt[otel]', or set "
            "OTEL_SDK_DISABLED=true"
        )
    return chosen[1] if chosen is not None else "otlp"


def provider() -> TracerProvider | None:
    """What exports spans as the environment says; None if it asks for none, and then nothing is imported.

    Raises:
        StartError: as `exporter` does.
    """
    kind = exporter()
    if kind is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    # The variables win: attributes given here would come before them.
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or _setting("OTEL_SERVICE_NAME")
    made = TracerProvider(resource=Resource.create({} if named else {"service.name": "llgtrt"}))
    target: SpanExporter = ConsoleSpanExporter() if kind == "console" else OTLPSpanExporter()
    made.add_span_processor(BatchSpanProcessor(target))
    return made


def telemetry(own: TracerProvider | None) -> TelemetryConfig:
    """What FastAPI records: the span of each request to the API, and nothing else."""
    from llgtrt.openai import openapi

    return {
        "tracing": own is not None,
        "tracer_provider": own,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": lambda scope: not openapi.guarded(scope["path"]),
    }


class Spans:
    """Adds to the span of a request what is known of its generation when the answer ends."""

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        self._app = app
        self._tracer = provider.get_tracer("llgtrt")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        from opentelemetry import trace

        span = trace.get_current_span()
        if not span.is_recording():
            await self._app(scope, receive, send)
            return
        written = False

        def write() -> None:
            nonlocal written
            if not written:
                written = True
                self._write(span, scope)

        async def ending_send(message: Message) -> None:
            # FastAPI ends its span with the last part of the body.
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                write()
            await send(message)

        try:
            await self._app(scope, receive, ending_send)
        finally:
            write()

    def _write(self, span: Span, scope: Scope) -> None:
        from opentelemetry import trace

        span.set_attribute("llgtrt.request_id", scope["request_id"])
        generation: Generation | None = scope.get("generation")
        if generation is None:
            return
        usage = generation.usage()
        span.set_attributes(
            {
                "gen_ai.usage.input_tokens": usage.prompt,
                "gen_ai.usage.output_tokens": usage.completion,
                "llgtrt.cached_tokens": usage.cached,
                "llgtrt.choices": generation.choices,
                "llgtrt.drafted_tokens": sum(n for (_, fate), n in usage.drafts.items() if fate == "drafted"),
                "llgtrt.accepted_tokens": sum(
                    n for (_, fate), n in usage.drafts.items() if fate == "accepted"
                ),
            }
        )
        context = trace.set_span_in_context(span)
        # Durations are measured by the monotonic clock, and spans have times of the calendar's.
        offset = time.time() - time.monotonic()
        for name, begin, end in parts(generation, time.monotonic()):
            times = (int((at + offset) * 1e9) for at in (begin, end))
            self._tracer.start_span(name, context, start_time=next(times)).end(next(times))


def parts(generation: Generation, now: float) -> list[tuple[str, float, float]]:
    """(name, begin, end) of what a generation went through, by the monotonic clock.

    `compile` and `queue` are measured by the engine, `prompt` and `decode` by the arrival of its events here.
    """
    begun, first = generation.begun, generation.first
    if first is None and not generation.queued:
        # Nobody has said that it was admitted.
        return [("queue", begun, now)]
    compiled = begun + generation.compiled
    admitted = max(begun + (generation.queued or 0.0), compiled)
    computed = max(generation.last if first is None else first, admitted)
    found = [("compile", begun, compiled)] if generation.compiled else []
    found += [("queue", compiled, admitted), ("prompt", admitted, computed)]
    return found if first is None else [*found, ("decode", computed, max(generation.last, computed))]
