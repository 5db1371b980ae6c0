"""From batches (L0) to blocks (L1).

A chunk is one transaction: it takes batches of one (trial, attempt, rank) out of L0 with
DELETE … RETURNING, so that two compactions running at once can never write the same points twice,
and it writes them as blocks. Whatever happens in between, a point is in exactly one of the two.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database, touch
from muster_server.db.models import MetricBatchRow, MetricBlockRow, MetricSeriesRow, TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import (
    Points,
    concat,
    decode_batch,
    decode_block,
    encode_block,
    encode_rollup,
    in_order,
    split_blocks,
)
from muster_server.domain.metrics import BLOCK_POINTS, STEP_MAX
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.services import metrics_series

CHUNK_BATCHES = 512
CHUNK_POINTS = 262_144
"""Points in one transaction: about 0.2 s of work, during which SQLite has no other writer."""

DUE_POINTS = 65_536
DUE_AGE_S = 60.0
"""A trial is due when it has this many points in L0, or its oldest batch is this old."""


@dataclass(frozen=True)
class Compacted:
    num_batches: int
    num_points: int
    is_done: bool
    """False when the time was up before L0 was empty."""


def due_trials(session: Session, now: dt.datetime, *, limit: int = 200) -> list[int]:
    """Trials whose L0 should be compacted, those with the most points first; terminal ones too."""
    oldest = now - dt.timedelta(seconds=DUE_AGE_S)
    batches = (
        select(MetricBatchRow.trial_id)
        .group_by(MetricBatchRow.trial_id)
        .having(
            (func.sum(MetricBatchRow.num_points) >= DUE_POINTS)
            | (func.min(MetricBatchRow.received_at) <= oldest)
        )
        .order_by(func.sum(MetricBatchRow.num_points).desc())
        .limit(limit)
    )
    terminal = (
        select(MetricBatchRow.trial_id)
        .distinct()
        .join(TrialRow, TrialRow.id == MetricBatchRow.trial_id)
        .where(TrialRow.state.in_(sorted(TERMINAL_TRIAL)))
        .limit(limit)
    )
    return list(dict.fromkeys([*session.scalars(batches), *session.scalars(terminal)]))[:limit]


def compact_trial(
    database: Database, trial_id: int, now: dt.datetime, *, max_chunks: int = 1000
) -> Compacted:
    """Move everything in L0 of a trial to L1, and bring cut summaries up to date.

    Idempotent, and safe to run twice at once: a chunk belongs to whoever deletes its batches.
    """
    num_batches = num_points = 0
    for _ in range(max_chunks):
        with database.transaction() as session:
            chunk = _take_chunk(session, trial_id)
            if chunk is None:
                _cut_summaries(session, trial_id)
                return Compacted(num_batches, num_points, is_done=True)
            if not chunk:
                continue
            num_points += _compact_chunk(session, chunk)
            num_batches += len(chunk)
    return Compacted(num_batches, num_points, is_done=False)


# ---------------------------------------------------------------- one chunk


def _take_chunk(session: Session, trial_id: int) -> list[Any] | None:
    """Remove the oldest batches of one (attempt, rank) from L0 and return them in order.

    None when L0 is empty; an empty list when somebody else took them meanwhile.
    """
    table = MetricBatchRow
    of = session.execute(
        select(table.attempt_no, table.rank)
        .where(table.trial_id == trial_id)
        .order_by(table.attempt_no, table.rank)
        .limit(1)
    ).first()
    if of is None:
        return None
    candidates = session.execute(
        select(table.allocation_id, table.seq, table.num_points)
        .where(table.trial_id == trial_id, table.attempt_no == of.attempt_no, table.rank == of.rank)
        .order_by(table.received_at, table.allocation_id, table.seq)
        .limit(CHUNK_BATCHES)
        .with_for_update()
    ).all()
    keys: list[tuple[str, int]] = []
    num_points = 0
    for allocation_id, seq, n in candidates:
        if keys and num_points + n > CHUNK_POINTS:
            break
        keys.append((allocation_id, seq))
        num_points += n
    taken: list[Any] = []
    for part in queries.chunked(keys):
        taken.extend(
            session.execute(
                delete(table)
                .where(tuple_(table.allocation_id, table.seq).in_(part))
                .returning(
                    table.trial_id,
                    table.attempt_no,
                    table.rank,
                    table.allocation_id,
                    table.seq,
                    table.received_at,
                    table.body,
                )
                .execution_options(synchronize_session=False)
            )
        )
    taken.sort(key=lambda row: (row.received_at, row.allocation_id, row.seq))
    return taken


def _compact_chunk(session: Session, chunk: list[Any]) -> int:
    trial_id, attempt_no, rank = chunk[0].trial_id, chunk[0].attempt_no, chunk[0].rank
    by_name: dict[str, list[Points]] = {}
    for row in chunk:
        for name, points in decode_batch(row.body).items():
            by_name.setdefault(name, []).append(points)
    series = {
        s.name: s
        for s in queries.find_series(session, [trial_id], ranks=[rank])
        if s.attempt_no == attempt_no
    }
    num_points = 0
    repeated: list[SeriesRecord] = []
    for name, parts in sorted(by_name.items()):
        points = concat(parts)
        num_points += len(points)
        if name not in series:
            # The series went with its trial; nothing is left to draw it.
            continue
        if _write_blocks(session, series[name], points):
            repeated.append(series[name])
    if repeated:
        _recount(session, trial_id, repeated)
    return num_points


def _write_blocks(session: Session, series: SeriesRecord, points: Points) -> bool:
    """Merge new points into the blocks of a series. True when steps occurred more than once."""
    num_before = len(points)
    points = in_order(points)
    table = MetricBlockRow
    overlapping = session.execute(
        select(table.first_step, table.data)
        .where(table.series_id == series.id, table.last_step >= int(points.steps[0]))
        .order_by(table.first_step)
    ).all()
    if not overlapping:
        # The usual case: everything is new, and only the last, not yet full block is rewritten.
        overlapping = list(
            session.execute(
                select(table.first_step, table.data)
                .where(table.series_id == series.id, table.num_points < BLOCK_POINTS)
                .order_by(table.first_step.desc())
                .limit(1)
            )
        )
        last_full = session.scalar(
            select(func.max(table.first_step)).where(table.series_id == series.id)
        )
        overlapping = [row for row in overlapping if row.first_step == last_full]
    if overlapping:
        old = [decode_block(row.data) for row in overlapping]
        num_before += sum(map(len, old))
        points = in_order(concat([*old, points]))
        session.execute(
            delete(table)
            .where(
                table.series_id == series.id,
                table.first_step.in_([row.first_step for row in overlapping]),
            )
            .execution_options(synchronize_session=False)
        )
    queries.insert_blocks(
        session,
        [
            {
                "series_id": series.id,
                "first_step": int(block.steps[0]),
                "last_step": int(block.steps[-1]),
                "first_time_ms": int(block.times_ms[0]),
                "last_time_ms": int(block.times_ms[-1]),
                "num_points": len(block),
                "rollup": encode_rollup(block),
                "data": encode_block(block),
            }
            for block in split_blocks(points)
        ],
    )
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(compacted_step=int(points.steps[-1]))
        .execution_options(synchronize_session=False)
    )
    return len(points) < num_before


# ---------------------------------------------------------------- summaries


def _recount(session: Session, trial_id: int, repeated: list[SeriesRecord]) -> None:
    """Steps were reported twice: count each once, and forget values that were written over."""
    for series in repeated:
        _store_summary(session, series, STEP_MAX)
    _refresh_trial(session, trial_id, [s.name for s in repeated])


def _cut_summaries(session: Session, trial_id: int) -> None:
    """Take what a restart has hidden out of the stored summaries, so that reading scans nothing."""
    cut = False
    for series, limit in metrics_series.cut_series(session, trial_id):
        _store_summary(session, series, limit)
        cut = True
    if cut:
        touch(session, f"trial:{trial_id}:metrics")


def _store_summary(session: Session, series: SeriesRecord, last_step: int) -> None:
    summary = metrics_series.scan_summary(session, series, last_step)
    if summary is None:
        return
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(**metrics_series.summary_columns(summary))
        .execution_options(synchronize_session=False)
    )


def _refresh_trial(session: Session, trial_id: int, names: list[str]) -> None:
    trial = session.scalars(
        select(TrialRow).where(TrialRow.id == trial_id).with_for_update()
    ).first()
    if trial is None:
        return
    trial.summary = {**trial.summary, **metrics_series.visible_summary(session, trial_id, names)}
    touch(session, f"trial:{trial_id}", f"trial:{trial_id}:metrics")
