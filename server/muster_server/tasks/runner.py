"""The Celery worker as a process: a pool of threads, the beat inside it, an orderly end.

Threads, because tasks wait for the database, and because a database engine, the lifeline and a
forked child do not go together. The beat is a thread too: as a process of its own it would outlive
a worker that was killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import Any

import structlog
from celery import beat, signals  # type: ignore[import-untyped]
from sqlalchemy.exc import DBAPIError

from muster.launch import lifeline, traces
from muster_server import longlived
from muster_server.db.engine import Database
from muster_server.db.failures import is_unavailable
from muster_server.db.tables import require_tables
from muster_server.settings import Settings
from muster_server.telemetry.process import WorkerTelemetry

log = structlog.get_logger(__name__)

NUM_THREADS = 4
OUTCOMES = {"SUCCESS": "success", "FAILURE": "failure", "RETRY": "retry"}
"""Labels of Celery's states in metrics."""
STOP_GRACE_S = 20.0
"""Seconds after which a worker whose lifeline is cut is ended by force."""


def worker_arguments(settings: Settings) -> list[str]:
    """Return the arguments of `celery worker`."""
    return [
        "worker",
        "--pool=threads",
        f"--concurrency={NUM_THREADS}",
        "--without-mingle",
        "--without-gossip",
        "--without-heartbeat",
        f"--loglevel={settings.log_level}",
    ]


def run(settings: Settings, telemetry: WorkerTelemetry | None = None) -> None:
    """Run the worker in the main thread until it is told to stop (SIGTERM, SIGINT, lifeline cut).

    `settings` must be those of the environment: the tasks read theirs from there.
    Raises ValueError when no Redis is configured, and SchemaMismatch when the database does not have
    this version's tables. One that is away is waited for: the sweep needs it, not the start.
    """
    from muster_server.tasks import app

    app.broker_url(settings.resolved_redis_url())
    _require_tables(app.get_database())
    lifeline.watch(_stop)
    signals.setup_logging.connect(_keep_logging, weak=False)
    signals.worker_ready.connect(_settle, weak=False)
    signals.worker_ready.connect(_start_beat, weak=False)
    telemetry = telemetry or WorkerTelemetry()
    telemetry.watch_pool(app.get_database())
    _measure(telemetry)
    try:
        app.celery.worker_main(worker_arguments(settings))
    finally:
        app.get_database().dispose()


def _require_tables(database: Database) -> None:
    try:
        require_tables(database)
    except DBAPIError as error:
        if not is_unavailable(error):
            raise
        log.warning("database_unavailable", error=str(error).splitlines()[0])


def _measure(telemetry: WorkerTelemetry) -> None:
    """Count, time and trace every task of this process."""
    began: dict[str, float] = {}
    spans: dict[str, ExitStack] = {}

    def ready(**_: Any) -> None:
        telemetry.takes_jobs = True

    def ending(**_: Any) -> None:
        telemetry.takes_jobs = False

    def publishing(headers: dict[str, Any], **_: Any) -> None:
        headers.update(traces.headers())

    def before(task_id: str, task: Any, **_: Any) -> None:
        began[task_id] = time.perf_counter()
        spans[task_id] = stack = ExitStack()
        parent = traces.sender(task.request.get(traces.HEADER))
        stack.enter_context(traces.span(task.name, kind="CONSUMER", parent=parent))
        telemetry.task_began()

    def after(task_id: str, task: Any, state: str | None, **_: Any) -> None:
        seconds = time.perf_counter() - began.pop(task_id, time.perf_counter())
        spans.pop(task_id, ExitStack()).close()
        outcome = OUTCOMES.get(state or "", "failure")
        telemetry.task_ended(task.name, outcome, seconds)

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(ending, weak=False)
    signals.before_task_publish.connect(publishing, weak=False)
    signals.task_prerun.connect(before, weak=False)
    signals.task_postrun.connect(after, weak=False)


def _keep_logging(**_: Any) -> None:
    """Keep Celery from setting up logging itself, which it does unless this signal has a receiver."""


def _settle(**_: Any) -> None:
    longlived.settle()


def _start_beat(sender: Any, **_: Any) -> None:
    from muster_server.tasks import app

    service = beat.Service(
        app.celery,
        max_interval=5,
        # Holds its schedule in memory: what is due is decided by the database, not by a file.
        scheduler_cls="celery.beat:Scheduler",
        remote_control=False,
    )

    def tick() -> None:
        app.celery.set_current()
        service.start()

    threading.Thread(target=tick, name="beat", daemon=True).start()
    signals.worker_shutting_down.connect(lambda **_: service.stop(), weak=False)
    # The schedule's first tick is one interval away; what was left over need not wait for it.
    app.sweep.apply_async(expires=60)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)  # Celery's handler: finish what runs, take nothing new
    time.sleep(STOP_GRACE_S)
    os._exit(1)
