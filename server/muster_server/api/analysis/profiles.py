"""Windows of the profiler of a trial, and their traces."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from fastapi.responses import StreamingResponse

from muster_server.api.http.openapi import stream_of
from muster_server.schemas.analysis.profiles import (
    RANK_MAX,
    ProfileIn,
    ProfileOut,
    ProfileSummaryOut,
)
from muster_server.schemas.base import Page
from muster_server.services.runtime import profiles, trace_figures

from ..http.deps import By, Db, Id
from ..http.routing import Read, Router, Write

router = Router(tags=["trials"])

No = Annotated[int, Path(ge=1, le=2**31 - 1, description="Which window of the trial.")]
RankNo = Annotated[int, Path(ge=0, le=RANK_MAX, description="A global rank.")]


@router.post("/trials/{trial_id}/profiles", status_code=201)
def profile_trial(trial_id: Id, body: ProfileIn, session: Write, by: By) -> ProfileOut:
    """Trace chosen ranks of a running trial with torch's profiler for some steps. The training goes
    on, more slowly meanwhile. Poll get_trial_profile until it is complete."""
    return profiles.start(session, trial_id, body, by)


@router.get("/trials/{trial_id}/profiles")
def list_trial_profiles(trial_id: Id, session: Read, by: By) -> Page[ProfileOut]:
    """List the kept profiler windows, newest first: the last five, and 64 MiB of traces."""
    return Page(items=profiles.list_of(session, trial_id, now=by.now), next=None)


@router.get("/trials/{trial_id}/profiles/{no}")
def get_trial_profile(trial_id: Id, no: No, session: Read, by: By) -> ProfileOut:
    """Return the state of one window, rank by rank."""
    return profiles.get(session, trial_id, no, now=by.now)


@router.get("/trials/{trial_id}/profiles/{no}/summary")
def get_trial_profile_summary(trial_id: Id, no: No, db: Db, by: By) -> ProfileSummaryOut:
    """Compute where the time of a window's traces went: communication, computation, their overlap and
    idle time, whole and by step, and over several ranks who waited for whom."""
    with db.read() as session:
        traces = profiles.find_traces(session, trial_id, no, now=by.now)
    return trace_figures.summarize(db, traces)


@router.get("/trials/{trial_id}/profiles/{no}/ranks/{rank}/trace", **stream_of("application/gzip"))
def download_trial_trace(trial_id: Id, no: No, rank: RankNo, db: Db) -> StreamingResponse:
    """Download the trace of one rank: Chrome's trace events in JSON, a gzip. Perfetto and
    chrome://tracing open it."""
    with db.read() as session:
        found = profiles.find_trace(session, trial_id, no, rank)
    name = f"trial-{trial_id}-window-{no}-rank-{rank}.json.gz"
    return StreamingResponse(
        profiles.stream(db, found),
        media_type="application/gzip",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        },
    )
