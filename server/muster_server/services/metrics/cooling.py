"""Moving points of trials that ended long ago out of the database, into one Parquet file per trial.

The file is written and read back before anything refers to it. Then its blocks, some a transaction, give
up their points for the place in the file, each only if it still is what was written. So a point is in the
database or in a complete file, wherever a process dies. A block that is written again has its points in the
database again (`thaw`), until the trial's next file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import secrets
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import structlog
from sqlalchemy import ColumnElement, bindparam, exists, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import (
    MetricBatchRow,
    MetricBlockRow,
    MetricFileRow,
    MetricSeriesRow,
    TrialRow,
)
from muster_server.db.pace import Pace, paced
from muster_server.db.queries import metrics as queries
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import (
    ColdPlace,
    Points,
    cold_place,
    encode_block,
    encode_cold,
    is_downsampled,
)
from muster_server.errors import Unavailable

from . import cold_store
from .cold import BlockKey, decoded, read_group

log = structlog.get_logger(__name__)

GROUP_ROWS = 65_536
"""Rows of a row group, the least that is read of a file: 1.5 MB of points."""
COMPRESSION_LEVEL = 3
DUE_MAX = 200
BUDGET_S = 60.0
FAILURES_MAX = 3
"""Trials of one turn, seconds after which it begins no further one, and failures after which it ends."""
AGAIN_AFTER = dt.timedelta(days=1)
"""A trial gets no second file before: a late value has all of its points written again."""
BLOCKS_AT_ONCE = 8
"""Blocks that are read in one session."""
BLOCKS_MAX = 256
BLOCKS_LEAST = 16
"""Blocks that one transaction changes, at most and at least."""
WRITING_MAX = dt.timedelta(hours=6)
"""A file at which nobody has been done after so long was left by a process that has died."""
RETIRED_FOR = dt.timedelta(hours=1)
"""A file that no block refers to is kept so long, for whoever has read where points are and not yet them."""
FILES_MAX = 100
"""Files that are deleted in one turn."""


@dataclass(frozen=True)
class Cooled:
    """What left the database."""

    num_points: int
    num_blocks: int
    size_bytes: int
    """Size of the file."""


class _MovedBlock(NamedTuple):
    key: BlockKey
    digest: bytes
    """Digest of its data as written; tells whether they still are the same."""
    place: ColdPlace
    is_downsampled: bool


@dataclass
class _Contents:
    """What was written to a file."""

    num_rows: int = 0
    checksums: list[int] = field(default_factory=list)
    """Checksum of each row group."""
    blocks: list[_MovedBlock] = field(default_factory=list)


class _FileGivenUp(Exception):
    """The file was given up while it was written."""


def due_trials(session: Session, now: dt.datetime, *, days: int) -> list[int]:
    """Return at most DUE_MAX trials that ended more than `days` ago and have points in the database, the
    oldest first. Those are left out at which somebody works, of which a file was made or tried lately, or
    whose batches are not compacted yet."""
    is_recent = (MetricFileRow.stored_at > now - AGAIN_AFTER) | (
        MetricFileRow.created_at > now - RETIRED_FOR
    )
    return list(
        session.scalars(
            select(TrialRow.id)
            .where(
                TrialRow.cold_at.is_(None),
                TrialRow.ended_at < now - dt.timedelta(days=days),
                ~_has_batches(),
                ~exists().where(MetricFileRow.trial_id == TrialRow.id, _is_in_work() | is_recent),
            )
            .order_by(TrialRow.ended_at, TrialRow.id)
            .limit(DUE_MAX)
        )
    )


def cool_due(database: Database, now: dt.datetime, *, days: int, budget_s: float = BUDGET_S) -> int:
    """Move the points of trials that are due into files, for `budget_s`; return of how many trials.

    Raises Unavailable after FAILURES_MAX trials whose files cannot be written or read.
    """
    deadline = time.monotonic() + budget_s
    with database.read() as session:
        due = due_trials(session, now, days=days)
    num_moved = num_failed = 0
    for trial_id in due:
        if time.monotonic() > deadline:
            break
        try:
            num_moved += cool_trial(database, trial_id, now) is not None
        except Unavailable as error:
            num_failed += 1
            if num_failed == FAILURES_MAX:
                raise
            log.warning("cooling_failed", trial_id=trial_id, reason=error.message)
    return num_moved


def cool_trial(database: Database, trial_id: int, now: dt.datetime) -> Cooled | None:
    """Move the points of a trial into a file. None: there are none to move, or somebody is at it.

    Raises Unavailable if the store cannot be written; everything is then as it was.
    """
    file_id, name = _begin(database, trial_id, now)
    if not file_id:
        return None
    try:
        contents = _write(database, file_id, name, trial_id)
        _verify(name, contents)
        size_bytes = cold_store.size_of(name) or 0
        _store(database, file_id, contents, size_bytes, now)
    except Exception:
        with database.transaction() as session:
            _set(session, MetricFileRow.id == file_id, retired_at=now)
        with contextlib.suppress(Unavailable):  # Its row stays until it is certainly gone.
            cold_store.delete(name)
        raise
    num_moved = _refer(database, contents.blocks)
    _finish(database, trial_id, file_id, num_moved == len(contents.blocks), num_moved, now)
    return Cooled(contents.num_rows, num_moved, size_bytes)


def _has_batches() -> ColumnElement[bool]:
    return exists().where(MetricBatchRow.trial_id == TrialRow.id)


def _is_in_work() -> ColumnElement[bool]:
    return MetricFileRow.finished_at.is_(None) & MetricFileRow.retired_at.is_(None)


def _set(session: Session, *where: ColumnElement[bool], **values: Any) -> int:
    """Change files; return how many."""
    done = session.execute(
        update(MetricFileRow)
        .where(*where)
        .values(**values)
        .execution_options(synchronize_session=False)
    )
    return int(done.rowcount)  # type: ignore[attr-defined]


def _begin(database: Database, trial_id: int, now: dt.datetime) -> tuple[int, str]:
    """Return the id and the name of a file to write; (0, "") if there is nothing to do."""
    with database.transaction() as session:
        trial = session.get(TrialRow, trial_id, with_for_update=True)
        if trial is None or trial.cold_at is not None or trial.ended_at is None:
            return 0, ""
        of_trial = MetricFileRow.trial_id == trial_id
        if session.scalar(select(exists().where(of_trial, _is_in_work()))):
            return 0, ""
        if _num_blocks(session, trial_id) == 0:
            trial.cold_at = now
            return 0, ""
        row = MetricFileRow(trial_id=trial_id, name="", group_rows=GROUP_ROWS, created_at=now)
        session.add(row)
        session.flush()
        # Nothing is ever written over, even where two servers have been given the same store.
        row.name = (
            f"experiment={trial.experiment_id}/trial={trial_id}/"
            f"{row.id}-{secrets.token_hex(4)}.parquet"
        )
        return row.id, row.name


def _num_blocks(session: Session, trial_id: int) -> int:
    query = (
        select(func.count())
        .select_from(MetricBlockRow)
        .join(MetricSeriesRow, MetricSeriesRow.id == MetricBlockRow.series_id)
        .where(MetricSeriesRow.trial_id == trial_id)
    )
    return session.scalar(query) or 0


# ---------------------------------------------------------------- the file


def _write(database: Database, file_id: int, name: str, trial_id: int) -> _Contents:
    from pyarrow import parquet

    contents = _Contents()
    with (
        cold_store.created(name) as sink,
        parquet.ParquetWriter(
            sink,
            _schema(),
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=["name", "rank", "attempt_no"],
            column_encoding={"step": "DELTA_BINARY_PACKED", "time_ms": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        ) as writer,
    ):
        parts = _stored_parts(database, file_id, trial_id, contents)
        for group in _in_groups(parts):
            table = _table(group)
            writer.write_table(table, row_group_size=GROUP_ROWS)
            contents.checksums.append(_checksum([points for _, points in group]))
    return contents


def _schema() -> Any:
    import pyarrow as pa

    types = (pa.string(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.float64())
    names = ("name", "rank", "attempt_no", "step", "time_ms", "value")
    return pa.schema(
        [pa.field(n, kind, nullable=False) for n, kind in zip(names, types, strict=True)]
    )


_StoredPart = tuple[SeriesRecord, Points]


def _stored_parts(
    database: Database, file_id: int, trial_id: int, contents: _Contents
) -> Iterator[_StoredPart]:
    """Yield the points of all blocks, series after series, and note in `contents` where they go."""
    with database.read() as session:
        records = queries.find_series(session, [trial_id])
    for record in records:
        after_step = -1
        while True:
            with database.read() as session:
                queries.begin_snapshot(session)
                found = blocks_db.first_blocks(session, record.id, after_step, BLOCKS_AT_ONCE)
                data = blocks_db.block_data(session, [(b.series_id, b.first_step) for b in found])
                points = decoded(session, data)
            for key in sorted(points):
                place = ColdPlace(file_id, contents.num_rows, len(points[key]))
                contents.blocks.append(
                    _MovedBlock(key, _digest(data[key]), place, is_downsampled(data[key]))
                )
                contents.num_rows += len(points[key])
                yield record, points[key]
            if len(found) < BLOCKS_AT_ONCE:
                break
            after_step = found[-1].first_step


def _in_groups(parts: Iterator[_StoredPart]) -> Iterator[list[_StoredPart]]:
    """Yield the parts in row groups of exactly GROUP_ROWS rows, the last one left out."""
    group: list[_StoredPart] = []
    room = GROUP_ROWS
    for record, given in parts:
        points = given
        while len(points) >= room:
            group.append((record, _slice(points, 0, room)))
            yield group
            points = _slice(points, room, len(points))
            group, room = [], GROUP_ROWS
        if len(points):
            group.append((record, points))
            room -= len(points)
    if group:
        yield group


def _slice(points: Points, begin: int, end: int) -> Points:
    return Points(points.steps[begin:end], points.times_ms[begin:end], points.values[begin:end])


def _table(group: Sequence[_StoredPart]) -> Any:
    import pyarrow as pa

    lengths = [len(points) for _, points in group]
    indices = np.repeat(np.arange(len(group), dtype=np.int32), lengths)
    names = pa.DictionaryArray.from_arrays(indices, pa.array([r.name for r, _ in group]))
    columns = [
        names.cast(pa.string()),
        np.repeat(np.array([r.rank for r, _ in group], np.int32), lengths),
        np.repeat(np.array([r.attempt_no for r, _ in group], np.int32), lengths),
        np.concatenate([points.steps for _, points in group]),
        np.concatenate([points.times_ms for _, points in group]),
        np.concatenate([points.values for _, points in group]),
    ]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=_schema())


def _checksum(parts: Sequence[Points]) -> int:
    """Return a checksum of every bit of consecutive points."""
    value = 0
    for column in ("steps", "times_ms", "values"):
        for points in parts:
            value = zlib.crc32(np.ascontiguousarray(getattr(points, column)).data, value)
    return value


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _verify(name: str, contents: _Contents) -> None:
    """Read a file back. Raises Unavailable if it is not what was written."""
    from pyarrow import parquet

    with cold_store.opened(name) as source:
        footer = parquet.read_metadata(source)
        if footer.num_rows != contents.num_rows or footer.num_row_groups != len(contents.checksums):
            raise cold_store.unavailable(
                f"{name} has {footer.num_rows:,} rows instead of the {contents.num_rows:,} written."
            )
        for index, wanted in enumerate(contents.checksums):
            if _checksum([read_group(source, index, footer=footer)]) != wanted:
                raise cold_store.unavailable(
                    f"row group {index} of {name} is not what was written."
                )


def _store(
    database: Database, file_id: int, contents: _Contents, size_bytes: int, now: dt.datetime
) -> None:
    with database.transaction() as session:
        num_set = _set(
            session,
            MetricFileRow.id == file_id,
            _is_in_work(),
            stored_at=now,
            size_bytes=size_bytes,
            num_points=contents.num_rows,
        )
        if num_set != 1:
            raise _FileGivenUp(f"the metric file {file_id} was given up after {WRITING_MAX}")


# ---------------------------------------------------------------- the blocks


def _refer(database: Database, blocks: Sequence[_MovedBlock]) -> int:
    """Have blocks refer to their file, those that still are what was written; return how many."""
    pace = Pace(BLOCKS_MAX, first=BLOCKS_MAX // 4, least=BLOCKS_LEAST)
    at = num_moved = 0
    while at < len(blocks):
        some = blocks[at : at + pace.size]
        at += len(some)
        with paced(database, pace) as session:
            queries.lock_series(session, list({block.key[0] for block in some}))
            data = blocks_db.block_data(session, [block.key for block in some])
            same = [b for b in some if b.key in data and _digest(data[b.key]) == b.digest]
            _put(
                session,
                {b.key: encode_cold(b.place, is_downsampled=b.is_downsampled) for b in same},
            )
            num_moved += len(same)
    return num_moved


def _put(session: Session, data: dict[BlockKey, bytes]) -> None:
    """Replace the data of blocks."""
    if not data:
        return
    table = queries.table_of(MetricBlockRow)
    session.execute(
        update(table)
        .where(table.c.series_id == bindparam("of"), table.c.first_step == bindparam("at"))
        .values(data=bindparam("new_data")),
        [{"of": of, "at": at, "new_data": block} for (of, at), block in data.items()],
    )


def _finish(
    database: Database,
    trial_id: int,
    file_id: int,
    is_whole: bool,
    num_moved: int,
    now: dt.datetime,
) -> None:
    """Note that a file is done. If all blocks of the trial refer to it, no other is needed."""
    with database.transaction() as session:
        trial = session.get(TrialRow, trial_id, with_for_update=True)
        _set(session, MetricFileRow.id == file_id, finished_at=now)
        if trial is None or not is_whole or num_moved != _num_blocks(session, trial_id):
            return
        _set(
            session,
            MetricFileRow.trial_id == trial_id,
            MetricFileRow.id != file_id,
            MetricFileRow.finished_at.is_not(None),
            MetricFileRow.retired_at.is_(None),
            retired_at=now,
        )
        has_batches = select(exists().where(MetricBatchRow.trial_id == trial_id))
        if trial.ended_at is not None and not session.scalar(has_batches):
            trial.cold_at = now


# ---------------------------------------------------------------- back into the database


def thaw(database: Database, trial_id: int, keys: Sequence[BlockKey], *, whole: bool) -> int:
    """Bring the points of blocks back into the database; return how many blocks it were.

    whole: leave blocks alone that retention has thinned out. Raises Unavailable.
    """
    with database.read() as session:
        queries.begin_snapshot(session)
        data = {
            key: block
            for key, block in blocks_db.block_data(session, keys).items()
            if cold_place(block) is not None and not (whole and is_downsampled(block))
        }
        points = decoded(session, data)
    for some in queries.chunked(data, BLOCKS_LEAST):
        warm = {
            key: encode_block(points[key], is_downsampled=is_downsampled(data[key])) for key in some
        }
        with database.transaction() as session:
            queries.lock_series(session, list({key[0] for key in some}))
            now_there = blocks_db.block_data(session, some)
            _put(session, {key: warm[key] for key in some if now_there.get(key) == data[key]})
            session.execute(
                update(TrialRow)
                .where(TrialRow.id == trial_id, TrialRow.cold_at.is_not(None))
                .values(cold_at=None)
                .execution_options(synchronize_session=False)
            )
    return len(data)


# ---------------------------------------------------------------- files that are there


def _is_needed() -> ColumnElement[bool]:
    return MetricFileRow.stored_at.is_not(None) & MetricFileRow.retired_at.is_(None)


def stored(session: Session) -> tuple[int, int]:
    """Return how many files blocks may refer to, and their bytes."""
    query = select(func.count(), func.sum(MetricFileRow.size_bytes)).where(_is_needed())
    num, size_bytes = session.execute(query).one()
    return num, int(size_bytes or 0)


def find_missing(database: Database, limit: int) -> list[str]:
    """Return the names of files that are not in the store as they were written, of the newest `limit`.
    Raises Unavailable."""
    with database.read() as session:
        rows = session.execute(
            select(MetricFileRow.name, MetricFileRow.size_bytes)
            .where(_is_needed())
            .order_by(MetricFileRow.id.desc())
            .limit(limit)
        ).all()
    return [row.name for row in rows if cold_store.size_of(row.name) != row.size_bytes]


# ---------------------------------------------------------------- files that nobody needs


def delete_unneeded(database: Database, now: dt.datetime) -> int:
    """Delete files of trials that are gone, files that a later one has replaced, and files that a process
    left behind when it died; return how many. Raises Unavailable, and goes on the next time."""
    has_trial = exists().where(TrialRow.id == MetricFileRow.trial_id)
    is_left = _is_in_work() & (MetricFileRow.created_at < now - WRITING_MAX)
    with database.transaction() as session:
        _set(session, MetricFileRow.retired_at.is_(None), ~has_trial, retired_at=now)
        _set(session, is_left, MetricFileRow.stored_at.is_(None), retired_at=now)
        # Blocks may refer to it: the trial's next file replaces it.
        _set(session, is_left, MetricFileRow.stored_at.is_not(None), finished_at=now)
    with database.read() as session:
        unneeded = session.execute(
            select(MetricFileRow.id, MetricFileRow.name)
            .where(
                MetricFileRow.retired_at.is_not(None),
                (MetricFileRow.retired_at <= now - RETIRED_FOR) | ~has_trial,
            )
            .order_by(MetricFileRow.retired_at, MetricFileRow.id)
            .limit(FILES_MAX)
        ).all()
    for row in unneeded:
        cold_store.delete(row.name)
        with database.transaction() as session:
            file = session.get(MetricFileRow, row.id)
            if file is not None:
                session.delete(file)
    return len(unneeded)
