"""Traces for OpenTelemetry, sent where OTEL_EXPORTER_OTLP_ENDPOINT says.

A span has a name from a closed set and a duration: never an address, a header, a parameter of SQL or a text that
somebody wrote. That is why neither FastAPI's spans nor the instrumentations of libraries are used, and why the
provider is not the global one, which would switch FastAPI's on. Without a collector nothing is imported.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
HEADER = "traceparent"
FLUSH_S = 1.0
"""Seconds that the end of a process waits for the collector to take the last spans."""

_tracer: Tracer | None = None


def start(service: str) -> bool:
    """Begin to trace this process if a collector is named, and return whether it is traced.

    service: Name of the process in the traces, unless OTEL_SERVICE_NAME has one.
    """
    global _tracer
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    named = [name for name in ENDPOINTS if os.environ.get(name)]
    if is_off or not named or _tracer is not None:
        return _tracer is not None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning('%s is set, but traces need: pip install "muster-train[otel]"', named[0])
        return False
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or service})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # A queue of bounded length, emptied by a thread: spans that a slow collector leaves no room for are dropped.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    is_over = threading.Event()

    def flush() -> None:
        is_over.wait()
        provider.shutdown()

    # Begun now, for a process that ends can start no thread.
    flusher = threading.Thread(target=flush, name="traces-flush", daemon=True)
    flusher.start()

    def end() -> None:
        is_over.set()
        flusher.join(FLUSH_S)

    atexit.register(end)
    _tracer = provider.get_tracer("muster", __version__)
    return True


@contextmanager
def span(
    name: str, *, kind: str = "INTERNAL", parent: Context | None = None
) -> Iterator[Span | None]:
    """Trace the block; gives the span, or None while nothing is traced.

    name: Of what is done, from a closed set. kind: Name of a `SpanKind`. parent: The span around it unless given.
    """
    if _tracer is None:
        yield None
        return
    from opentelemetry.trace import SpanKind, StatusCode

    with _tracer.start_as_current_span(
        name,
        context=parent,
        kind=SpanKind[kind],
        # Messages and tracebacks hold what people wrote.
        record_exception=False,
        set_status_on_exception=False,
    ) as found:
        try:
            yield found
        except Exception as error:
            found.set_attribute("error.type", type(error).__name__)
            found.set_status(StatusCode.ERROR)
            raise


def add(name: str, *, began_ns: int) -> None:
    """Add a call of another system that has just ended to the span around it; without one, do nothing."""
    if _tracer is None:
        return
    from opentelemetry.trace import SpanKind, get_current_span

    if get_current_span().is_recording():
        _tracer.start_span(name, kind=SpanKind.CLIENT, start_time=began_ns).end()


def here() -> Context | None:
    """Return the present place in a trace, for another thread; None while nothing is traced."""
    if _tracer is None:
        return None
    from opentelemetry.context import get_current

    return get_current()


def headers() -> dict[str, str]:
    """Return the header with which a receiver goes on with this trace."""
    if _tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    return {name: value for name, value in found.items() if name == HEADER}


def sender(traceparent: str | None) -> Context | None:
    """Return the place in a trace that a message came from; None for none, and while nothing is traced."""
    if _tracer is None or not traceparent:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({HEADER: traceparent})
