"""Logs of a trial and of an experiment: pages, streams, downloads."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from muster_server.api.http.deps import Db, Id
from muster_server.api.http.openapi import stream_of
from muster_server.api.http.routing import Read, Router, Snapshot
from muster_server.domain.logs.lines import PATTERN_MAX_CHARS, Level
from muster_server.errors import InvalidRequest
from muster_server.schemas.base import Moment, Page, SafeStr
from muster_server.schemas.data import LogHistogram, LogPage, LogStreamOut, LogValuesOut
from muster_server.services.logs import histogram, reading, values
from muster_server.services.logs.streams import LogFilter

router = Router(tags=["logs"])

StreamName = Literal["stdout", "stderr"]
NodeName = Annotated[SafeStr, Field(max_length=128)]
Rank = Annotated[int, Query(ge=-1, le=1_000_000)]
TrialNo = Annotated[int, Query(ge=1, le=2**31 - 1)]


async def stream_filter(
    ranks: Annotated[
        list[Rank],
        Query(alias="rank", max_length=1000, description="-1: the launcher. Absent: all."),
    ] = [],  # noqa: B006
    stream: StreamName | None = None,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    nodes: Annotated[list[NodeName], Query(alias="node", max_length=1000)] = [],  # noqa: B006
    since: Annotated[
        Moment | None, Query(description="Only lines received from this time on.")
    ] = None,
    until: Annotated[
        Moment | None, Query(description="Only lines received before this time.")
    ] = None,
) -> LogFilter:
    """Return the streams and times that a request selects."""
    return LogFilter(
        ranks=frozenset(ranks) if ranks else None,
        nodes=frozenset(nodes) if nodes else None,
        stream=stream,
        attempt_no=attempt,
        since=since,
        until=until,
    )


Streams = Annotated[LogFilter, Depends(stream_filter)]


async def log_filter(
    streams: Streams,
    levels: Annotated[
        list[Level],
        Query(alias="level", max_length=5, description="As the text of a line says. Absent: all."),
    ] = [],  # noqa: B006
    q: Annotated[
        str, Query(max_length=PATTERN_MAX_CHARS, description="Only lines with this text.")
    ] = "",
    regex: Annotated[
        bool, Query(description="`q` is a pattern of RE2 (linear time, no back-references).")
    ] = False,
    match_case: bool = False,
) -> LogFilter:
    """Return the lines that a request selects."""
    return replace(streams, levels=frozenset(levels), text=q, is_regex=regex, match_case=match_case)


@dataclass(frozen=True)
class Where:
    """The page that is requested."""

    cursor: str | None
    start: Literal["head", "tail"] | reading.LogPosition
    limit: int


async def page_at(
    line: Annotated[
        str | None,
        Query(
            pattern=r"^\d{1,15}:\d{1,15}$",
            description="Begin at this line: stream_id:no, as lines say them.",
        ),
    ] = None,
    time: Annotated[
        Moment | None, Query(description="Begin at the first line received then or later.")
    ] = None,
    fraction: Annotated[
        float | None,
        Query(ge=0, le=1, description="Begin at this part of the longest stream's lines."),
    ] = None,
    cursor: Annotated[str | None, Query(max_length=reading.CURSOR_MAX_CHARS)] = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
    ends: Annotated[Literal["head", "tail"] | None, Query(alias="from")] = None,
) -> Where:
    """Return the page. Raises InvalidRequest if several places are given."""
    return Where(cursor, _start(ends, line, time, fraction, cursor), limit)


Wanted = Annotated[LogFilter, Depends(log_filter)]
PageAt = Annotated[Where, Depends(page_at)]


@router.get("/trials/{trial_id}/logs")
def list_trial_log_lines(trial_id: int, session: Snapshot, wanted: Wanted, at: PageAt) -> LogPage:
    """List the lines of all matching streams in one order, oldest first.

    Without a cursor the page is the end (`from=tail`), the beginning (`from=head`), or begins at a
    place: `line`, `time` or `fraction`. A search stops after a second; the answer says how much it
    has looked at, and its cursor goes on.
    """
    return reading.read_page(
        session, trial_id, wanted, cursor=at.cursor, start=at.start, limit=at.limit
    )


@router.get("/experiments/{experiment_id}/logs")
def list_experiment_log_lines(
    experiment_id: Id,
    session: Snapshot,
    wanted: Wanted,
    at: PageAt,
    trials: Annotated[
        list[TrialNo],
        Query(alias="trial", max_length=1000, description="By their numbers. Absent: all."),
    ] = [],  # noqa: B006
) -> LogPage:
    """List the lines of all trials of an experiment, or of some, in one order: a page of the newest
    ones, oldest first.

    As the log of a trial. Of more than 500 streams those that were written to last are read, back
    to where the others begin: `left` says where, and that time as `until` goes on.
    """
    return reading.read_experiment_page(
        session,
        experiment_id,
        wanted,
        trial_nos=frozenset(trials),
        cursor=at.cursor,
        start=at.start,
        limit=at.limit,
    )


@router.get("/trials/{trial_id}/logs/histogram")
def get_trial_log_histogram(trial_id: int, session: Snapshot, wanted: Streams) -> LogHistogram:
    """Return how many lines of each level were received when, in at most 60 time buckets: between
    `since` and `until`, or from the first line to the last one."""
    return histogram.of_trial(session, trial_id, wanted)


@router.get("/experiments/{experiment_id}/logs/histogram")
def get_experiment_log_histogram(
    experiment_id: Id,
    session: Snapshot,
    wanted: Streams,
    trials: Annotated[
        list[TrialNo],
        Query(alias="trial", max_length=1000, description="By their numbers. Absent: all."),
    ] = [],  # noqa: B006
) -> LogHistogram:
    """Return the histogram over all trials of an experiment or some: of more than 500 streams, the
    most recently written ones."""
    return histogram.of_experiment(session, experiment_id, wanted, trial_nos=frozenset(trials))


@router.get("/trials/{trial_id}/logs/values")
def preview_trial_log_values(
    trial_id: int,
    session: Snapshot,
    wanted: Streams,
    pattern: Annotated[
        SafeStr,
        Query(
            min_length=1,
            max_length=PATTERN_MAX_CHARS,
            description="As in `metrics.from_log`: a pattern of RE2 or the name of a preset.",
        ),
    ],
    name: Annotated[
        SafeStr, Query(max_length=200, description="Name of the metric without a group for it.")
    ] = "",
    line: Annotated[
        SafeStr,
        Query(max_length=PATTERN_MAX_CHARS, description="Pattern that a line must match, too."),
    ] = "",
) -> LogValuesOut:
    """Return what a pattern of `metrics.from_log` finds in the log of the newest attempt, or of one that
    is given: how many values, their names, and the first of them. Nothing is stored. It searches for
    a second at most; `left_bytes` says how much it has not reached."""
    return values.preview(session, trial_id, wanted, pattern=pattern, name=name, line=line)


def _start(
    ends: Literal["head", "tail"] | None,
    line: str | None,
    time: dt.datetime | None,
    fraction: float | None,
    cursor: str | None,
) -> Literal["head", "tail"] | reading.LogPosition:
    """Return the start of the page. Raises InvalidRequest if several places are given."""
    places = {"from": ends, "line": line, "time": time, "fraction": fraction, "cursor": cursor}
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(
            "logs.two_places",
            f"A page begins at one place, not at {' and '.join(given)}.",
            hint="Give one of from, line, time, fraction and cursor.",
        )
    if line is not None:
        stream_id, no = line.split(":")
        return reading.LogPosition(line=(int(stream_id), int(no)))
    if time is not None or fraction is not None:
        return reading.LogPosition(time=time, fraction=fraction)
    return ends or "tail"


@router.get("/trials/{trial_id}/logs/streams")
def list_trial_log_streams(trial_id: int, session: Read) -> Page[LogStreamOut]:
    """List every stream of every worker and launcher, by attempt and rank."""
    return Page(items=reading.list_streams(session, trial_id), next=None)


@router.get("/trials/{trial_id}/logs/download", **stream_of("text/plain"))
def download_trial_log(
    trial_id: int,
    db: Db,
    rank: Rank = 0,
    stream: StreamName = "stdout",
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> StreamingResponse:
    """Download the raw bytes of one stream; of the latest attempt that has it unless one is given."""
    with db.read() as session:
        found = reading.find_download(
            session, trial_id, rank=rank, stream=stream, attempt_no=attempt
        )
    return StreamingResponse(
        reading.download(db, found),
        media_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{found.filename}"',
            "X-Content-Type-Options": "nosniff",
        },
    )
