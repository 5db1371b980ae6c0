"""From batches (L0) to blocks (L1).

A chunk is one transaction: it takes batches of one (trial, attempt, rank) out of L0 with
DELETE … RETURNING, so that two compactions running at once can never write the same points twice,
and it writes them as blocks. Whatever happens in between, a point is in exactly one of the two.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database, touch
from muster_server.db.models import MetricBatchRow, MetricBlockRow, MetricSeriesRow, TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import (
    Points,
    add_to_rollup,
    concat,
    decode_batch,
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
from muster_server.domain.metrics import BLOCK_POINTS, SPAN_BLOCKS, STEP_MAX
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.services import metrics_summaries

CHUNK_BATCHES = 512
CHUNK_POINTS = 262_144
"""Points in one transaction: about 0.2 s of work, during which SQLite has no other writer."""

BLOCKS_AT_ONCE = 64
"""Blocks that late points change, held in memory together."""

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
    # Whatever retention has looked at: there is something new to look at.
    session.execute(
        update(TrialRow)
        .where(TrialRow.id == trial_id, TrialRow.downsampled_at.is_not(None))
        .values(downsampled_at=None)
        .execution_options(synchronize_session=False)
    )
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
    """Merge new points into the blocks of a series. True when steps occurred more than once.

    Only blocks in which a point lands are read and written again: what is late costs no more for a
    long series. A block that is written has room for as many points as any.
    """
    num_new = len(points)
    points = in_order(points)
    is_repeated = len(points) < num_new
    first_step = int(points.steps[0])
    last = blocks_db.last_block(session, series.id)
    if last is None or (first_step > last.last_step and last.num_points >= BLOCK_POINTS):
        _insert(session, series, split_blocks(points))
    elif first_step > last.last_step:
        # The usual case: everything is new, and only the last, not yet full block is rewritten.
        is_repeated |= _rewrite(session, series, {last.first_step: points}, last.first_step)
    else:
        blocks_db.delete_spans(session, series.id, first_step)
        starts = blocks_db.block_starts(session, series.id, first_step)
        at = np.searchsorted(starts, points.steps, side="right") - 1
        at = np.maximum(at, 0)  # before the first block: into it
        for some in queries.chunked(np.unique(at).tolist(), BLOCKS_AT_ONCE):
            into = {starts[i]: points.only(at == i) for i in some}
            is_repeated |= _rewrite(session, series, into, last.first_step)
    _roll_up(session, series)
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(compacted_step=max(int(points.steps[-1]), -1 if last is None else last.last_step))
        .execution_options(synchronize_session=False)
    )
    return is_repeated


def _rewrite(
    session: Session, series: SeriesRecord, into: dict[int, Points], last_first_step: int
) -> bool:
    """Merge points into blocks, given by their first steps. True when a step was there already."""
    data = blocks_db.block_data(session, [(series.id, first_step) for first_step in into])
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
    blocks_db.insert_blocks(
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
            for block in blocks
        ],
    )


def _roll_up(session: Session, series: SeriesRecord) -> None:
    """Make the spans for which there are blocks; the last block, which may still grow, is in none."""
    done = blocks_db.last_step_of_spans(session, series.id)
    for _ in range((blocks_db.num_blocks(session, series.id, done) - 1) // SPAN_BLOCKS):
        blocks = blocks_db.first_blocks(session, series.id, done, SPAN_BLOCKS)
        rollup = merge_rollups(
            [b.rollup for b in blocks], blocks[0].first_step, blocks[-1].last_step
        )
        blocks_db.insert_span(session, blocks, rollup, rollup_width(rollup))
        done = blocks[-1].last_step


# ---------------------------------------------------------------- summaries


def _recount(session: Session, trial_id: int, repeated: list[SeriesRecord]) -> None:
    """Steps were reported twice: count each once, and forget values that were written over."""
    for series in repeated:
        _store_summary(session, series, STEP_MAX)
    _refresh_trial(session, trial_id, [s.name for s in repeated])


def _cut_summaries(session: Session, trial_id: int) -> None:
    """Take what a restart has hidden out of the stored summaries, so that reading scans nothing."""
    cut = False
    for series, limit in metrics_summaries.cut_series(session, trial_id):
        _store_summary(session, series, limit)
        cut = True
    if cut:
        touch(session, f"trial:{trial_id}:metrics")


def _store_summary(session: Session, series: SeriesRecord, last_step: int) -> None:
    summary = metrics_summaries.scan_summary(session, series, last_step)
    if summary is None:
        return
    session.execute(
        update(MetricSeriesRow)
        .where(MetricSeriesRow.id == series.id)
        .values(**metrics_summaries.summary_columns(summary))
        .execution_options(synchronize_session=False)
    )


def _refresh_trial(session: Session, trial_id: int, names: list[str]) -> None:
    trial = session.scalars(
        select(TrialRow).where(TrialRow.id == trial_id).with_for_update()
    ).first()
    if trial is None:
        return
    trial.summary = {**trial.summary, **metrics_summaries.visible_summary(session, trial_id, names)}
    touch(session, f"trial:{trial_id}", f"trial:{trial_id}:metrics")
