"""Log pages: the lines of many streams as one sequence, forwards and backwards, searched or not.

Of one trial, or of all or some trials of an experiment.

Order: by the time a line's first byte was received, then trial, attempt, rank, stdout before stderr, then
position. A cursor holds a position per stream rather than a time, so that a line whose transaction
commits late is shown late and never skipped.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import LogChunkRow, LogStreamRow, TrialRow
from muster_server.db.queries.logs import StreamReader
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL
from muster_server.errors import InvalidRequest, NotFound
from muster_server.schemas.data import LogLeft, LogPage, LogStreamOut
from muster_server.services.core.lookup import get_experiment, get_trial
from muster_server.services.logs.merging import Walk
from muster_server.services.logs.streams import (
    Chosen,
    LogFilter,
    choose_streams,
    complete_streams,
    find_streams,
    trials_of,
    truncated,
)

SEARCH_BUDGET_S = 1.0
"""A page ends when it was searched for this long; its cursor goes on."""
CURSOR_MAX_CHARS = 32_768

Direction = Literal["older", "newer"]


@dataclass(frozen=True, kw_only=True)
class LogPosition:
    """Where a page begins; one of these. A fraction (0 to 1) is one of the lines of the stream that
    has most of them, and of the others what was received from then on."""

    line: tuple[int, int] | None = None
    """(stream_id, number of the line from 0)"""
    time: dt.datetime | None = None
    fraction: float | None = None


def read_page(
    session: Session,
    trial_id: int,
    wanted: LogFilter,
    *,
    cursor: str | None = None,
    start: Literal["head", "tail"] | LogPosition = "tail",
    limit: int = 500,
    budget_s: float | None = None,
) -> LogPage:
    """Return a page of lines, oldest first.

    cursor: `older` or `newer` of an earlier page of the same filter; without it the page is at
    the `start` asked for, which may be a place: then it begins there and its `older` leads to what
    comes before. A search that has used up budget_s (None: SEARCH_BUDGET_S) answers what it has
    found and sets `search_stopped`; its cursor goes on from there.
    Raises NotFound for the trial, and a line that it has not, and InvalidRequest for a broken
    cursor or pattern.
    """
    trial = get_trial(session, trial_id)
    chosen = Chosen(find_streams(session, LogStreamRow.trial_id == trial_id, wanted))
    return _read(
        session,
        _Source(
            chosen=chosen,
            wanted=wanted,
            complete=complete_streams(session, trial, chosen.streams),
            is_over=trial.state in TERMINAL_TRIAL,
            trial_nos={trial.id: trial.no},
        ),
        cursor=cursor,
        start=start,
        limit=limit,
        budget_s=budget_s,
    )


def read_experiment_page(
    session: Session,
    experiment_id: int,
    wanted: LogFilter,
    *,
    trial_nos: Set[int],
    cursor: str | None,
    start: Literal["head", "tail"] | LogPosition,
    limit: int,
) -> LogPage:
    """Return a page of the logs of all trials of an experiment, or of those with these numbers,
    like `read_page`.

    Of more streams than one request may read, it reads those written to last, back to the last line
    of the others. `left` reports this, and its time is the `until` of the next request. Raises
    NotFound for the experiment and for a trial that it does not have.
    """
    experiment = get_experiment(session, experiment_id)
    ids = trials_of(session, experiment, trial_nos)
    chosen = choose_streams(session, LogStreamRow.trial_id.in_(ids), wanted)
    trials = {
        trial.id: trial
        for trial in session.scalars(
            select(TrialRow).where(TrialRow.id.in_({s.trial_id for s in chosen.streams}))
        )
    }
    complete: set[int] = set()
    for trial in trials.values():
        own = [s for s in chosen.streams if s.trial_id == trial.id]
        complete |= complete_streams(session, trial, own)
    return _read(
        session,
        _Source(
            chosen=chosen,
            wanted=wanted,
            complete=complete,
            is_over=experiment.state in TERMINAL_EXPERIMENT,
            trial_nos={trial.id: trial.no for trial in trials.values()},
        ),
        cursor=cursor,
        start=start,
        limit=limit,
    )


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What a page is read from."""

    chosen: Chosen
    wanted: LogFilter
    complete: set[int]
    """Streams to which nothing more can come."""
    is_over: bool
    """No other streams can come."""
    trial_nos: Mapping[int, int]
    """Trial → its number, of all streams."""


