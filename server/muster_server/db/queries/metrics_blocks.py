"""Reading and writing stored points: batches (L0), blocks (L1) and spans of blocks (L2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, tuple_
from sqlalchemy.orm import Session

from muster_server.db.models import MetricBatchRow, MetricBlockRow, MetricSpanRow
from muster_server.domain.metrics import BLOCK_POINTS

from .metrics import chunked, table_of
from .metrics_codec import COLD_CODECS


class Rollup(NamedTuple):
    """A block or a span without its points."""

    series_id: int
    first_step: int
    last_step: int
    num_points: int
    rollup: bytes


class StepRange(NamedTuple):
    """Steps of one series, both ends included."""

    series_id: int
    first_step: int
    last_step: int
    cuts: bool
    """Whether a block may begin before it and reach into it."""


def find_blocks(
    session: Session, series_ids: Sequence[int], first_step: int, last_step: int
) -> dict[int, list[Rollup]]:
    """Series → its blocks that hold a step of first_step..last_step, in step order."""
    found: dict[int, list[Rollup]] = {}
    table = MetricBlockRow
    for chunk in chunked(series_ids):
        statement = _select_blocks().where(
            table.series_id.in_(chunk),
            table.first_step <= last_step,
            table.last_step >= first_step,
        )
        if first_step > 0:
            # Its index then begins near the window: a window at the end of a long series would
            # otherwise look at all the rows before it.
            start = _start_of_window(session, chunk, first_step)
            statement = statement.where(table.first_step >= start)
        for row in session.execute(statement):
            found.setdefault(row[0], []).append(Rollup(*row))
    return found


def first_blocks_of(
    session: Session, series_id: int, first_step: int, last_step: int, limit: int
) -> list[Rollup]:
    """Return the first `limit` blocks of a series that hold a step of first_step..last_step."""
    table = MetricBlockRow
    start = _start_of_window(session, [series_id], first_step)
    rows = session.execute(
        _select_blocks()
        .where(
            table.series_id == series_id,
            table.first_step.between(start, last_step),
            table.last_step >= first_step,
        )
        .limit(limit)
    )
    return [Rollup(*row) for row in rows]


def find_blocks_in(session: Session, ranges: Sequence[StepRange]) -> dict[int, list[Rollup]]:
    """Series → its blocks that hold a step of one of these ranges, in step order."""
    found: dict[int, list[Rollup]] = {}
    table = MetricBlockRow
    for chunk in chunked(ranges, 50):
        of_range = []
        for series_id, first, last, cuts in chunk:
            start = _start_of_window(session, [series_id], first) if cuts else first
            is_in_range = and_(table.series_id == series_id, table.first_step.between(start, last))
            of_range.append(and_(is_in_range, table.last_step >= first) if cuts else is_in_range)
        for row in session.execute(_select_blocks().where(or_(*of_range))):
            found.setdefault(row[0], []).append(Rollup(*row))
    return found


def _select_blocks() -> Any:
    table = MetricBlockRow
    return select(
        table.series_id, table.first_step, table.last_step, table.num_points, table.rollup
    ).order_by(table.series_id, table.first_step)


def _start_of_window(session: Session, series_ids: Sequence[int], first_step: int) -> int:
    """Return the least first step of the blocks in which `first_step` may lie; blocks do not
    overlap."""
    table = MetricBlockRow
    starts = session.execute(
        select(func.max(table.first_step))
        .where(table.series_id.in_(series_ids), table.first_step <= first_step)
        .group_by(table.series_id)
    ).scalars()
    return min(starts, default=first_step)


def find_spans(
    session: Session, series_ids: Sequence[int], first_step: int, last_step: int, max_width: int
) -> dict[int, list[tuple[Rollup, int]]]:
    """Series → its spans within first_step..last_step with buckets of at most `max_width` steps,
    each with its buckets' width, in step order."""
    found: dict[int, list[tuple[Rollup, int]]] = {}
    table = MetricSpanRow
    for chunk in chunked(series_ids):
        rows = session.execute(
            select(
                table.series_id,
                table.first_step,
                table.last_step,
                table.num_points,
                table.rollup,
                table.bucket_steps,
            )
            .where(
                table.series_id.in_(chunk),
                table.first_step >= first_step,
                table.last_step <= last_step,
                table.bucket_steps <= max_width,
            )
            .order_by(table.series_id, table.first_step)
        )
        for row in rows:
            found.setdefault(row[0], []).append((Rollup(*row[:5]), row[5]))
    return found


