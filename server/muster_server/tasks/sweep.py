"""What the periodic sweep does. It derives everything from the database, every time."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.services import blobs, metrics_compaction, metrics_retention, retention

log = logging.getLogger(__name__)


def sweep_once(
    database: Database,
    now: dt.datetime,
    *,
    enqueue: Callable[[int], object],
    log_retention_days: int | None = None,
    metric_retention_days: int | None = None,
) -> list[int]:
    """Enqueue the compaction of every trial that is due, then delete what is of no use, and
    downsample what is old.

    Each part has a transaction of its own, and one that fails does not keep the others from
    running. Returns the trials enqueued.
    """
    with database.read() as session:
        due = metrics_compaction.due_trials(session, now)
    for trial_id in due:
        enqueue(trial_id)

    def old_logs(session: Session) -> None:
        if log_retention_days is not None:
            retention.delete_old_logs(session, now, days=log_retention_days)

    parts: list[Callable[[Session], object]] = [
        retention.delete_leftovers,
        lambda session: retention.delete_expired(session, now),
        lambda session: blobs.delete_unused(session, now),
        old_logs,
    ]
    for part in parts:
        try:
            with database.transaction() as session:
                part(session)
        except Exception:
            log.exception("sweep_part_failed")
    if metric_retention_days is not None:
        try:
            metrics_retention.downsample_old(database, now, days=metric_retention_days)
        except Exception:
            log.exception("downsampling_failed")
    return due
