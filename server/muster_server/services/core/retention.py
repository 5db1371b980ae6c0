"""Deleting what nobody needs any more: each function some rows, as long as it returns any."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, extract, false, not_, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from muster_server.db.deleting import DATA_WEIGHT, PIECE_WEIGHT, ROWS_FIRST, Deleter
from muster_server.db.models import (
    Base,
    DismissalRow,
    EventRow,
    ExperimentRow,
    ExportChunkRow,
    ExportRow,
    FileDeletionRow,
    IdempotencyRow,
    JoinTokenRow,
    LogChunkRow,
    LogStreamRow,
    MaintenanceWindowRow,
    MetricBatchRow,
    NodeReservationRow,
    NodeSampleRow,
    OneTimeTokenRow,
    PilotRow,
    PreflightRow,
    ProjectRow,
    SessionRow,
    TrialRow,
)
from muster_server.domain.messages import count

DISMISSAL_DAYS = 90
IDEMPOTENCY_DAYS = 1
ONE_TIME_TOKEN_DAYS = 1
MAINTENANCE_DAYS = 365
"""Maintenance windows and reservations that have ended are kept this long."""
PREFLIGHT_DAYS = 30
PILOT_DAYS = 30
"""Pilots that have ended are listed this long."""
SAMPLE_EVERY_S = 15.0
"""How busy a node was is kept of some heartbeats: those between two samples are not."""
SAMPLE_HOURS = 6
"""How busy nodes were is kept in full for so long, and up to an hour more: 240 samples an hour each."""
COARSE_SAMPLE_EVERY_MIN = 5
"""Minutes from one kept sample to the next, once they are older than that."""
COARSE_SAMPLE_DAYS = 7
"""Age at which the last samples are deleted."""
FILE_DELETION_DAYS = 30
"""Deletions of files that are done are shown this long."""
JOIN_TOKEN_DAYS = 30
"""Expired join tokens are shown this long, so that people see why an agent cannot join."""


def delete_leftovers(session: Session, limit: int = ROWS_FIRST) -> int:
    """Delete what deleted experiments have left in tables without a foreign key; the rows deleted."""
    deleter = Deleter(session, limit)
    _ = deleter.delete(
        MetricBatchRow,
        ~exists().where(TrialRow.id == MetricBatchRow.trial_id),
        weight=DATA_WEIGHT,
    ) and deleter.delete(
        EventRow,
        EventRow.experiment_id.is_not(None),
        ~exists().where(ExperimentRow.id == EventRow.experiment_id),
    )
    return deleter.num_deleted


def delete_expired(session: Session, now: dt.datetime, limit: int = ROWS_FIRST) -> int:
    """Delete sessions, tokens, request keys, exports and notes of deletions that are of no use now;
    the rows deleted."""

    def before(**age: int) -> dt.datetime:
        return now - dt.timedelta(**age)

    exports = select(ExportRow.id).where(ExportRow.expires_at < now)
    deleter = Deleter(session, limit)
    rows: list[tuple[type[Base], Any, int]] = [
        (SessionRow, SessionRow.expires_at < now, 1),
        (OneTimeTokenRow, OneTimeTokenRow.expires_at < before(days=ONE_TIME_TOKEN_DAYS), 1),
        (JoinTokenRow, JoinTokenRow.expires_at < before(days=JOIN_TOKEN_DAYS), 1),
        (IdempotencyRow, IdempotencyRow.created_at < before(days=IDEMPOTENCY_DAYS), 1),
        (NodeSampleRow, _between(before(hours=2 * SAMPLE_HOURS), before(hours=SAMPLE_HOURS)), 1),
        (NodeSampleRow, NodeSampleRow.at < before(days=COARSE_SAMPLE_DAYS), 1),
        (DismissalRow, DismissalRow.dismissed_at < before(days=DISMISSAL_DAYS), 1),
        (PreflightRow, PreflightRow.ended_at < before(days=PREFLIGHT_DAYS), 1),
        (
            MaintenanceWindowRow,
            MaintenanceWindowRow.ended_at < before(days=MAINTENANCE_DAYS),
            1,
        ),
        (NodeReservationRow, NodeReservationRow.ended_at < before(days=MAINTENANCE_DAYS), 1),
        (PilotRow, PilotRow.ended_at < before(days=PILOT_DAYS), 1),
        (ExportChunkRow, ExportChunkRow.export_id.in_(exports), PIECE_WEIGHT),
        (ExportRow, ExportRow.expires_at < now, 1),
        (
            FileDeletionRow,
            FileDeletionRow.state.in_(("done", "dismissed"))
            & (FileDeletionRow.ended_at < before(days=FILE_DELETION_DAYS)),
            1,
        ),
    ]
    all(deleter.delete(row, where, weight=weight) for row, where, weight in rows)
    return deleter.num_deleted


def _between(begin: dt.datetime, end: dt.datetime) -> ColumnElement[bool]:
    """Return the condition of samples in that time that are left out of the coarse ones."""
    at = NodeSampleRow.at
    is_coarse = and_(
        extract("minute", at) % COARSE_SAMPLE_EVERY_MIN == 0, extract("second", at) < SAMPLE_EVERY_S
    )
    return and_(at >= begin, at < end, not_(is_coarse))


def is_old(
    session: Session,
    now: dt.datetime,
    own_days: InstrumentedAttribute[int | None],
    days: int | None,
) -> ColumnElement[bool]:
    """Return the condition of trials that ended longer ago than is kept of their project.

    own_days: column of ProjectRow. days: age for projects that have none of their own; None: for ever.
    """
    by_age: dict[int, list[int]] = defaultdict(list)
    for id, age in session.execute(select(ProjectRow.id, own_days).where(own_days.is_not(None))):
        by_age[age or 0].append(id)
    with_own = [id for ids in by_age.values() for id in ids]

    def ended(days: int, *where: ColumnElement[bool]) -> ColumnElement[bool]:
        return and_(TrialRow.ended_at < now - dt.timedelta(days=days), *where)

    def of(ids: list[int]) -> ColumnElement[bool]:
        return exists().where(
            ExperimentRow.id == TrialRow.experiment_id, ExperimentRow.project_id.in_(ids)
        )

    found = [ended(age, of(ids)) for age, ids in by_age.items()]
    if days is not None:
        found.append(ended(days, ~of(with_own)) if with_own else ended(days))
    return or_(false(), *found)


def delete_old_logs(
    session: Session, now: dt.datetime, limit: int = ROWS_FIRST, *, days: int | None
) -> int:
    """Delete the logs of a trial that ended more than `days` ago, or longer ago than its project says; an
    event in it says so. Returns the rows deleted."""
    of = session.execute(
        select(TrialRow.id, TrialRow.experiment_id, TrialRow.ended_at)
        .where(
            is_old(session, now, ProjectRow.log_retention_days, days),
            exists().where(LogStreamRow.trial_id == TrialRow.id),
        )
        .limit(1)
    ).first()
    if of is None:
        return 0
    age = (now - of.ended_at).days if of.ended_at else 0
    deleter = Deleter(session, limit)
    streams = select(LogStreamRow.id).where(LogStreamRow.trial_id == of.id)
    if deleter.delete(
        LogChunkRow, LogChunkRow.stream_id.in_(streams), weight=DATA_WEIGHT
    ) and deleter.delete(LogStreamRow, LogStreamRow.trial_id == of.id):
        session.add(
            EventRow(
                at=now,
                level="info",
                type="logs.deleted",
                message=f"Its logs were deleted, {count(age, 'day')} after it ended.",
                experiment_id=of.experiment_id,
                trial_id=of.id,
                data={},
            )
        )
    return deleter.num_deleted