def block_data(session: Session, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """(series, first step) → the block's encoded points."""
    table = MetricBlockRow
    found: dict[tuple[int, int], bytes] = {}
    for chunk in chunked(keys, 200):
        rows = session.execute(
            select(table.series_id, table.first_step, table.data).where(
                tuple_(table.series_id, table.first_step).in_(chunk)
            )
        )
        for series_id, first_step, data in rows:
            found[series_id, first_step] = data
    return found


def is_cold() -> ColumnElement[bool]:
    """Return the condition of blocks whose points are in a file."""
    return func.substr(MetricBlockRow.data, 1, 1).in_(COLD_CODECS)


@dataclass(frozen=True)
class Batch:
    trial_id: int
    attempt_no: int
    rank: int
    body: bytes


def find_batches(
    session: Session,
    wanted: Iterable[tuple[int, int, int]],
    first_step: int,
    last_step: int,
) -> list[Batch]:
    """Return the uncompacted batches of these (trial, attempt, rank) that may hold a step of
    first_step..last_step, in the order they were written."""
    table = MetricBatchRow
    found: list[Batch] = []
    by_attempt: dict[tuple[int, int], list[int]] = {}
    for trial_id, attempt_no, rank in wanted:
        by_attempt.setdefault((trial_id, attempt_no), []).append(rank)
    for chunk in chunked(by_attempt.items(), 50):
        rows = session.execute(
            select(table.trial_id, table.attempt_no, table.rank, table.body)
            .where(
                or_(
                    *(
                        and_(
                            table.trial_id == trial_id,
                            table.attempt_no == attempt_no,
                            table.rank.in_(ranks),
                        )
                        for (trial_id, attempt_no), ranks in chunk
                    )
                ),
                table.first_step <= last_step,
                table.last_step >= first_step,
            )
            .order_by(table.received_at, table.allocation_id, table.seq)
        )
        found.extend(Batch(*row) for row in rows)
    return found


def insert_blocks(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    session.execute(insert(table_of(MetricBlockRow)), list(rows))


# ---------------------------------------------------------------- what compaction writes


class BlockMark(NamedTuple):
    """Tells whether a last block is still the one that was read: it only grows, or is thinned out."""

    first_step: int
    last_step: int
    num_points: int
    size_bytes: int


class LastBlock(NamedTuple):
    mark: BlockMark
    data: bytes | None
    """Its encoded points, when there is room for more."""

    @property
    def first_step(self) -> int:
        return self.mark.first_step

    @property
    def last_step(self) -> int:
        return self.mark.last_step


def last_blocks(session: Session, series_ids: Sequence[int]) -> dict[int, LastBlock]:
    """Series → its last block; those without one are left out."""
    marks = last_block_marks(session, series_ids)
    room = [(i, mark.first_step) for i, mark in marks.items() if mark.num_points < BLOCK_POINTS]
    data = block_data(session, room)
    return {i: LastBlock(mark, data.get((i, mark.first_step))) for i, mark in marks.items()}


def last_block_marks(session: Session, series_ids: Sequence[int]) -> dict[int, BlockMark]:
    """Series → what tells its last block from any other; those without one are left out."""
    table = MetricBlockRow
    marks: dict[int, BlockMark] = {}
    for chunk in chunked(series_ids):
        last = (
            select(table.series_id, func.max(table.first_step))
            .where(table.series_id.in_(chunk))
            .group_by(table.series_id)
        )
        rows = session.execute(
            select(
                table.series_id,
                table.first_step,
                table.last_step,
                table.num_points,
                func.length(table.data),
            ).where(tuple_(table.series_id, table.first_step).in_(last))
        )
        marks.update({row[0]: BlockMark(*row[1:]) for row in rows})
    return marks


def block_starts(session: Session, series_id: int, from_step: int) -> list[int]:
    """First steps of the blocks in which steps from `from_step` on belong, in order: the block
    that holds it, or begins last before it, and all that follow."""
    table = MetricBlockRow
    start = _start_of_window(session, [series_id], from_step)
    return list(
        session.scalars(
            select(table.first_step)
            .where(table.series_id == series_id, table.first_step >= start)
            .order_by(table.first_step)
        )
    )


def delete_blocks(session: Session, series_id: int, first_steps: Sequence[int]) -> None:
    for chunk in chunked(first_steps):
        session.execute(
            delete(MetricBlockRow)
            .where(MetricBlockRow.series_id == series_id, MetricBlockRow.first_step.in_(chunk))
            .execution_options(synchronize_session=False)
        )


def delete_these_blocks(session: Session, keys: Sequence[tuple[int, int]]) -> None:
    """Delete blocks by (series, first step)."""
    table = MetricBlockRow
    for chunk in chunked(keys):
        session.execute(
            delete(table)
            .where(tuple_(table.series_id, table.first_step).in_(chunk))
            .execution_options(synchronize_session=False)
        )


def delete_spans(session: Session, series_id: int, from_step: int) -> None:
    """Delete the spans that hold a step of `from_step` or above."""
    session.execute(
        delete(MetricSpanRow)
        .where(MetricSpanRow.series_id == series_id, MetricSpanRow.last_step >= from_step)
        .execution_options(synchronize_session=False)
    )


def last_step_of_spans(session: Session, series_id: int) -> int:
    """-1 when there is no span."""
    last = session.scalar(
        select(func.max(MetricSpanRow.last_step)).where(MetricSpanRow.series_id == series_id)
    )
    return -1 if last is None else last


def first_blocks(session: Session, series_id: int, after_step: int, limit: int) -> list[Rollup]:
    """Return the first `limit` blocks that begin after `after_step`."""
    table = MetricBlockRow
    rows = session.execute(
        _select_blocks()
        .where(table.series_id == series_id, table.first_step > after_step)
        .limit(limit)
    )
    return [Rollup(*row) for row in rows]


def series_without_spans(session: Session, series_ids: Sequence[int], num_blocks: int) -> list[int]:
    """Return the series of which at least `num_blocks` blocks are in no span."""
    block, span = MetricBlockRow, MetricSpanRow
    found: list[int] = []
    for chunk in chunked(series_ids):
        done = (
            select(func.max(span.last_step))
            .where(span.series_id == block.series_id)
            .scalar_subquery()
        )
        found.extend(
            session.scalars(
                select(block.series_id)
                .where(block.series_id.in_(chunk), block.first_step > func.coalesce(done, -1))
                .group_by(block.series_id)
                .having(func.count() >= num_blocks)
            )
        )
    return found


def insert_span(session: Session, blocks: Sequence[Rollup], rollup: bytes, width: int) -> None:
    session.execute(
        insert(table_of(MetricSpanRow)),
        {
            "series_id": blocks[0].series_id,
            "first_step": blocks[0].first_step,
            "last_step": blocks[-1].last_step,
            "num_points": sum(block.num_points for block in blocks),
            "bucket_steps": width,
            "rollup": rollup,
        },
    )
