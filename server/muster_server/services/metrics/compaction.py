"""Compaction of metric batches (L0) into blocks (L1).

What a transaction takes out of L0 it writes as blocks (metrics_chunks). A point is therefore in
exactly one of the two whatever happens in between, and two compactions that run at once cannot
write the same points twice. Each transaction is limited in series and blocks, however much was
logged, and everything that can be read and encoded beforehand is, because nobody else can write
while it lasts.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session

from muster.series_rules import STEP_MAX
from muster_server.db.engine import Database, touch
from muster_server.db.models import MetricBatchRow, MetricBlockRow, MetricSeriesRow, TrialRow
from muster_server.db.pace import Pace, paced
from muster_server.db.queries import metrics as queries
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import (
    Points,
    add_to_rollup,
    cold_place,
    concat,
    decode_block,
    downsample,
    encode_block,
    encode_rollup,
    in_order,
    is_downsampled,
    merge_rollups,
    rollup_width,
    split_blocks,
    split_evenly,
)
from muster_server.domain.metrics import SPAN_BLOCKS
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.services.metrics import cooling, summaries

from .chunks import CompactionChunk, Removal, plan_removal, read_chunk, remove

SERIES_MAX = 1024
SERIES_FIRST = 256
SERIES_LEAST = 64
"""Series in one transaction, at most, to begin with, and at least."""
LATE_SERIES_MAX = 16
"""Series in one transaction of which blocks in between are written again, or values counted anew:
each takes as long as a hundred that have only grown."""

LATE_BLOCKS_MAX = 64
"""Blocks in between that one transaction writes again."""

CUT_AT_ONCE = 256
"""Summaries of earlier attempts that one transaction stores."""

DUE_POINTS = 65_536
DUE_AGE_S = 60.0
"""A trial is due when it has this many points in L0, or its oldest batch is this old."""
DUE_MAX = 200


@dataclass(frozen=True)
class Compacted:
    num_batches: int
    num_points: int
    is_done: bool
    """False when the time was up before L0 was empty."""


def due_trials(session: Session, now: dt.datetime) -> list[int]:
    """Return at most DUE_MAX trials whose L0 should be compacted, those with the most points first;
    terminal ones too."""
    oldest = now - dt.timedelta(seconds=DUE_AGE_S)
    batches = (
        select(MetricBatchRow.trial_id)
        .group_by(MetricBatchRow.trial_id)
        .having(
            (func.sum(MetricBatchRow.num_points) >= DUE_POINTS)
            | (func.min(MetricBatchRow.received_at) <= oldest)
        )
        .order_by(func.sum(MetricBatchRow.num_points).desc())
        .limit(DUE_MAX)
    )
    terminal = (
        select(MetricBatchRow.trial_id)
        .distinct()
        .join(TrialRow, TrialRow.id == MetricBatchRow.trial_id)
        .where(TrialRow.state.in_(sorted(TERMINAL_TRIAL)))
        .limit(DUE_MAX)
    )
    return list(dict.fromkeys([*session.scalars(batches), *session.scalars(terminal)]))[:DUE_MAX]


def compact_trial(
    database: Database, trial_id: int, now: dt.datetime, *, max_parts: int = 10_000
) -> Compacted:
    """Move everything in L0 of a trial to L1, and bring cut summaries up to date.

    Idempotent, and safe to run twice at once: points belong to whoever takes them out of L0.
    max_parts: transactions, after which it stops.
    """
    pace = Pace(SERIES_MAX, first=SERIES_FIRST, least=SERIES_LEAST)
    num_batches = num_points = 0
    chunk: CompactionChunk | None = None
    for _ in range(max_parts):
        if chunk is None:
            with database.read() as session:
                chunk = read_chunk(session, trial_id)
            if chunk is None:
                _cut_summaries(database, trial_id)
                return Compacted(num_batches, num_points, is_done=True)
        with database.read() as session:
            part = _plan(session, chunk, pace.size)
            late = _late_blocks(session, part)
        if late and cooling.thaw(database, trial_id, late, whole=False):
            continue
        if not _write(database, part, pace):
            chunk = None  # another compaction was faster: see what it has left
            continue
        num_points += part.num_points
        num_batches += len(part.removal.gone)
        _roll_up(database, part.written)
        left = part.removal.left
        chunk = replace(chunk, batches=left) if left else None
    return Compacted(num_batches, num_points, is_done=False)


# ---------------------------------------------------------------- one part


@dataclass(frozen=True)
class _LateBatches:
    """Points of a series that go into blocks there are."""

    series: SeriesRecord
    points: Points


@dataclass
class _BatchPart:
    """What one transaction writes, all of it known before."""

    trial_id: int
    removal: Removal = field(default_factory=lambda: Removal([], [], []))
    num_points: int = 0
    written: list[int] = field(default_factory=list)
    """Series of which something is written."""
    last_blocks: dict[int, blocks_db.LastBlock] = field(default_factory=dict)
    """Theirs, as this was planned."""
    replaced: list[tuple[int, int]] = field(default_factory=list)
    """(series, first step) of blocks that were not full."""
    blocks: list[dict[str, Any]] = field(default_factory=list)
    compacted: list[dict[str, int]] = field(default_factory=list)
    late: list[_LateBatches] = field(default_factory=list)
    repeated: list[SeriesRecord] = field(default_factory=list)
    """Series that have grown and in which steps occurred more than once."""


def _plan(session: Session, chunk: CompactionChunk, max_series: int) -> _BatchPart:
    """Return the next part of a chunk, of at least one series."""
    names = chunk.names()[:max_series]
    part = _BatchPart(chunk.trial_id)
    series = {
        s.name: s
        for some in queries.chunked(names)
        for s in queries.find_series(session, [chunk.trial_id], names=some, ranks=[chunk.rank])
        if s.attempt_no == chunk.attempt_no
    }
    last_blocks = blocks_db.last_blocks(session, [s.id for s in series.values()])
    taken: dict[str, int | None] = {}
    blocks_left = LATE_BLOCKS_MAX
    for name in names:
        given = chunk.points_of(name)
        if name not in series:
            # The series went with its trial; nothing is left to draw it.
            taken[name] = None
            part.num_points += len(given)
            continue
        record = series[name]
        points = in_order(given)
        last = last_blocks.get(record.id)
        is_late = last is not None and int(points.steps[0]) <= last.last_step
        is_repeated = len(points) < len(given)
        num_late = len(part.late) + len(part.repeated)
        if (is_late or is_repeated) and (num_late == LATE_SERIES_MAX or blocks_left == 0):
            continue  # the next part's
        before = None
        if is_late:
            before, num_blocks = _first_blocks(session, record, points, blocks_left)
            blocks_left -= num_blocks
            given = given if before is None else given.only(given.steps < before)
            part.late.append(_LateBatches(record, given))
        else:
            _append(part, record, points, last)
            if is_repeated:
                part.repeated.append(record)
        taken[name] = before
        part.num_points += len(given)
        part.written.append(record.id)
        if last is not None:
            part.last_blocks[record.id] = last
    part.removal = plan_removal(chunk, taken)
    return part


def _first_blocks(
    session: Session, series: SeriesRecord, points: Points, num_blocks: int
) -> tuple[int | None, int]:
    """Return the step before which points change at most so many blocks (None: all do), and how
    many."""
    starts = blocks_db.block_starts(session, series.id, int(points.steps[0]))
    at = np.unique(np.searchsorted(starts, points.steps, side="right"))
    if len(at) <= num_blocks:
        return None, len(at)
    return starts[int(at[num_blocks]) - 1], num_blocks


def _append(
    part: _BatchPart, series: SeriesRecord, points: Points, last: blocks_db.LastBlock | None
) -> None:
    """Points after all there are: only the last, not yet full block is written again.

    One that retention has thinned out stays as it is: what follows is as exact as anything. So does one
    whose points are in a file.
    """
    merged = points
    if (
        last is not None
        and last.data is not None
        and not is_downsampled(last.data)
        and cold_place(last.data) is None
    ):
        merged = concat([decode_block(last.data), points])
        part.replaced.append((series.id, last.first_step))
    part.blocks.extend(_block_row(series, block) for block in split_blocks(merged))
    part.compacted.append({"of": series.id, "step": int(points.steps[-1])})


def _late_blocks(session: Session, part: _BatchPart) -> list[tuple[int, int]]:
    """Return the blocks that late points of a part are merged into, by (series, first step)."""
    return [
        (late.series.id, first_step)
        for late in part.late
        for first_step in _into_blocks(session, late.series, in_order(late.points))
    ]


class _Raced(Exception):
    """Something is not as it was when this part was planned."""


def _write(database: Database, part: _BatchPart, pace: Pace) -> bool:
    """Write in one transaction. Return False if what was planned on is not there any more."""
    try:
        with paced(database, pace) as session:
            _write_part(session, part)
    except _Raced:
        return False
    return True


def _write_part(session: Session, part: _BatchPart) -> None:
    if queries.lock_series(session, part.written) != len(part.written):
        raise _Raced  # deleted meanwhile
    if not remove(session, part.removal):
        raise _Raced
    if blocks_db.last_block_marks(session, part.written) != {
        series_id: last.mark for series_id, last in part.last_blocks.items()
    }:
        raise _Raced
    # Whatever retention has looked at: there is something new to look at.
    is_done = TrialRow.downsampled_at.is_not(None) | TrialRow.cold_at.is_not(None)
    session.execute(
        update(TrialRow)
        .where(TrialRow.id == part.trial_id, is_done)
        .values(downsampled_at=None, cold_at=None)
        .execution_options(synchronize_session=False)
    )
    blocks_db.delete_these_blocks(session, part.replaced)
    if part.blocks:
        blocks_db.insert_blocks(session, part.blocks)
    if part.compacted:
        table = queries.table_of(MetricSeriesRow)
        session.execute(
            update(table)
            .where(table.c.id == bindparam("of"))
            .values(compacted_step=bindparam("step")),
            part.compacted,
        )
    repeated = list(part.repeated)
    for late in part.late:
        if _write_late(session, late.series, late.points, part.last_blocks[late.series.id]):
            repeated.append(late.series)
    if repeated:
        _recount(session, part.trial_id, repeated)


def _write_late(
    session: Session, series: SeriesRecord, points: Points, last: blocks_db.LastBlock
) -> bool:
    """Merge points into the blocks in which they land. True when steps occurred more than once.

    Only those blocks are read and written again: what is late costs no more for a long series. A
    block that is written has room for as many points as any.
    """
    num_new = len(points)
    points = in_order(points)
    is_repeated = len(points) < num_new
    first_step = int(points.steps[0])
    blocks_db.delete_spans(session, series.id, first_step)
    into = _into_blocks(session, series, points)
    is_repeated |= _rewrite(session, series, into, last.first_step)
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(compacted_step=max(int(points.steps[-1]), last.last_step))
        .execution_options(synchronize_session=False)
    )
    return is_repeated


def _into_blocks(session: Session, series: SeriesRecord, points: Points) -> dict[int, Points]:
    """Return ordered points by the first step of the block into which they go."""
    starts = blocks_db.block_starts(session, series.id, int(points.steps[0]))
    at = np.searchsorted(starts, points.steps, side="right") - 1
    at = np.maximum(at, 0)  # before the first block: into it
    return {starts[i]: points.only(at == i) for i in np.unique(at).tolist()}


def _rewrite(
    session: Session, series: SeriesRecord, into: dict[int, Points], last_first_step: int
) -> bool:
    """Merge points into blocks, given by their first steps. True when a step was there already."""
    data = blocks_db.block_data(session, [(series.id, first_step) for first_step in into])
    if any(cold_place(block) is not None for block in data.values()):
        raise _Raced
    blocks: list[Points] = []
    is_repeated = False
    for first_step, points in into.items():
        old = decode_block(data[series.id, first_step])
        if is_downsampled(data[series.id, first_step]):
            is_new = points.steps > (
                int(old.steps[-1]) if first_step == last_first_step else STEP_MAX
            )
            # What a trial reports when it goes on is as exact as anything.
            blocks.extend(split_blocks(points.only(is_new)))
            late = points.only(~is_new)
            if len(late):
                is_repeated |= _add_to_downsampled(session, series, first_step, old, late)
            continue
        merged = in_order(concat([old, points]))
        is_repeated |= len(merged) < len(old) + len(points)
        # The last one is filled up, because more will follow; one in between is halved.
        split = split_blocks if first_step == last_first_step else split_evenly
        blocks.extend(split(merged))
    whole = [first_step for first_step in into if not is_downsampled(data[series.id, first_step])]
    blocks_db.delete_blocks(session, series.id, whole)
    if blocks:
        _insert(session, series, blocks)
    return is_repeated


def _add_to_downsampled(
    session: Session, series: SeriesRecord, first_step: int, old: Points, points: Points
) -> bool:
    """Points that come after retention has taken others of their block. True when a step was there
    already, of which only a kept one is known."""
    block = session.get_one(MetricBlockRow, (series.id, first_step), with_for_update=True)
    merged = in_order(concat([old, points]))
    block.rollup = add_to_rollup(block.rollup, points)
    block.data = encode_block(downsample(merged, rollup_width(block.rollup)), is_downsampled=True)
    block.num_points += len(points)
    block.first_step, block.last_step = int(merged.steps[0]), int(merged.steps[-1])
    block.first_time_ms, block.last_time_ms = int(merged.times_ms[0]), int(merged.times_ms[-1])
    session.flush()
    return len(merged) < len(old) + len(points)


def _insert(session: Session, series: SeriesRecord, blocks: list[Points]) -> None:
    blocks_db.insert_blocks(session, [_block_row(series, block) for block in blocks])


def _block_row(series: SeriesRecord, block: Points) -> dict[str, Any]:
    return {
        "series_id": series.id,
        "first_step": int(block.steps[0]),
        "last_step": int(block.steps[-1]),
        "first_time_ms": int(block.times_ms[0]),
        "last_time_ms": int(block.times_ms[-1]),
        "num_points": len(block),
        "rollup": encode_rollup(block),
        "data": encode_block(block),
    }


def _roll_up(database: Database, series_ids: list[int]) -> None:
    """Make the spans for which there are blocks, each in a transaction of its own; the last block,
    which may still grow, is in none. A span that is not made costs readers some time, nothing else."""
    with database.read() as session:
        ready = blocks_db.series_without_spans(session, series_ids, SPAN_BLOCKS + 1)
    for series_id in ready:
        while True:
            with database.transaction() as session:
                if not _make_span(session, series_id):
                    break


def _make_span(session: Session, series_id: int) -> bool:
    """Make the next span of a series. False when there are not enough blocks for one."""
    queries.lock_series(session, [series_id])
    done = blocks_db.last_step_of_spans(session, series_id)
    blocks = blocks_db.first_blocks(session, series_id, done, SPAN_BLOCKS + 1)
    if len(blocks) <= SPAN_BLOCKS:
        return False
    blocks = blocks[:-1]
    rollup = merge_rollups([b.rollup for b in blocks], blocks[0].first_step, blocks[-1].last_step)
    blocks_db.insert_span(session, blocks, rollup, rollup_width(rollup))
    return True


# ---------------------------------------------------------------- summaries


def _recount(session: Session, trial_id: int, repeated: list[SeriesRecord]) -> None:
    """Steps were reported twice: count each once, and forget values that were written over."""
    for series in repeated:
        _store_summary(session, series)
    _refresh_trial(session, trial_id, [s.name for s in repeated])


def _cut_summaries(database: Database, trial_id: int) -> None:
    """Take what a restart has hidden out of the stored summaries, so that reading scans nothing."""
    with database.read() as session:
        cut = summaries.cut_series(session, trial_id)
    for some in queries.chunked(cut, CUT_AT_ONCE):
        with database.read() as session:
            rows = [
                {
                    "of": series.id,
                    "counted": series.count,
                    **summaries.summary_columns(summary),
                }
                for series, limit in some
                if (summary := summaries.scan_summary(session, series, limit)) is not None
            ]
        if not rows:
            continue
        table = queries.table_of(MetricSeriesRow)
        columns = [name for name in rows[0] if name not in ("of", "counted")]
        statement = (
            update(table)
            # What has been reported meanwhile is counted the next time.
            .where(table.c.id == bindparam("of"), table.c.count == bindparam("counted"))
            .values({name: bindparam(f"new_{name}") for name in columns})
        )
        values = [
            {k if k in ("of", "counted") else f"new_{k}": v for k, v in row.items()} for row in rows
        ]
        with database.transaction() as session:
            session.execute(statement, values)
            touch(session, f"trial:{trial_id}:metrics")


def _store_summary(session: Session, series: SeriesRecord) -> None:
    summary = summaries.scan_summary(session, series, STEP_MAX)
    if summary is None:
        return
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(**summaries.summary_columns(summary))
        .execution_options(synchronize_session=False)
    )


def _refresh_trial(session: Session, trial_id: int, names: list[str]) -> None:
    trial = session.scalars(
        select(TrialRow).where(TrialRow.id == trial_id).with_for_update()
    ).first()
    if trial is None:
        return
    trial.summary = {**trial.summary, **summaries.visible_summary(session, trial_id, names)}
    touch(session, f"trial:{trial_id}", f"trial:{trial_id}:metrics")
