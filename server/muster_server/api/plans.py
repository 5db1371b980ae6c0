"""Route of the planner; see docs/guides/planning.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.api.deps import Db, Id
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.schemas.plans import PlanIn, PlanOut, TrialPlanOut
from muster_server.services import plans

router = APIRouter(tags=["experiments"])


@router.post("/plans", operation_id="create_plan")
def create_plan(body: PlanIn, db: Db) -> PlanOut:
    """What the training of a document will take: memory, bytes and time. Nothing is stored."""
    with db.read() as session:
        return plans.plan(session, body, now=clock.now())


@router.get("/trials/{trial_id}/plan", operation_id="get_trial_plan", tags=["trials"])
def get_trial_plan(trial_id: Id, db: Db) -> TrialPlanOut:
    """What was to be expected of a trial, memory, bytes and time of a step, beside what it has
    measured."""
    with db.read() as session:
        begin_snapshot(session)
        return plans.of_trial(session, trial_id)
