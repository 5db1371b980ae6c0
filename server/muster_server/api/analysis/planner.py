"""Route of the planner; see docs/guides/planning.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.api.http.deps import Db, Id
from muster_server.db.engine import Database
from muster_server.schemas.analysis.planner import PlanIn, PlanOut, TrialPlanOut
from muster_server.services.insight import planner
from muster_server.services.nodes import layer_tables

router = APIRouter(tags=["experiments"])


@router.post("/plans")
def create_plan(body: PlanIn, db: Db) -> PlanOut:
    """Estimate the memory, bytes and time that the training of a document needs. A node lists the
    layers of the model for that, which may run your own code; poll while `is_pending` is true."""
    with db.read() as session:
        found, wanted = planner.plan(session, body, now=clock.now())
    _ask(db, wanted)
    return found


@router.get("/trials/{trial_id}/plan", tags=["trials"])
def get_trial_plan(trial_id: Id, db: Db) -> TrialPlanOut:
    """Return the estimated memory, bytes and time per step of a trial beside its measurements. Poll
    while `is_pending` is true."""
    with db.snapshot() as session:
        found, wanted = planner.of_trial(session, trial_id, now=clock.now())
    _ask(db, wanted)
    return found


def _ask(db: Database, wanted: layer_tables.Question | None) -> None:
    if wanted is not None:
        with db.transaction() as session:
            layer_tables.ask(session, wanted, now=clock.now())