def _read(
    session: Session,
    source: _Source,
    *,
    cursor: str | None,
    start: Literal["head", "tail"] | LogPosition,
    limit: int,
    budget_s: float | None = None,
) -> LogPage:
    streams, wanted, complete = source.chosen.streams, source.wanted, source.complete
    test = wanted.test()
    if source.chosen.since is not None:
        wanted = replace(
            wanted, since=max(source.chosen.since, wanted.since or source.chosen.since)
        )
    low, high = _borders(session, streams, wanted)
    if isinstance(start, LogPosition) and cursor is None:
        direction: Direction = "newer"
        at = _positions(session, streams, start)
    elif cursor is None:
        direction = "newer" if start == "head" else "older"
        at = low if start == "head" else high
    else:
        direction, given = _decode_cursor(cursor)
        at = {s.id: given.get(s.id, 0) for s in streams}
    at = {id_: min(max(low[id_], position), high[id_]) for id_, position in at.items()}

    deadline = time.monotonic() + (SEARCH_BUDGET_S if budget_s is None else budget_s)
    walk = Walk(
        session,
        streams,
        source.trial_nos,
        complete,
        at,
        low,
        high,
        test,
        limit,
        deadline,
    )
    if direction == "newer":
        walk.forward()
        older, newer = at, walk.positions
    else:
        walk.backward()
        older, newer = walk.positions, dict(at)
        if cursor is None:
            # Following starts at the line whose end has not come yet, so that it comes whole.
            newer |= walk.unfinished_starts()
    is_at_end = all(newer[s.id] >= high[s.id] for s in streams)
    has_older = any(position > low[id_] for id_, position in older.items())
    return LogPage(
        lines=walk.lines(),
        older=_encode_cursor("older", older) if has_older else None,
        newer=_encode_cursor("newer", newer),
        at_end=is_at_end,
        complete=is_at_end and source.is_over and len(complete) == len(streams),
        num_lines=sum(s.num_lines for s in streams),
        truncated_streams=truncated(
            session, streams, source.trial_nos if len(source.trial_nos) > 1 else None
        ),
        search_stopped=walk.is_stopped,
        searched=walk.searched(),
        left=_left(source.chosen),
    )


def _left(chosen: Chosen) -> LogLeft | None:
    if chosen.since is None:
        return None
    return LogLeft(num_streams=chosen.num_left, until=chosen.since)


def _borders(
    session: Session, streams: Sequence[LogStreamRow], wanted: LogFilter
) -> tuple[dict[int, int], dict[int, int]]:
    """Stream → where the wanted time range begins, and where it ends."""
    low = {s.id: 0 for s in streams}
    high = {s.id: s.size_bytes for s in streams}
    for s in streams:
        reader = StreamReader(session, s.id, s.size_bytes)
        if wanted.since is not None:
            low[s.id] = reader.start_at_time(wanted.since)
        if wanted.until is not None:
            high[s.id] = max(low[s.id], reader.start_at_time(wanted.until))
    return low, high


def _positions(
    session: Session, streams: Sequence[LogStreamRow], place: LogPosition
) -> dict[int, int]:
    """Stream → where the page begins that shows a place first."""
    if not streams:
        return {}
    if place.time is not None:
        return {
            s.id: StreamReader(session, s.id, s.size_bytes).start_at_time(place.time)
            for s in streams
        }
    if place.line is not None:
        stream_id, no = place.line
        chosen = next((s for s in streams if s.id == stream_id), None)
        if chosen is None or no >= chosen.num_lines:
            what = "is none of these streams" if chosen is None else f"has {chosen.num_lines} lines"
            raise NotFound(
                "logs.no_such_line",
                f"There is no line {no} of stream {stream_id}: it {what}.",
                hint="Lines count from 0; GET /api/v1/trials/{id}/logs/streams lists a trial's streams.",
            )
    else:
        assert place.fraction is not None
        chosen = max(streams, key=lambda s: s.num_lines)
        no = max(0, min(int(place.fraction * chosen.num_lines), chosen.num_lines - 1))
    reader = StreamReader(session, chosen.id, chosen.size_bytes)
    position = reader.start_of_line(no)
    line = reader.line_at(position)
    at, is_before = {}, True
    for s in streams:
        if s is chosen:
            at[s.id], is_before = position, False
        elif line is not None:
            other = StreamReader(session, s.id, s.size_bytes)
            at[s.id] = other.start_at_time(line.time, after=is_before)
        else:
            at[s.id] = s.size_bytes
    return at


