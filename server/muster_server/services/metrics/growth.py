"""What is stored, how fast it grows, and what retention removes next."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database, sqlite_file
from muster_server.db.models import (
    AuditRow,
    CheckpointRow,
    EventRow,
    LogChunkRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricFileRow,
    MetricSeriesRow,
    NodeSampleRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain import growth
from muster_server.schemas.data import (
    GrowthKind,
    GrowthOut,
    GrowthPlace,
    RetentionForecastOut,
    RetentionOut,
)

from ..core.retention import COARSE_SAMPLE_DAYS

SAMPLES_FULL_DAYS = COARSE_SAMPLE_DAYS - 0.5
"""Age of the oldest sample of a node from which as many are deleted as are added."""


def forecast(
    database: Database,
    session: Session,
    now: dt.datetime,
    *,
    plan: RetentionOut,
    audit_days: int | None,
) -> RetentionForecastOut:
    """Return size and growth of each kind of data, and when the disk of the database is full.

    plan: what retention would free now, by the ages that are set.
    """
    freed: dict[GrowthKind, int] = {
        "metrics": plan.metrics.freed_bytes,
        "logs": plan.logs.freed_bytes,
        "events": 0,
        "system_metrics": 0,
    }
    freed["audit"] = _old_audit(session, now, audit_days)
    items, added, oldest = [], 0, now
    for kind, place, sources in _SOURCES:
        size, recent, first = _measured(session, now, sources)
        history_days = (now - first).total_seconds() / 86400
        # Samples that are a week old are deleted: from then on, they take what they take.
        is_bounded = kind == "system_metrics"
        is_full = is_bounded and history_days > SAMPLES_FULL_DAYS
        items.append(
            GrowthOut(
                kind=kind,
                place=place,
                size_bytes=size,
                bytes_per_day=0 if is_full else growth.per_day(recent, history_days),
                history_days=round(history_days, 1),
                freed_bytes=freed.get(kind),
            )
        )
        if place == "database":
            oldest = min(oldest, first)
            added += 0 if is_bounded else recent
    file = sqlite_file(database.url)
    free_bytes = shutil.disk_usage(file.absolute().parent).free if file is not None else None
    history_days = (now - oldest).total_seconds() / 86400
    found = growth.forecast(added_bytes=added, history_days=history_days, free_bytes=free_bytes)
    return RetentionForecastOut(
        items=items,
        free_bytes=free_bytes,
        history_days=round(history_days, 1),
        days_left=found.days,
        reason=found.reason,
    )


def _length(*columns: Any) -> Any:
    """Bytes of texts and JSON together."""
    first, *others = [func.length(cast(column, Text)) for column in columns]
    return sum(others, first)


@dataclass(frozen=True)
class _StoredRows:
    """Rows of one kind: when they came, how large they are, and which of them count."""

    at: Any
    size: Any
    where: Any = None
    is_recent: Any = None
    """Further rows that are recent, by the beginning of the window."""
    joins: Sequence[Any] = ()


_BLOCKS = _StoredRows(
    # Points have the time of their node, or of a run that was imported: long ago. A block is as old as
    # its trial here, unless it has recent points.
    TrialRow.created_at,
    func.length(MetricBlockRow.data) + func.length(MetricBlockRow.rollup),
    is_recent=MetricBlockRow.last_time_ms,
    joins=(
        (MetricSeriesRow, MetricSeriesRow.id == MetricBlockRow.series_id),
        (TrialRow, TrialRow.id == MetricSeriesRow.trial_id),
    ),
)
_BATCHES = _StoredRows(MetricBatchRow.received_at, func.length(MetricBatchRow.body))
_AUDIT_SIZE = _length(AuditRow.subject, AuditRow.detail)
_SOURCES: Sequence[tuple[GrowthKind, GrowthPlace, Sequence[_StoredRows]]] = (
    ("metrics", "database", (_BATCHES, _BLOCKS)),
    ("system_metrics", "database", (_StoredRows(NodeSampleRow.at, _length(NodeSampleRow.usage)),)),
    ("logs", "database", (_StoredRows(LogChunkRow.received_at, func.length(LogChunkRow.data)),)),
    ("events", "database", (_StoredRows(EventRow.at, _length(EventRow.message, EventRow.data)),)),
    ("audit", "database", (_StoredRows(AuditRow.at, _AUDIT_SIZE),)),
    (
        "cold_metrics",
        "storage",
        (
            _StoredRows(
                MetricFileRow.created_at,
                MetricFileRow.size_bytes,
                MetricFileRow.retired_at.is_(None),
            ),
        ),
    ),
    (
        "checkpoints",
        "storage",
        (
            _StoredRows(
                CheckpointRow.created_at,
                CheckpointRow.size_bytes,
                CheckpointRow.state == "complete",
            ),
        ),
    ),
    (
        "outputs",
        "storage",
        (
            _StoredRows(
                TrialOutputsRow.updated_at,
                TrialOutputsRow.size_bytes,
                TrialOutputsRow.deleted_at.is_(None),
            ),
        ),
    ),
)


def _measured(
    session: Session, now: dt.datetime, sources: Sequence[_StoredRows]
) -> tuple[int, int, dt.datetime]:
    """Bytes, those of the last days, and the time of the oldest row: now without any."""
    since = now - dt.timedelta(days=growth.WINDOW_DAYS)
    total, recent, first = 0, 0, now
    for source in sources:
        is_recent = source.at >= since
        if source.is_recent is not None:
            is_recent = is_recent | (source.is_recent >= int(since.timestamp() * 1000))
        query = select(
            func.sum(source.size), func.sum(source.size).filter(is_recent), func.min(source.at)
        )
        if source.joins:
            query = query.select_from(MetricBlockRow)
        for table, on in source.joins:
            query = query.join(table, on)
        if source.where is not None:
            query = query.where(source.where)
        found, found_recent, oldest = session.execute(query).one()
        total, recent = total + int(found or 0), recent + int(found_recent or 0)
        first = min(first, oldest or now)
    return total, recent, first


def _old_audit(session: Session, now: dt.datetime, days: int | None) -> int:
    if days is None:
        return 0
    old = AuditRow.at < now - dt.timedelta(days=days)
    query = select(func.sum(_AUDIT_SIZE)).where(old, AuditRow.seal_no.is_not(None))
    return int(session.scalar(query) or 0)
