"""Deleting what nobody needs any more, a bounded piece at a time."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    EventRow,
    ExperimentRow,
    ExportRow,
    FileDeletionRow,
    IdempotencyRow,
    JoinTokenRow,
    LogStreamRow,
    MetricBatchRow,
    NodeSampleRow,
    OneTimeTokenRow,
    PreflightRow,
    SessionRow,
    TrialRow,
)

TRIALS_AT_ONCE = 50
EVENTS_AT_ONCE = 5_000
IDEMPOTENCY_DAYS = 1
ONE_TIME_TOKEN_DAYS = 1
PREFLIGHT_DAYS = 30
SAMPLE_HOURS = 6
"""How busy nodes were is kept for so long, and up to an hour more: 240 samples an hour each."""
FILE_DELETION_DAYS = 30
"""Deletions of files that are done are shown this long."""
JOIN_TOKEN_DAYS = 30
"""Expired join tokens are shown this long, so that people see why an agent cannot join."""


def delete_leftovers(session: Session) -> int:
    """Delete what deleted experiments have left in tables without a foreign key; the rows deleted."""
    orphans = session.scalars(
        select(MetricBatchRow.trial_id)
        .where(~exists().where(TrialRow.id == MetricBatchRow.trial_id))
        .distinct()
        .limit(TRIALS_AT_ONCE)
    ).all()
    deleted = 0
    if orphans:
        batches = session.execute(
            delete(MetricBatchRow)
            .where(MetricBatchRow.trial_id.in_(orphans))
            .execution_options(synchronize_session=False)
        )
        deleted += batches.rowcount  # type: ignore[attr-defined]
    events = session.scalars(
        select(EventRow.id)
        .where(
            EventRow.experiment_id.is_not(None),
            ~exists().where(ExperimentRow.id == EventRow.experiment_id),
        )
        .limit(EVENTS_AT_ONCE)
    ).all()
    for at in range(0, len(events), 500):
        session.execute(
            delete(EventRow)
            .where(EventRow.id.in_(events[at : at + 500]))
            .execution_options(synchronize_session=False)
        )
    return deleted + len(events)


def delete_expired(session: Session, now: dt.datetime) -> None:
    """Delete sessions, tokens, request keys, exports and notes of deletions that are of no use now."""
    for statement in (
        delete(SessionRow).where(SessionRow.expires_at < now),
        delete(OneTimeTokenRow).where(
            OneTimeTokenRow.expires_at < now - dt.timedelta(days=ONE_TIME_TOKEN_DAYS)
        ),
        delete(JoinTokenRow).where(
            JoinTokenRow.expires_at < now - dt.timedelta(days=JOIN_TOKEN_DAYS)
        ),
        delete(IdempotencyRow).where(
            IdempotencyRow.created_at < now - dt.timedelta(days=IDEMPOTENCY_DAYS)
        ),
        delete(NodeSampleRow).where(NodeSampleRow.at < now - dt.timedelta(hours=SAMPLE_HOURS)),
        delete(PreflightRow).where(PreflightRow.ended_at < now - dt.timedelta(days=PREFLIGHT_DAYS)),
        delete(ExportRow).where(ExportRow.expires_at < now),
        delete(FileDeletionRow).where(
            FileDeletionRow.state.in_(("done", "dismissed")),
            FileDeletionRow.ended_at < now - dt.timedelta(days=FILE_DELETION_DAYS),
        ),
    ):
        session.execute(statement.execution_options(synchronize_session=False))


def delete_old_logs(session: Session, now: dt.datetime, *, days: int) -> int:
    """Delete the logs of trials that ended more than `days` ago; an event in each says so."""
    trials = session.execute(
        select(TrialRow.id, TrialRow.experiment_id)
        .where(
            TrialRow.ended_at < now - dt.timedelta(days=days),
            exists().where(LogStreamRow.trial_id == TrialRow.id),
        )
        .limit(TRIALS_AT_ONCE)
    ).all()
    for trial_id, experiment_id in trials:
        session.execute(
            delete(LogStreamRow)
            .where(LogStreamRow.trial_id == trial_id)
            .execution_options(synchronize_session=False)
        )
        session.add(
            EventRow(
                at=now,
                level="info",
                type="logs.deleted",
                message=f"Its logs were deleted, {days} days after it ended.",
                experiment_id=experiment_id,
                trial_id=trial_id,
                data={},
            )
        )
    return len(trials)
