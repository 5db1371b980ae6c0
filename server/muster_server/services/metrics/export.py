"""Every visible point of a trial's series: as CSV, as JSON lines, as a Parquet file.

Series are read piece by piece, each in a short session of its own: memory stays bounded whatever
their length, and a slow reader holds no transaction.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from sqlalchemy.orm import Session

from muster.wire import encode_number
from muster_server.db.engine import Database
from muster_server.db.queries import metrics as queries
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import Points, concat, in_order

from .cold import decoded
from .curves import CurveSegment, segments_of, shown_groups
from .loading import tails_of

FIELDS = ("name", "rank", "attempt_no", "step", "time_ms", "value")

FORMULA_STARTS = "=+-@"
"""First characters that a spreadsheet takes for those of a formula: a name gets ' in front of them."""
BLOCKS_AT_ONCE = 8
"""Up to 32,768 points are held at once."""
FILE_CHUNK_BYTES = 1 << 18
FILE_IN_MEMORY_BYTES = 1 << 23
"""A Parquet file, whose end tells of its beginning, is made before any of it is sent: in memory up
to this size, and then on disk."""


@dataclass(frozen=True)
class Piece:
    """Consecutive visible points of one stored series."""

    record: SeriesRecord
    points: Points


def visible_pieces(
    database: Database,
    trial_id: int,
    *,
    names: Sequence[str] | None = None,
    ranks: Sequence[int] | None = None,
    from_step: int | None = None,
    to_step: int | None = None,
) -> Iterator[Piece]:
    """Yield the visible points of these names (None: all) and ranks (None: all) in a window of
    steps, series after series, each in step order."""
    with database.read() as session:
        queries.begin_snapshot(session)
        groups = shown_groups(session, [trial_id], names, ranks)
    for group in groups:
        for segment in segments_of(group, from_step, to_step):
            yield from _pieces_of(database, segment)


def without_formula(name: str) -> str:
    """Return a name as a cell that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(tuple(FORMULA_STARTS)) else name


def as_csv(pieces: Iterator[Piece]) -> Iterator[bytes]:
    """Yield a line of FIELDS, then one per point; what is not finite as NaN, Infinity,
    -Infinity."""
    yield _csv_lines([FIELDS])
    for piece in pieces:
        r = piece.record
        yield _csv_lines(
            [(without_formula(r.name), r.rank, r.attempt_no, *row) for row in _rows(piece.points)]
        )


def as_json_lines(pieces: Iterator[Piece]) -> Iterator[bytes]:
    """Yield an object of FIELDS per line; what is not finite as the strings "NaN", "Infinity" and
    "-Infinity", as everywhere in the REST service."""
    encoder = msgspec.json.Encoder()
    for piece in pieces:
        r = piece.record
        yield encoder.encode_lines(
            [
                dict(zip(FIELDS, (r.name, r.rank, r.attempt_no, *row), strict=True))
                for row in _rows(piece.points)
            ]
        )


def as_parquet(pieces: Iterator[Piece]) -> Iterator[bytes]:
    """Yield a Parquet file with the columns FIELDS; values are float64 with every bit, NaN
    included."""
    # Here, because few requests are for it and it takes its time to load.
    from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema
    from arro3.io import write_parquet

    types = (
        DataType.utf8(),
        DataType.int32(),
        DataType.int32(),
        DataType.int64(),
        DataType.int64(),
        DataType.float64(),
    )
    schema = Schema([Field(f, t, nullable=False) for f, t in zip(FIELDS, types, strict=True)])

    def batches() -> Iterator[RecordBatch]:
        for piece in pieces:
            r, p = piece.record, piece.points
            columns = [
                Array([r.name] * len(p), types[0]),
                Array.from_numpy(np.full(len(p), r.rank, np.int32)),
                Array.from_numpy(np.full(len(p), r.attempt_no, np.int32)),
                Array.from_numpy(np.ascontiguousarray(p.steps)),
                Array.from_numpy(np.ascontiguousarray(p.times_ms)),
                Array.from_numpy(np.ascontiguousarray(p.values)),
            ]
            yield RecordBatch.from_arrays(columns, schema=schema)

    with tempfile.SpooledTemporaryFile(max_size=FILE_IN_MEMORY_BYTES) as file:
        write_parquet(
            RecordBatchReader.from_batches(schema, batches()), file, compression="zstd(1)"
        )
        file.seek(0)
        while chunk := file.read(FILE_CHUNK_BYTES):
            yield chunk


def _pieces_of(database: Database, segment: CurveSegment) -> Iterator[Piece]:
    position = segment.first_step
    while position <= segment.last_step:
        with database.read() as session:
            queries.begin_snapshot(session)
            points, end = next_points(session, segment, position)
        if len(points):
            yield Piece(segment.record, points)
        position = end + 1


def stored_points(
    session: Session, trial_id: int, name: str, *, from_step: int = 0, to_step: int | None = None
) -> Iterator[Points]:
    """Yield the visible points of a series of rank 0 within steps, both included, in step order and
    some at a time."""
    for group in shown_groups(session, [trial_id], [name], [0]):
        for segment in segments_of(group, from_step, to_step):
            position = segment.first_step
            while position <= segment.last_step:
                points, end = next_points(session, segment, position)
                if len(points):
                    yield points
                position = end + 1


def next_points(session: Session, segment: CurveSegment, position: int) -> tuple[Points, int]:
    """Return the next points of a segment from a step on, and the step up to which these are all."""
    tail = tails_of(session, [segment], position, segment.last_step)[0]
    tail = tail.between(position, segment.last_step)
    blocks = blocks_db.first_blocks_of(
        session, segment.record.id, position, segment.last_step, BLOCKS_AT_ONCE
    )
    data = blocks_db.block_data(session, [(b.series_id, b.first_step) for b in blocks])
    end = segment.last_step
    if len(blocks) == BLOCKS_AT_ONCE:
        end = min(end, blocks[-1].last_step)
    stored = decoded(session, data)
    points = concat([*(stored[key] for key in sorted(stored)), tail])
    return in_order(points).between(position, end), end


def _rows(points: Points) -> Iterator[tuple[int, int, float | str]]:
    values = (encode_number(v) for v in points.values.tolist())
    return zip(points.steps.tolist(), points.times_ms.tolist(), values, strict=True)


def _csv_lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
