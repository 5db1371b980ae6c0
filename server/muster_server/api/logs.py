"""Logs of a trial: pages, streams, downloads."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from muster_server.api.deps import Db
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.schemas.base import Page
from muster_server.schemas.data import LogPage, LogStreamOut
from muster_server.services import log_reading

router = APIRouter(tags=["logs"])

StreamName = Literal["stdout", "stderr"]
Rank = Annotated[int, Query(ge=-1, le=1_000_000)]


@router.get("/trials/{trial_id}/logs", operation_id="list_trial_log_lines")
def list_trial_log_lines(
    trial_id: int,
    db: Db,
    ranks: Annotated[
        list[Rank],
        Query(alias="rank", max_length=1000, description="-1: the launcher. Absent: all."),
    ] = [],  # noqa: B006
    stream: StreamName | None = None,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    q: Annotated[
        str, Query(max_length=200, description="Only lines with this text, in any case.")
    ] = "",
    cursor: Annotated[str | None, Query(max_length=log_reading.CURSOR_MAX_CHARS)] = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
    start: Annotated[Literal["head", "tail"], Query(alias="from")] = "tail",
) -> LogPage:
    """Lines of all matching streams in one order, oldest first.

    Without a cursor the page is the end (`from=tail`) or the beginning (`from=head`).
    """
    wanted = log_reading.LogFilter(
        ranks=frozenset(ranks) if ranks else None, stream=stream, attempt_no=attempt, text=q
    )
    with db.read() as session:
        begin_snapshot(session)
        return log_reading.read_page(
            session, trial_id, wanted, cursor=cursor, start=start, limit=limit
        )


@router.get("/trials/{trial_id}/logs/streams", operation_id="list_trial_log_streams")
def list_trial_log_streams(trial_id: int, db: Db) -> Page[LogStreamOut]:
    """Every stream of every worker and launcher, by attempt and rank."""
    with db.read() as session:
        return Page(items=log_reading.list_streams(session, trial_id), next=None)


@router.get(
    "/trials/{trial_id}/logs/download",
    operation_id="download_trial_log",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {}}}},
)
def download_trial_log(
    trial_id: int,
    db: Db,
    rank: Rank = 0,
    stream: StreamName = "stdout",
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> StreamingResponse:
    """The raw bytes of one stream; of the latest attempt that has it unless one is given."""
    with db.read() as session:
        found = log_reading.find_download(
            session, trial_id, rank=rank, stream=stream, attempt_no=attempt
        )
    return StreamingResponse(
        log_reading.download(db, found),
        media_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{found.filename}"',
            "X-Content-Type-Options": "nosniff",
        },
    )
