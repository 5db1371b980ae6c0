"""How many lines of which level were logged when, read from the index of chunks alone.

Chunks count the lines before them, so the lines between two moments are a difference of two running
counts: one look-up in the index per stream and border, however long the logs are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import ColumnElement, DateTime, and_, func, literal, select, union_all
from sqlalchemy.orm import Session, aliased

from muster_server.db.models import LogChunkRow, LogStreamRow
from muster_server.domain.logs.histogram import bucket_edges, differences
from muster_server.domain.logs.lines import LEVELS
from muster_server.schemas.data import LogHistogram

from ..core.lookup import get_experiment, get_trial
from .streams import Chosen, LogFilter, choose_streams, find_streams, trials_of

BUCKETS_MAX = 60
LOOKUPS_MAX = 12_000
"""Borders × streams in one answer: with many streams the buckets are wider. About 0.1 s."""
COUNTS = ("num_lines", *(f"num_{level}" for level in LEVELS))


def of_trial(session: Session, trial_id: int, wanted: LogFilter) -> LogHistogram:
    """Return the lines of the streams and times of a filter, not of its text. Raises NotFound."""
    get_trial(session, trial_id)
    return _histogram(
        session, Chosen(find_streams(session, LogStreamRow.trial_id == trial_id, wanted)), wanted
    )


def of_experiment(
    session: Session, experiment_id: int, wanted: LogFilter, *, trial_nos: frozenset[int]
) -> LogHistogram:
    """Return the histogram of an experiment's trials, or of those with these numbers, like
    `of_trial`.

    Of more than 500 streams it counts those written to last; `num_left` is the number of streams
    left out. Raises NotFound.
    """
    ids = trials_of(session, get_experiment(session, experiment_id), trial_nos)
    return _histogram(
        session, choose_streams(session, LogStreamRow.trial_id.in_(ids), wanted), wanted
    )


def _histogram(session: Session, chosen: Chosen, wanted: LogFilter) -> LogHistogram:
    streams = [s.id for s in chosen.streams]
    extent = _extent(session, streams, wanted)
    if extent is None:
        return LogHistogram(edges_ms=[], num_lines=[], levels={}, num_left=chosen.num_left)
    edges = bucket_edges(*extent, max(2, min(BUCKETS_MAX, LOOKUPS_MAX // len(streams))))
    # What is outside of the wanted times is outside of the first and last bucket, too.
    asked = [*edges]
    if wanted.since is not None:
        asked[0] = max(edges[0], wanted.since)
    if wanted.until is not None:
        asked[-1] = min(edges[-1], wanted.until)
    running = _running(session, streams, asked)
    columns = {name: differences([row[at] for row in running]) for at, name in enumerate(COUNTS)}
    return LogHistogram(
        edges_ms=[round(edge.timestamp() * 1000) for edge in edges],
        num_lines=columns["num_lines"],
        levels={level: columns[f"num_{level}"] for level in LEVELS},
        num_left=chosen.num_left,
    )


def _extent(
    session: Session, streams: Sequence[int], wanted: LogFilter
) -> tuple[dt.datetime, dt.datetime] | None:
    """Return when the first and the last of the wanted lines were received; None if there are
    none."""
    if not streams:
        return None
    table = LogChunkRow
    of: list[ColumnElement[bool]] = [table.stream_id.in_(streams)]
    if wanted.since is not None:
        of.append(table.received_at >= wanted.since)
    if wanted.until is not None:
        of.append(table.received_at < wanted.until)
    # Per stream: then each is one look-up in its index.
    per_stream = (
        select(
            func.min(table.received_at).label("first"), func.max(table.received_at).label("last")
        )
        .where(*of)
        .group_by(table.stream_id)
        .subquery()
    )
    first, last = session.execute(
        select(func.min(per_stream.c.first), func.max(per_stream.c.last))
    ).one()
    return None if first is None else (first, last)


def _running(
    session: Session, streams: Sequence[int], edges: Sequence[dt.datetime]
) -> list[tuple[int, ...]]:
    """For each border how many lines (COUNTS) all streams had before it."""
    borders = union_all(
        *(
            select(literal(no).label("no"), literal(edge, DateTime(timezone=True)).label("at"))
            for no, edge in enumerate(edges)
        )
    ).subquery()
    table, inner = LogChunkRow, aliased(LogChunkRow)
    newest = (
        select(inner.offset)
        .where(inner.stream_id == LogStreamRow.id, inner.received_at < borders.c.at)
        .order_by(inner.received_at.desc(), inner.offset.desc())
        .limit(1)
        .scalar_subquery()
    )
    rows = session.execute(
        select(
            borders.c.no,
            func.sum(table.first_line + table.num_newlines),
            *(func.sum(getattr(table, name)) for name in COUNTS[1:]),
        )
        .select_from(LogStreamRow)
        .join(borders, literal(True))
        .join(table, and_(table.stream_id == LogStreamRow.id, table.offset == newest))
        .where(LogStreamRow.id.in_(streams))
        .group_by(borders.c.no)
    )
    found = {row[0]: tuple(int(n) for n in row[1:]) for row in rows}
    nothing = (0,) * len(COUNTS)
    return [found.get(no, nothing) for no in range(len(edges))]
