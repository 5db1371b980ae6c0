"""Route of the planner; see docs/guides/planning.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.api.deps import Db
from muster_server.schemas.plans import PlanIn, PlanOut
from muster_server.services import plans

router = APIRouter(tags=["experiments"])


@router.post("/plans", operation_id="create_plan")
def create_plan(body: PlanIn, db: Db) -> PlanOut:
    """What the training of a document will take: memory, bytes and time. Nothing is stored."""
    with db.read() as session:
        return plans.plan(session, body, now=clock.now())
