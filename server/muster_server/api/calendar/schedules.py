"""Schedules; see docs/guides/schedules.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.schemas.schedules import ScheduleIn, ScheduleListOut, ScheduleOut, SchedulePatch
from muster_server.services.experiments import schedules

from ..http.deps import By, Db, Id

router = APIRouter(tags=["experiments"])


@router.get("/schedules")
def list_schedules(db: Db) -> ScheduleListOut:
    """List the schedules, the next to start first."""
    with db.read() as session:
        return schedules.list_schedules(session, now=clock.now())


@router.post("/schedules", status_code=201)
def create_schedule(db: Db, by: By, wish: ScheduleIn) -> ScheduleOut:
    """Submit an experiment again and again, at the times of a cron expression."""
    with db.transaction() as session:
        return schedules.create(session, wish, by)


@router.patch("/schedules/{schedule_id}")
def update_schedule(db: Db, by: By, schedule_id: Id, wish: SchedulePatch) -> ScheduleOut:
    """Change the times of a schedule, pause or resume it."""
    with db.transaction() as session:
        return schedules.change(session, schedule_id, wish, by)


@router.post("/schedules/{schedule_id}:run")
def run_schedule(db: Db, by: By, schedule_id: Id) -> ScheduleOut:
    """Start the experiment of a schedule now, too: `last_experiment_id` is its number."""
    with db.transaction() as session:
        return schedules.start_now(session, schedule_id, by)


@router.delete("/schedules/{schedule_id}", status_code=204)
def delete_schedule(db: Db, by: By, schedule_id: Id) -> None:
    """Delete a schedule. The experiments that it started stay."""
    with db.transaction() as session:
        schedules.delete(session, schedule_id, by)
