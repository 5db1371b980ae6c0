"""The periodic sweep. It derives everything from the database, every time."""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from muster_server import parts
from muster_server.db.deleting import delete_all
from muster_server.db.engine import Database
from muster_server.security.encryption import KeyRing
from muster_server.services.core import blobs, retention
from muster_server.services.goodput import updating as goodput
from muster_server.services.goodput import weekly
from muster_server.services.metrics import compaction, cooling
from muster_server.services.metrics import retention as metrics_retention
from muster_server.services.notifications import retention as notification_retention
from muster_server.services.secrets import audit_retention

PART_S = 5.0
"""Seconds after which a part stops; the next sweep goes on."""

log = logging.getLogger(__name__)


def sweep_once(
    database: Database,
    now: dt.datetime,
    *,
    enqueue: Callable[[int], object],
    cool: Callable[[], object] | None = None,
    log_retention_days: int | None = None,
    metric_retention_days: int | None = None,
    metric_cold_days: int | None = None,
    audit_retention_days: int | None = None,
    keys: KeyRing | None = None,
) -> list[int]:
    """Enqueue the compaction of every trial that is due, delete what is of no use, downsample what
    is old, and account for slot-seconds.

    cool: enqueues the move of trials' points into files; None: there is no store for such files.
    Each part has transactions of its own, short ones, and one that fails does not keep the others
    from running. Returns the trials enqueued.
    """
    with database.read() as session:
        due = compaction.due_trials(session, now)
    for trial_id in due:
        enqueue(trial_id)

    steps: list[Callable[[Session, int], int]] = [
        retention.delete_leftovers,
        lambda session, limit: retention.delete_expired(session, now, limit),
        lambda session, limit: blobs.delete_unused(session, now, limit),
        lambda session, limit: notification_retention.delete_old(session, now, limit),
        lambda session, limit: retention.delete_old_logs(
            session, now, limit, days=log_retention_days
        ),
    ]
    steps += [
        functools.partial(_swept, sweep, now)
        for part in parts.installed()
        for sweep in part.sweeps()
    ]
    for step in steps:
        try:
            delete_all(database, step, budget_s=PART_S)
        except Exception:
            log.exception("sweep_part_failed")
    try:
        metrics_retention.downsample_old(database, now, days=metric_retention_days)
    except Exception:
        log.exception("downsampling_failed")
    if cool is not None:
        try:
            _keep_cold(database, now, cool, days=metric_cold_days)
        except Exception:
            log.exception("cold_metrics_failed")
    try:
        goodput.update_due(database, now, budget_s=PART_S)
    except Exception:
        log.exception("updating_ledgers_failed")
    try:
        weekly.send_due(database, now)
    except Exception:
        log.exception("weekly_summaries_failed")
    if audit_retention_days is not None:
        try:
            audit_retention.remove_old(
                database, now, days=audit_retention_days, keys=keys, budget_s=PART_S
            )
        except Exception:
            log.exception("removing_audit_records_failed")
    return due


def _keep_cold(
    database: Database, now: dt.datetime, cool: Callable[[], object], *, days: int | None
) -> None:
    """Have points leave the database where some are due, and delete files of no use."""
    if days is not None:
        with database.read() as session:
            due = cooling.due_trials(session, now, days=days)
        if due:
            cool()
    cooling.delete_unneeded(database, now)


def _swept(sweep: parts.Sweep, now: dt.datetime, session: Session, limit: int) -> int:
    return sweep(session, now, limit)
