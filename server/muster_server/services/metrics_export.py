"""Every visible point of a trial's series, as lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from muster.wire import encode_number
from muster_server.db.engine import Database
from muster_server.db.queries import metrics as queries
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics_codec import concat, decode_block, in_order

from .metrics_curves import Segment, groups_of, segments_of
from .metrics_loading import tails_of

CSV_FIELDS = ("name", "rank", "attempt_no", "step", "time_ms", "value")


def export_csv(
    database: Database,
    trial_id: int,
    *,
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
    from_step: int | None,
    to_step: int | None,
) -> Iterator[bytes]:
    """The visible points as CSV, one line per point, series after series.

    Each series is read in a short session of its own, so that a slow reader holds no transaction.
    """
    with database.read() as session:
        queries.begin_snapshot(session)
        groups = groups_of(session, [trial_id], names, ranks)
    yield _csv_lines([CSV_FIELDS])
    for group in groups:
        for segment in segments_of(group, from_step, to_step):
            yield from _export_segment(database, segment)


def _export_segment(database: Database, segment: Segment) -> Iterator[bytes]:
    """Block by block: memory stays bounded whatever the series' length."""
    position = segment.first_step
    while position <= segment.last_step:
        with database.read() as session:
            queries.begin_snapshot(session)
            tail = tails_of(session, [segment], position, segment.last_step)[0]
            tail = tail.between(position, segment.last_step)
            blocks = blocks_db.find_blocks(
                session, [segment.record.id], position, segment.last_step
            ).get(segment.record.id, [])[:8]
            data = blocks_db.block_data(session, [(b.series_id, b.first_step) for b in blocks])
        if blocks and len(blocks) == 8:
            end = min(segment.last_step, blocks[-1].last_step)
        else:
            end = segment.last_step
        points = in_order(
            concat([*(decode_block(d) for _, d in sorted(data.items())), tail])
        ).between(position, end)
        r = segment.record
        prefix = (r.name, r.rank, r.attempt_no)
        yield _csv_lines(
            (*prefix, step, time_ms, encode_number(value))
            for step, time_ms, value in zip(
                points.steps.tolist(), points.times_ms.tolist(), points.values.tolist(), strict=True
            )
        )
        position = end + 1


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
