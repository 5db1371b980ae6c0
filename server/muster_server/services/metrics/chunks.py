"""What compaction takes out of L0 at a time: some batches, and of those some series.

A chunk is read and decoded before any lock is taken. It is written in parts, each a transaction of
its own that takes its points out of the batches: a batch of which nothing is left is deleted, any
other gets a body without them. So a point is in L0 or in L1, never in both, wherever a process dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, select, tuple_, update
from sqlalchemy.orm import Session

from muster_server.db.models import MetricBatchRow
from muster_server.db.queries.metrics import chunked, table_of
from muster_server.db.queries.metrics_codec import Points, concat, decode_batch, encode_batch

CHUNK_BATCHES = 512
CHUNK_POINTS = 262_144
CHUNK_BYTES = 8 << 20
"""Bodies of one chunk, which are held in memory; names take most of it where they are many."""


class Key(NamedTuple):
    """One batch in L0."""

    allocation_id: str
    seq: int


@dataclass(frozen=True)
class CompactionBatch:
    key: Key
    num_points: int
    """Points that are stored at the moment. They only ever become fewer, so it tells whether
    somebody else has taken some."""
    series: Mapping[str, Points]


@dataclass(frozen=True)
class CompactionChunk:
    """Batches of one (trial, attempt, rank), in the order in which they were received."""

    trial_id: int
    attempt_no: int
    rank: int
    batches: Sequence[CompactionBatch]

    def names(self) -> list[str]:
        """Return the names of all series, sorted."""
        return sorted({name for batch in self.batches for name in batch.series})

    def points_of(self, name: str) -> Points:
        """Return all points of a series, in the order in which they were reported."""
        return concat([batch.series[name] for batch in self.batches if name in batch.series])


@dataclass(frozen=True)
class Removal:
    """How a part is taken out of the batches of a chunk."""

    gone: Sequence[CompactionBatch]
    """Nothing is left of these."""
    changed: Sequence[tuple[CompactionBatch, Mapping[str, Any]]]
    """Batches that keep some of their points, each as it was, with its new columns."""
    left: Sequence[CompactionBatch]
    """All batches there are afterwards."""


def read_chunk(session: Session, trial_id: int) -> CompactionChunk | None:
    """Return the oldest batches of one (attempt, rank) of a trial; None when L0 is empty."""
    table = MetricBatchRow
    of = session.execute(
        select(table.attempt_no, table.rank)
        .where(table.trial_id == trial_id)
        .order_by(table.attempt_no, table.rank)
        .limit(1)
    ).first()
    if of is None:
        return None
    rows = session.execute(
        select(table.allocation_id, table.seq, table.num_points, table.body)
        .where(table.trial_id == trial_id, table.attempt_no == of.attempt_no, table.rank == of.rank)
        .order_by(table.received_at, table.allocation_id, table.seq)
        .limit(CHUNK_BATCHES)
        .execution_options(stream_results=True)
    )
    batches: list[CompactionBatch] = []
    num_points = size_bytes = 0
    for allocation_id, seq, n, body in rows:
        num_points += n
        size_bytes += len(body)
        if batches and (num_points > CHUNK_POINTS or size_bytes > CHUNK_BYTES):
            break
        batches.append(CompactionBatch(Key(allocation_id, seq), n, decode_batch(body)))
    rows.close()
    return CompactionChunk(trial_id, of.attempt_no, of.rank, batches)


def plan_removal(chunk: CompactionChunk, taken: Mapping[str, int | None]) -> Removal:
    """Plan how to remove points from a chunk.

    taken: for each series to remove points from, the step below which they are removed; None to
    remove all.
    """
    gone: list[CompactionBatch] = []
    left: list[CompactionBatch] = []
    changed: list[tuple[CompactionBatch, Mapping[str, Any]]] = []
    for batch in chunk.batches:
        rest = _rest(batch, taken)
        if not rest.series:
            gone.append(batch)
            continue
        left.append(rest)
        if rest is not batch:
            changed.append((batch, _columns(rest)))
    return Removal(gone, changed, left)


def _rest(batch: CompactionBatch, taken: Mapping[str, int | None]) -> CompactionBatch:
    if not any(name in batch.series for name in taken):
        return batch
    series: dict[str, Points] = {}
    for name, points in batch.series.items():
        if name not in taken:
            series[name] = points
            continue
        before = taken[name]
        kept = None if before is None else points.only(points.steps >= before)
        if kept is not None and len(kept):
            series[name] = kept
    return CompactionBatch(batch.key, sum(map(len, series.values())), series)


def _columns(batch: CompactionBatch) -> Mapping[str, Any]:
    points = concat(list(batch.series.values()))
    return {
        "of": batch.key.allocation_id,
        "no": batch.key.seq,
        "num_points": batch.num_points,
        "first_step": int(points.steps.min()),
        "last_step": int(points.steps.max()),
        "body": encode_batch(
            [(name, len(part)) for name, part in batch.series.items()],
            points.steps,
            points.times_ms,
            points.values,
        ),
    }


def remove(session: Session, removal: Removal) -> bool:
    """Take the points of a part out of L0.

    False when the batches are not as they were read, because another compaction was faster: roll
    back then, and read the chunk anew.
    """
    return _delete(session, removal.gone) == len(removal.gone) and _rewrite(
        session, removal.changed
    )


def _delete(session: Session, batches: Sequence[CompactionBatch]) -> int:
    table = MetricBatchRow
    num_deleted = 0
    for some in chunked([(*batch.key, batch.num_points) for batch in batches]):
        done = session.execute(
            delete(table)
            .where(tuple_(table.allocation_id, table.seq, table.num_points).in_(some))
            .execution_options(synchronize_session=False)
        )
        num_deleted += done.rowcount  # type: ignore[attr-defined]
    return num_deleted


def _rewrite(
    session: Session, batches: Sequence[tuple[CompactionBatch, Mapping[str, Any]]]
) -> bool:
    """Replace bodies. False when one of them was not as it was read."""
    table = table_of(MetricBatchRow).c
    num_locked = 0
    for some in chunked([(*old.key, old.num_points) for old, _ in batches]):
        found = session.execute(
            select(table.seq)
            .where(tuple_(table.allocation_id, table.seq, table.num_points).in_(some))
            .with_for_update()
        )
        num_locked += len(found.all())
    if num_locked != len(batches):
        return False
    if batches:
        columns = ("num_points", "first_step", "last_step", "body")
        session.execute(
            update(table_of(MetricBatchRow))
            .where(table.allocation_id == bindparam("of"), table.seq == bindparam("no"))
            .values({name: bindparam(f"new_{name}") for name in columns}),
            [
                {k if k in ("of", "no") else f"new_{k}": v for k, v in row.items()}
                for _, row in batches
            ],
        )
    return True