def list_streams(session: Session, trial_id: int) -> list[LogStreamOut]:
    """Return every stream of a trial, by attempt and rank."""
    trial = get_trial(session, trial_id)
    streams = find_streams(session, LogStreamRow.trial_id == trial_id, LogFilter())
    complete = complete_streams(session, trial, streams)
    return [LogStreamOut.from_row(s, stream_id=s.id, is_complete=s.id in complete) for s in streams]


@dataclass(frozen=True)
class Download:
    filename: str
    size_bytes: int
    stream_ids: list[int]


def find_download(
    session: Session,
    trial_id: int,
    *,
    rank: int,
    stream: Literal["stdout", "stderr"],
    attempt_no: int | None,
) -> Download:
    """Return the contents of a download: one stream of one attempt (None: the latest that has it).

    The launcher (rank -1) has a stream per node; they follow each other in node order.
    Raises NotFound.
    """
    get_trial(session, trial_id)
    found = find_streams(
        session,
        LogStreamRow.trial_id == trial_id,
        LogFilter(ranks=frozenset([rank]), stream=stream, attempt_no=attempt_no),
    )
    if not found:
        raise NotFound(
            "logs.not_found",
            f"There is no {stream} of rank {rank}.",
            hint="GET /api/v1/trials/{id}/logs/streams lists what there is.",
        )
    latest = max(s.attempt_no for s in found)
    chosen = [s for s in found if s.attempt_no == latest]
    who = "launcher" if rank < 0 else f"rank-{rank}"
    return Download(
        f"trial-{trial_id}-attempt-{latest}-{who}-{stream}.log",
        sum(s.size_bytes for s in chosen),
        [s.id for s in chosen],
    )


def download(database: Database, found: Download) -> Iterator[bytes]:
    """Yield the raw bytes, chunk by chunk; a slow reader holds no transaction."""
    for stream_id in found.stream_ids:
        position = 0
        while True:
            with database.read() as session:
                chunks = session.execute(
                    select(LogChunkRow.offset, LogChunkRow.length, LogChunkRow.data)
                    .where(LogChunkRow.stream_id == stream_id, LogChunkRow.offset >= position)
                    .order_by(LogChunkRow.offset)
                    .limit(16)
                ).all()
            if not chunks:
                break
            for chunk in chunks:
                yield zlib.decompress(chunk.data)
            position = chunks[-1].offset + chunks[-1].length


# ---------------------------------------------------------------- cursors


def _encode_cursor(direction: Direction, positions: Mapping[int, int]) -> str:
    flat = [number for pair in sorted(positions.items()) for number in pair]
    raw = zlib.compress(json.dumps([direction, *flat], separators=(",", ":")).encode())
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[Direction, dict[int, int]]:
    refused = InvalidRequest(
        "logs.bad_cursor",
        "The cursor is not one this server made.",
        hint="Take `older` or `newer` from a page as it is, or leave the cursor out.",
    )
    try:
        packed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        unpacker = zlib.decompressobj()
        value = json.loads(unpacker.decompress(packed, 1_000_000))
    except (binascii.Error, ValueError, zlib.error, RecursionError):
        raise refused from None
    if not isinstance(value, list) or len(value) % 2 == 0 or value[0] not in ("older", "newer"):
        raise refused
    numbers = value[1:]
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise refused
    return value[0], dict(zip(numbers[::2], numbers[1::2], strict=True))
