"""Where slot-seconds go; see docs/guides/goodput.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import PlainTextResponse

from muster_server import clock
from muster_server.schemas.analysis.goodput import GoodputOut, TrialGoodputOut
from muster_server.services.goodput import reading

from ..http.deps import Config, Db, Id
from ..http.routing import Router, Snapshot

router = Router()

Days = Annotated[int, Query(ge=1, le=366, description="Number of days (UTC), today included.")]
Name = Annotated[str | None, Query(max_length=128)]


@router.get("/trials/{trial_id}/goodput", tags=["trials"])
def get_trial_goodput(trial_id: Id, session: Snapshot) -> TrialGoodputOut:
    """Return where the slot-seconds of a trial went, attempt by attempt."""
    return reading.trial_goodput(session, trial_id, now=clock.now())


@router.get("/goodput", tags=["cluster"])
def get_goodput(
    session: Snapshot,
    settings: Config,
    days: Days = 7,
    by: Annotated[reading.By, Query(description="What `groups` are.")] = "project",
    project: Name = None,
    pool: Name = None,
    user: Name = None,
) -> GoodputOut:
    """Return where the slot-seconds of the cluster went, or those of one project, pool or person. What
    runs is counted about once a minute."""
    return reading.cluster_goodput(
        session,
        days=days,
        by=by,
        project=project,
        pool=pool,
        user=user,
        currency=settings.currency,
        now=clock.now(),
    )


@router.get("/goodput/export", tags=["cluster"])
def export_goodput(db: Db, days: Days = 30) -> PlainTextResponse:
    """Return the slot-hours of each class by day, project, person and pool as CSV."""
    with db.read() as session:
        text = reading.export(session, days=days, now=clock.now())
    headers = {"Content-Disposition": 'attachment; filename="goodput.csv"'}
    return PlainTextResponse(text, media_type="text/csv", headers=headers)
