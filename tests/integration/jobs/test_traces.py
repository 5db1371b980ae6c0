"""Traces of OpenTelemetry, from a command and from an agent down to SQL, and a collector that is away."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.stack import Stack, scripted, wait_for

CANARY = "canary-5f3a"


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    attributes: tuple[str, ...]


@dataclass
class Collector:
    url: str = ""
    raw: list[bytes] = field(default_factory=list)
    spans: dict[bytes, ReceivedSpan] = field(default_factory=dict)

    def take(self, body: bytes) -> None:
        self.raw.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            found = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.span_id] = ReceivedSpan(
                        service=found["service.name"],
                        name=span.name,
                        trace=span.trace_id,
                        id=span.span_id,
                        parent=span.parent_span_id,
                        attributes=tuple(one.key for one in span.attributes),
                    )

    def chains(self) -> set[str]:
        """Each span with those around it, from the outermost to it."""
        return {" > ".join(self._chain(span)) for span in list(self.spans.values())}

    def _chain(self, span: ReceivedSpan) -> list[str]:
        around = self.spans.get(span.parent)
        before = self._chain(around) if around is not None and around.trace == span.trace else []
        return [*before, f"{span.service}: {span.name}"]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector until the end of the block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def submit(stack: Stack, folder: Path, name: str) -> float:
    """Run a job to its end; return the seconds that its submission took."""
    document = folder / "code" / "experiment.yaml"
    document.parent.mkdir()
    document.write_text(scripted(name, [{"log": "done"}]))
    began = time.monotonic()
    done = stack.cli("submit", str(document))
    assert done.returncode == 0, done.stderr
    assert "opentelemetry" not in done.stderr.lower()
    took = time.monotonic() - began
    with stack.client() as client:
        (experiment,) = client.pages("/experiments", q=name)
        assert client.wait(experiment["id"], timeout_s=60)["state"] == "COMPLETED"
    return took


def test_one_trace_goes_from_a_command_and_from_an_agent_to_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        stack = Stack(tmp_path / "home", agents=1, environment={})
        try:
            stack.start()
            submit(stack, tmp_path, CANARY)
            wanted = [
                "muster: POST > muster-server: POST /api/v1/experiments > muster-server: INSERT experiments",
                "muster-agent: POST > muster-server: POST /agent/v1/allocations/{allocation_id}/records > muster-server: agents-write > muster-server: ",
                "muster-controller: pass > muster-controller: scheduler > muster-controller: INSERT allocations",
                "muster-worker: muster.sweep > muster-worker: SELECT ",
            ]

            def missing() -> list[str]:
                chains = collector.chains()
                return [w for w in wanted if not any(c.startswith(w) for c in chains)]

            wait_for("all traces have come", lambda: not missing())
        finally:
            stack.close()
    everything = b"".join(collector.raw)
    secrets = [CANARY, stack.access["token"], "support.nodes.scripted", str(tmp_path), "127.0.0.1"]
    assert [one for one in secrets if one.encode() in everything] == []
    allowed = {"http.route", "http.response.status_code", "error.type"}
    assert {key for span in collector.spans.values() for key in span.attributes} <= allowed


def test_a_collector_that_hangs_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as hung:
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
        stack = Stack(tmp_path / "home", agents=1, environment={})
        try:
            stack.start()
            assert submit(stack, tmp_path, "not-held-up") < 20
            began = time.monotonic()
            assert stack.interrupt() == 0
            assert time.monotonic() - began < 20
        finally:
            stack.close()


OFF = """
import sys
import muster.cli.absent, muster.client, muster_agent.cli, muster_agent.client
import muster_server.app, muster_server.loops.runner, muster_server.tasks.runner
from muster.launch import traces
from muster_server.telemetry import traces as of_server
of_server.start("muster-server")
with traces.span("nothing") as span:
    assert (span, traces.headers(), traces.here(), traces.sender("00-1-1-01")) == (None, {}, None, None)
# FastAPI and the client of Redis import other parts of OpenTelemetry themselves, where they are installed.
assert [name for name in sys.modules if name.startswith("opentelemetry.exporter")] == []
"""


def test_without_a_collector_nothing_is_imported() -> None:
    environment = Stack.environment(Path("/nonexistent"))
    subprocess.run([sys.executable, "-c", OFF], check=True, env=environment)


def test_a_collector_without_the_packages_is_said() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None\nfrom muster.launch import traces\nprint(traces.start('x'))"
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**Stack.environment(Path("/nonexistent")), **environment},
    )
    assert done.stdout == "False\n"
    assert 'traces need: pip install "muster-train[otel]"' in done.stderr
