"""The cluster as Prometheus reads it: counted in the database when somebody scrapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

import redis
import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.services.core.liveness import last_backup_at
from muster_server.services.goodput.reading import slot_seconds_of_days
from muster_server.services.nodes.counts import (
    ClusterCounts,
    TrainingNow,
    count_cluster,
    size_bytes,
    training_now,
)
from muster_server.services.nodes.usage import figures_of_nodes

from . import families
from .families import Family
from .nodes import metrics_of_nodes

log = structlog.get_logger(__name__)

KEPT_S = 5.0
"""Seconds for which a count is reused, however many clients scrape, and however often."""
REDIS_TIMEOUT_S = 1.0


class ClusterCollector(Collector):
    """Counts for Prometheus. Threads may share it: one counts, the others wait for its result."""

    def __init__(
        self,
        database: Database,
        celery_queue_length: Callable[[], int | None] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the collector; `celery_queue_length` returns None if it is unknown."""
        self._database = database
        self._celery_queue_length = celery_queue_length
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counted: list[Metric] = []
        self._counted_at = -KEPT_S

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if self._monotonic() - self._counted_at >= KEPT_S:
                self._counted = self._count()
                self._counted_at = self._monotonic()
            return self._counted

    def describe(self) -> Iterable[Metric]:
        """Yield names alone: registering must not need the database."""
        return [
            GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for family in families.FAMILIES
            if family.is_of_the_cluster
        ]

    def _count(self) -> list[Metric]:
        found: list[Metric] = []
        if self._celery_queue_length is not None:
            length = self._celery_queue_length()
            if length is not None:
                found.append(_one(families.CELERY_QUEUE, length))
        try:
            with self._database.read() as session:
                counts = count_cluster(session, now=clock.now())
                backup_at = last_backup_at(session)
                size = size_bytes(self._database, session)
                training = training_now(session)
                slot_seconds = slot_seconds_of_days(session, days=7, now=clock.now())
                nodes, left_out = figures_of_nodes(session, limit=families.NODES_MAX)
        except (SQLAlchemyError, OSError) as error:
            log.warning("cluster_not_counted", error=type(error).__name__)
            return [_one(families.DATABASE_UP, 0), *found]
        return [
            _one(families.DATABASE_UP, 1),
            _one(families.DATABASE_SIZE, size),
            *([_one(families.LAST_BACKUP, backup_at.timestamp())] if backup_at else []),
            *_metrics(counts),
            *_metrics_of_training(training),
            _by(families.SLOT_SECONDS, slot_seconds),
            *metrics_of_nodes(nodes),
            _one(families.NODES_LEFT_OUT, left_out),
            *found,
        ]


def redis_list_length(redis_url: str, key: str) -> Callable[[], int | None]:
    """Return a function for the length of a list in Redis; None while Redis does not answer."""
    connection = redis.Redis.from_url(
        redis_url, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
    )

    def ask() -> int | None:
        try:
            return int(connection.llen(key))
        except (redis.RedisError, OSError):
            return None

    return ask


def _metrics(counts: ClusterCounts) -> list[Metric]:
    return [
        _by(families.NODES, counts.nodes),
        _by(families.NODES_SCHEDULING, counts.nodes_scheduling),
        _by(families.NODES_HEALTH, counts.nodes_health),
        _slots(counts),
        _one(families.QUEUE_LENGTH, counts.queue_length),
        _one(families.QUEUE_OLDEST_WAIT, counts.oldest_wait_s),
        _by(families.TRIALS, counts.trials),
        _by(families.EXPERIMENTS, counts.experiments),
        _one(families.CONTROLLER_LED, counts.is_led),
        _one(families.CONTROLLER_EPOCH, counts.controller_epoch),
        _one(families.WORKER_ALIVE, counts.is_worker_alive),
    ]


def _metrics_of_training(training: TrainingNow) -> list[Metric]:
    measured = {
        families.TRAINING_SAMPLES: training.samples_per_s,
        families.TRAINING_COMMUNICATION: training.comm_ratio,
    }
    return [_one(family, value) for family, value in measured.items() if value is not None]


def _one(family: Family, value: float) -> Metric:
    return GaugeMetricFamily(family.name, family.help, value=value)


def _by(family: Family, counts: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for value, number in counts.items():
        metric.add_metric([value], number)
    return metric


def _slots(counts: ClusterCounts) -> Metric:
    shown = sorted({pool for pool, _, _ in counts.slots})[: families.POOLS_MAX]
    sums: dict[tuple[str, str, str], int] = {}
    for (pool, slot_type, use), number in counts.slots.items():
        key: tuple[str, str, str] = (pool if pool in shown else families.OTHER, slot_type, use)
        sums[key] = sums.get(key, 0) + number
    family = families.SLOTS
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for values, number in sorted(sums.items()):
        metric.add_metric(list(values), number)
    return metric
