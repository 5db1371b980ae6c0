"""The value that a metric had at a step."""

from __future__ import annotations

from sqlalchemy.orm import Session

from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics_codec import concat, in_order

from .cold import decoded
from .curves import groups_of, lowest_ranks, segments_of
from .loading import tails_of


def value_at(session: Session, trial_id: int, name: str, step: int) -> float | None:
    """Return the last visible value of a metric at or before a step, of the lowest rank that reports
    it; None if there is none."""
    for group in lowest_ranks(groups_of(session, [trial_id], [name], None)):
        for segment in reversed(segments_of(group, 0, step)):
            first, last = segment.first_step, segment.last_step
            tail = tails_of(session, [segment], first, last)[0]
            block = blocks_db.block_starts(session, segment.record.id, last)[:1]
            data = blocks_db.block_data(session, [(segment.record.id, at) for at in block])
            points = in_order(concat([*decoded(session, data).values(), tail]))
            points = points.between(first, last)
            if len(points):
                return float(points.values[-1])
    return None
