"""Maintenance windows; see docs/guides/operations.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.schemas.maintenance import MaintenanceIn, MaintenanceListOut, MaintenanceOut
from muster_server.services.nodes import maintenance

from ..http.deps import Db, Id, Me, RemoteAddr

router = APIRouter(tags=["cluster"])


@router.get("/maintenance")
def list_maintenance(db: Db) -> MaintenanceListOut:
    """List the active and planned maintenance windows, the first to start first."""
    with db.read() as session:
        return maintenance.list_windows(session, now=clock.now())


@router.post("/maintenance", status_code=201)
def create_maintenance(db: Db, me: Me, addr: RemoteAddr, wish: MaintenanceIn) -> MaintenanceOut:
    """Plan a maintenance window, or start one now: nothing new starts in its scope until it ends. A
    trial whose time limit would reach into a planned one is not started there before it."""
    with db.transaction() as session:
        return maintenance.create(session, wish, actor=me.actor, remote_addr=addr, now=clock.now())


@router.post("/maintenance/{window_id}:end")
def end_maintenance(db: Db, me: Me, addr: RemoteAddr, window_id: Id) -> MaintenanceOut:
    """End an active maintenance window, or take a planned one back. What waits starts with the next
    scheduling pass."""
    with db.transaction() as session:
        return maintenance.end(
            session, window_id, actor=me.actor, remote_addr=addr, now=clock.now()
        )
