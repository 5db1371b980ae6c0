"""The instruments of each process. One registry per process, so that tests may run many in one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import QueuePool

from muster import __version__, wire
from muster_server.db.engine import Database

from . import families
from .families import Family, Process

# When a counter was made is a series of its own per counter, which nobody reads.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "(none)"


class Telemetry:
    """Metrics of every process. Threads: may be shared."""

    def __init__(self, process: Process, database: Database | None = None) -> None:
        """Create the registry; `database` may be set later, with `watch_pool`."""
        self.process = process
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.gauge(families.BUILD_INFO).labels(__version__, process).set(1)
        if database is not None:
            self.watch_pool(database)

    def render(self) -> bytes:
        """Return the text that Prometheus reads (version 1.0.0 of the exposition format)."""
        return prometheus_client.generate_latest(self.registry)

    def watch_pool(self, database: Database) -> None:
        """Report this database's connections. Call it once."""
        self.registry.register(_PoolCollector(database))

    def counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def histogram(self, family: Family) -> Histogram:
        return Histogram(
            family.name, family.help, family.labels, registry=self.registry, buckets=family.buckets
        )


class ServerTelemetry(Telemetry):
    """Metrics of an API server."""

    def __init__(self) -> None:
        super().__init__("server")
        self._requests = self.counter(families.HTTP_REQUESTS)
        self._durations = self.histogram(families.HTTP_DURATION)
        self._in_progress = self.gauge(families.HTTP_IN_PROGRESS)
        self._records = self.counter(families.INGEST_RECORDS)
        self._rows = self.counter(families.INGEST_ROWS)
        self._points = self.counter(families.INGEST_POINTS)
        self._bytes = self.counter(families.INGEST_BYTES)

    def watch_connections(
        self, num_live: Callable[[], int], is_redis_connected: Callable[[], bool] | None
    ) -> None:
        """Report live channels, and Redis if there is one. Call it once."""
        self.gauge(families.LIVE_CONNECTIONS).set_function(num_live)
        if is_redis_connected is not None:
            self.gauge(families.REDIS_CONNECTED).set_function(is_redis_connected)

    def request_began(self) -> None:
        self._in_progress.inc()

    def request_ended(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request.

        route: the template, never an address somebody made up.
        status: 0 if the caller left."""
        self._in_progress.dec()
        method = method if method in METHODS else families.OTHER
        route = route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._durations.labels(method, route).observe(seconds)

    def took_records(self, applied: Iterable[wire.NumberedRecord], num_bytes: int) -> None:
        """Count records whose transaction has been committed, and the size of their request."""
        for numbered in applied:
            record = numbered.record
            self._records.labels(record.type).inc()
            if isinstance(record, wire.MetricsRecord):
                lengths = [len(series.steps) for series in record.series]
                self._rows.inc(max(lengths, default=0))
                self._points.inc(sum(lengths))
        self._bytes.labels("records").inc(num_bytes)

    def took_log(self, num_bytes: int) -> None:
        self._bytes.labels("logs").inc(num_bytes)


class ControllerTelemetry(Telemetry):
    """Metrics of a controller."""

    def __init__(self, database: Database | None = None) -> None:
        super().__init__("controller", database)
        self._leading = self.gauge(families.LEADING)
        self._leading.set(0)
        self._passes = self.histogram(families.PASS_DURATION)
        self._decisions = self.counter(families.DECISIONS)
        self._failures = self.counter(families.TICK_FAILURES)
        self._last_tick = self.gauge(families.LAST_PASS)
        self._last_tick_at: float | None = None

    @contextmanager
    def timed(self, loop: str) -> Iterator[Callable[[int], None]]:
        """Measure a pass; call what it yields with the number of decisions that took effect."""
        with self._passes.labels(loop).time():
            yield lambda num: self._decisions.labels(loop).inc(num)

    def ticked(self, *, is_leading: bool) -> None:
        self._leading.set(is_leading)
        self._last_tick.set_to_current_time()
        self._last_tick_at = time.monotonic()

    def has_ticked_within(self, seconds: float) -> bool:
        """Return whether a round has ended successfully within that time."""
        return self._last_tick_at is not None and time.monotonic() - self._last_tick_at <= seconds

    def tick_failed(self, cause: str) -> None:
        """Count a failed tick; `cause` is database or other."""
        self._leading.set(0)
        self._failures.labels(cause).inc()


class WorkerTelemetry(Telemetry):
    """Metrics of a Celery worker."""

    def __init__(self, database: Database | None = None) -> None:
        super().__init__("worker", database)
        self._tasks = self.counter(families.TASKS)
        self._durations = self.histogram(families.TASK_DURATION)
        self._in_progress = self.gauge(families.TASKS_IN_PROGRESS)
        self.takes_jobs = False
        """Whether the worker consumes from the queue."""

    def task_began(self) -> None:
        self._in_progress.inc()

    def task_ended(self, task: str, outcome: str, seconds: float) -> None:
        """Count a task; `outcome` is success, failure or retry."""
        self._in_progress.dec()
        self._tasks.labels(task, outcome).inc()
        self._durations.labels(task).observe(seconds)


class _PoolCollector(Collector):
    """Collector of the connection pool, queried only by a scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[Metric]:
        pool = self._database.engine.pool
        if not isinstance(pool, QueuePool):
            return
        family = families.POOL_CONNECTIONS
        connections = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        connections.add_metric(["in_use"], pool.checkedout())
        connections.add_metric(["idle"], pool.checkedin())
        yield connections
        most = families.POOL_MAX
        yield GaugeMetricFamily(most.name, most.help, value=self._database.max_connections)
