"""Downsampling the metrics of trials that ended long ago.

What a chart of the whole curve draws stays as it was: the roll-ups of blocks, with the least,
greatest, mean and last value and the number of points of some 32 buckets each, are not touched. Of
the points themselves those remain that the least, the greatest, the first and the last of each bucket
stand for, so that no extreme is ever lost. Short series, which a chart shows point by point, stay whole.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database, touch
from muster_server.db.models import (
    LogChunkRow,
    LogStreamRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
    ProjectRow,
    TrialRow,
)
from muster_server.db.pace import Pace, paced
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics_codec import (
    decode_block,
    downsample,
    encode_block,
    is_downsampled,
    rollup_width,
)
from muster_server.domain.messages import count
from muster_server.schemas.data import LogRetentionOut, MetricRetentionOut, RetentionOut

from ..core.events import add_event
from ..core.retention import is_old
from . import cooling
from .curves import groups_of

KEPT_WHOLE_POINTS = 1_000
"""A series of at most so many points stays as it is: a chart shows each of them."""
TRIALS_AT_ONCE = 50
BLOCKS_MAX = 64
BLOCKS_LEAST = 4
"""In one transaction, at most and at least; each takes about 2 ms."""
BUDGET_S = 10.0
"""A sweep goes no further after this; the next one goes on."""
SAMPLED_BLOCKS = 64
"""What would be freed is estimated from this many."""


@dataclass(frozen=True)
class Downsampled:
    num_trials: int
    """Number of trials that were processed completely."""
    num_points: int
    freed_bytes: int


def downsample_old(
    database: Database, now: dt.datetime, *, days: int | None, budget_s: float = BUDGET_S
) -> Downsampled:
    """Downsample the trials that ended more than `days` ago, or longer ago than their project says, oldest
    first, for `budget_s`.

    Idempotent, and safe beside compaction and itself: a block is replaced under its lock, and one
    that is downsampled already is left alone.
    """
    deadline = time.monotonic() + budget_s
    with database.read() as session:
        due = session.execute(
            select(TrialRow.id, TrialRow.ended_at)
            .where(_is_due(session, now, days), ~_is_uncompacted())
            .order_by(TrialRow.ended_at, TrialRow.id)
            .limit(TRIALS_AT_ONCE)
        ).all()
    pace = Pace(BLOCKS_MAX, first=BLOCKS_MAX // 2, least=BLOCKS_LEAST)
    num_trials = num_points = freed_bytes = 0
    for trial_id, ended_at in due:
        age = (now - ended_at).days if ended_at else 0
        done = _downsample_trial(database, trial_id, now, age, deadline, pace)
        num_points += done.num_points
        freed_bytes += done.freed_bytes
        num_trials += done.num_trials
        if time.monotonic() > deadline:
            break
    return Downsampled(num_trials, num_points, freed_bytes)


def _is_due(session: Session, now: dt.datetime, days: int | None) -> ColumnElement[bool]:
    old = is_old(session, now, ProjectRow.metric_retention_days, days)
    return and_(TrialRow.downsampled_at.is_(None), old)


def _is_uncompacted() -> ColumnElement[bool]:
    return exists().where(MetricBatchRow.trial_id == TrialRow.id)


def _downsample_trial(
    database: Database, trial_id: int, now: dt.datetime, days: int, deadline: float, pace: Pace
) -> Downsampled:
    """Downsample one trial, as far as the time allows; each transaction takes some blocks of one
    series."""
    num_points = freed_bytes = 0
    with database.read() as session:
        limits = {
            record.id: group.limits[record.attempt_no]
            for group in groups_of(session, [trial_id], None, None)
            for record in group.records
        }
        series = session.scalars(
            select(MetricSeriesRow.id)
            .where(MetricSeriesRow.trial_id == trial_id, MetricSeriesRow.count > KEPT_WHOLE_POINTS)
            .order_by(MetricSeriesRow.id)
        ).all()
    for series_id in series:
        after_step = -1
        while True:
            if time.monotonic() > deadline:
                _note(database, trial_id, num_points, freed_bytes, now, days, is_done=False)
                return Downsampled(0, num_points, freed_bytes)
            limit = pace.size
            _thaw(database, trial_id, series_id, after_step, limit)
            with paced(database, pace) as session:
                blocks = _next_blocks(session, series_id, after_step, limit)
                for block in blocks:
                    points, freed = _downsample_block(block, limits.get(series_id))
                    num_points += points
                    freed_bytes += freed
            if len(blocks) < limit:
                break
            after_step = blocks[-1].first_step
    _note(database, trial_id, num_points, freed_bytes, now, days, is_done=True)
    return Downsampled(1, num_points, freed_bytes)


def _thaw(database: Database, trial_id: int, series_id: int, after_step: int, limit: int) -> None:
    """Bring the next blocks back into the database, to be thinned out there."""
    with database.read() as session:
        cold = session.scalars(
            select(MetricBlockRow.first_step)
            .where(MetricBlockRow.series_id == series_id, MetricBlockRow.first_step > after_step)
            .order_by(MetricBlockRow.first_step)
            .limit(limit)
        ).all()
    cooling.thaw(database, trial_id, [(series_id, first_step) for first_step in cold], whole=True)


def _next_blocks(
    session: Session, series_id: int, after_step: int, limit: int
) -> Sequence[MetricBlockRow]:
    return session.scalars(
        select(MetricBlockRow)
        .where(MetricBlockRow.series_id == series_id, MetricBlockRow.first_step > after_step)
        .order_by(MetricBlockRow.first_step)
        .limit(limit)
        .with_for_update()
    ).all()


def _downsample_block(block: MetricBlockRow, cut_after: int | None) -> tuple[int, int]:
    """(points dropped, bytes freed)."""
    if is_downsampled(block.data):
        return 0, 0
    points = decode_block(block.data)
    kept = downsample(points, rollup_width(block.rollup), cut_after)
    if len(kept) == len(points):
        return 0, 0
    data = encode_block(kept, is_downsampled=True)
    freed = len(block.data) - len(data)
    block.data = data
    return len(points) - len(kept), freed


def _note(
    database: Database,
    trial_id: int,
    num_points: int,
    freed_bytes: int,
    now: dt.datetime,
    days: int,
    *,
    is_done: bool,
) -> None:
    with database.transaction() as session:
        changed = {"num_points_dropped": TrialRow.num_points_dropped + num_points}
        experiment_id = session.scalar(
            update(TrialRow)
            .where(TrialRow.id == trial_id)
            .values(changed | ({"downsampled_at": now} if is_done else {}))
            .returning(TrialRow.experiment_id)
            .execution_options(synchronize_session=False)
        )
        if experiment_id is None or num_points == 0:
            return
        add_event(
            session,
            "metrics.downsampled",
            f"Of its metrics {num_points:,} points were dropped, {count(days, 'day')} after it ended, which "
            f"freed {freed_bytes:,} bytes; least, greatest, mean and last values of buckets are kept.",
            now=now,
            experiment_id=experiment_id,
            trial_id=trial_id,
            data={"num_points": num_points, "freed_bytes": freed_bytes},
        )
        touch(session, f"trial:{trial_id}", f"trial:{trial_id}:metrics")


# ---------------------------------------------------------------- what would go


def plan(
    session: Session,
    now: dt.datetime,
    *,
    metric_days: int | None,
    log_days: int | None,
    is_asked: bool = False,
) -> RetentionOut:
    """Return what retention with these maximum ages in days (None: keep forever) would free now,
    without deleting anything.

    is_asked: the ages come from a request, not from the settings.
    """
    return RetentionOut(
        is_set=not is_asked,
        num_projects_apart=session.scalar(_APART) or 0,
        metrics=_metrics(session, now, metric_days),
        logs=_logs(session, now, log_days),
    )


_APART = select(func.count()).where(
    ProjectRow.log_retention_days.is_not(None) | ProjectRow.metric_retention_days.is_not(None)
)


def _metrics(session: Session, now: dt.datetime, days: int | None) -> MetricRetentionOut:
    long = (
        select(MetricBlockRow)
        .join(MetricSeriesRow, MetricSeriesRow.id == MetricBlockRow.series_id)
        .join(TrialRow, TrialRow.id == MetricSeriesRow.trial_id)
        .where(
            _is_due(session, now, days),
            MetricSeriesRow.count > KEPT_WHOLE_POINTS,
            ~blocks_db.is_cold(),  # It frees little in the database.
        )
    )
    num_trials, num_points, size_bytes = session.execute(
        long.with_only_columns(
            func.count(TrialRow.id.distinct()),
            func.sum(MetricBlockRow.num_points),
            func.sum(func.length(MetricBlockRow.data)),
        )
    ).one()
    before = after = num_sampled = 0
    for block in session.scalars(long.order_by(TrialRow.ended_at.desc()).limit(SAMPLED_BLOCKS)):
        num_sampled += 1
        before += len(block.data)
        kept = downsample(decode_block(block.data), rollup_width(block.rollup))
        after += min(len(block.data), len(encode_block(kept, is_downsampled=True)))
    share = 1 - after / before if before else 0.0
    return MetricRetentionOut(
        days=days,
        num_trials=num_trials,
        num_points=int(num_points or 0),
        size_bytes=int(size_bytes or 0),
        freed_bytes=round(int(size_bytes or 0) * share),
        num_sampled=num_sampled,
    )


def _logs(session: Session, now: dt.datetime, days: int | None) -> LogRetentionOut:
    old = is_old(session, now, ProjectRow.log_retention_days, days)
    num_trials, size_bytes = session.execute(
        select(func.count(TrialRow.id.distinct()), func.sum(LogStreamRow.size_bytes))
        .join(TrialRow, TrialRow.id == LogStreamRow.trial_id)
        .where(old)
    ).one()
    freed_bytes = session.scalar(
        select(func.sum(func.length(LogChunkRow.data)))
        .join(LogStreamRow, LogStreamRow.id == LogChunkRow.stream_id)
        .join(TrialRow, TrialRow.id == LogStreamRow.trial_id)
        .where(old)
    )
    return LogRetentionOut(
        days=days,
        num_trials=num_trials,
        size_bytes=int(size_bytes or 0),
        freed_bytes=int(freed_bytes or 0),
    )
