"""The Celery application and its tasks.

The database is the truth; a task only makes things happen sooner. Each is short, can be run twice
and twice at once, and whatever a lost message would have done, the next sweep finds again. So the
broker may lose everything at any time.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import lru_cache
from typing import Any

from celery import Celery  # type: ignore[import-untyped]

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.live.publisher import Publisher
from muster_server.live.writes import KEY_PREFIX
from muster_server.security.encryption import key_ring_or_none
from muster_server.services.core.liveness import worker_sweeps
from muster_server.services.metrics import compaction, cooling
from muster_server.services.notifications import sending
from muster_server.settings import Settings, get_settings
from muster_server.tasks.names import QUEUE
from muster_server.tasks.sweep import sweep_once

COMPACT_MAX_PARTS = 128
"""Number of transactions of one task; what is left is found by the next sweep."""
VISIBILITY_TIMEOUT_S = 600
"""Seconds after which an unacknowledged task is delivered again: far longer than any runs."""

SENDERS_MAX = 2
"""Threads of a worker that send notifications at once. The others stay free for what is quick: a
receiver that does not answer occupies a thread for half a minute."""

COOLERS_MAX = 1
"""Threads of a worker that move points into files at once: a trial of 100 million takes minutes."""

_senders = threading.BoundedSemaphore(SENDERS_MAX)
_coolers = threading.BoundedSemaphore(COOLERS_MAX)


def broker_url(redis_url: str | None) -> str:
    """Return the URL as Celery's transport wants it. Raises ValueError without one."""
    if not redis_url:
        raise ValueError(
            "The Celery worker needs MUSTER_REDIS_URL (redis://…, rediss://… or unix:///path)."
        )
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url


def make_celery(settings: Settings) -> Celery:
    """Return the application: JSON only, acknowledged after the work, no result backend, nothing
    remote-controlled."""
    redis_url = settings.resolved_redis_url()
    app = Celery("muster", broker=broker_url(redis_url) if redis_url else "memory://")
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_default_queue=QUEUE,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,  # as where Redis refuses a write
        worker_consumer="muster_server.tasks.consumer:PatientConsumer",
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "socket_keepalive": True,
            "global_keyprefix": KEY_PREFIX,
        },
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        enable_utc=True,
        timezone="UTC",
        beat_schedule={
            "sweep": {
                "task": "muster.sweep",
                "schedule": settings.sweep_interval_s,
                # One that was not run in time is made superfluous by the next.
                "options": {"expires": max(10.0, settings.sweep_interval_s)},
            },
            "notify": {
                "task": "muster.notify",
                "schedule": settings.notify_interval_s,
                "options": {"expires": max(10.0, settings.notify_interval_s)},
            },
        },
    )
    return app


@lru_cache(maxsize=1)
def get_database() -> Database:
    """Return the one engine of the worker's threads."""
    settings = get_settings()
    redis_url = settings.resolved_redis_url()
    return Database(
        settings.resolved_database_url(),
        on_commit=Publisher(redis_url) if redis_url is not None else None,
    )


celery = make_celery(get_settings())


@celery.task(name="muster.compact_metrics")  # type: ignore[untyped-decorator]
def compact_metrics(trial_id: int) -> None:
    """Move a trial's uncompacted metrics into blocks."""
    compaction.compact_trial(
        get_database(), int(trial_id), clock.now(), max_parts=COMPACT_MAX_PARTS
    )


@celery.task(name="muster.cool_metrics")  # type: ignore[untyped-decorator]
def cool_metrics() -> None:
    """Move the points of trials that ended long ago into files, unless this process is at it already."""
    days = get_settings().metric_cold_days
    if days is None or not _coolers.acquire(blocking=False):
        return
    try:
        cooling.cool_due(get_database(), clock.now(), days=days)
    finally:
        _coolers.release()


@celery.task(name="muster.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Find what there is to compact, and delete what has expired."""
    settings = get_settings()
    with get_database().transaction() as session:
        worker_sweeps(
            session,
            holder=f"{socket.gethostname()}:{os.getpid()}",
            sweep_interval_s=settings.sweep_interval_s,
            now=clock.now(),
        )

    def enqueue(trial_id: int) -> Any:
        return compact_metrics.apply_async(
            (trial_id,), expires=max(10.0, settings.sweep_interval_s)
        )

    def cool() -> Any:
        return cool_metrics.apply_async(expires=max(10.0, settings.sweep_interval_s))

    sweep_once(
        get_database(),
        clock.now(),
        enqueue=enqueue,
        cool=cool if settings.metric_cold_url is not None else None,
        log_retention_days=settings.log_retention_days,
        metric_retention_days=settings.metric_retention_days,
        metric_cold_days=settings.metric_cold_days,
        audit_retention_days=settings.audit_retention_days,
        keys=key_ring_or_none(settings),
    )


@celery.task(name="muster.notify")  # type: ignore[untyped-decorator]
def notify() -> None:
    """Find the targets that notifications wait for."""
    with get_database().read() as session:
        due = sending.due_targets(session, clock.now())
    for target_id in due:
        send_notifications.apply_async((target_id,), expires=10.0)


@celery.task(name="muster.send_notifications")  # type: ignore[untyped-decorator]
def send_notifications(target_id: int) -> None:
    """Send what waits for a target. While other targets occupy the senders it is left to the next
    look."""
    if not _senders.acquire(blocking=False):
        return
    try:
        sending.send_waiting(get_database(), int(target_id), get_settings(), clock_now=clock.now)
    finally:
        _senders.release()
