"""Reservations of nodes; see docs/guides/placement.md."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server import clock
from muster_server.schemas.maintenance import (
    ReservationIn,
    ReservationListOut,
    ReservationOut,
    ReservationPatch,
)
from muster_server.services.nodes import reservations

from ..http.deps import By, Db, Id

router = APIRouter(tags=["cluster"])


@router.get("/reservations")
def list_reservations(db: Db) -> ReservationListOut:
    """List the active and planned reservations of nodes, the first to start first."""
    with db.read() as session:
        return reservations.list_reservations(session, now=clock.now())


@router.get("/reservations/{reservation_id}")
def get_reservation(db: Db, reservation_id: Id) -> ReservationOut:
    """Return a reservation, which may have ended, and from whom it takes slots."""
    with db.read() as session:
        return reservations.get(session, reservation_id, now=clock.now())


@router.post("/reservations", status_code=201)
def create_reservation(db: Db, by: By, wish: ReservationIn) -> ReservationOut:
    """Reserve nodes for the trials of one user or one project. What others run there leaves in time for
    the start."""
    with db.transaction() as session:
        return reservations.create(session, wish, by)


@router.patch("/reservations/{reservation_id}")
def update_reservation(
    db: Db, by: By, reservation_id: Id, wish: ReservationPatch
) -> ReservationOut:
    """Change the times, the nodes or the reason of a reservation that has not ended. What others run on nodes
    that it gets leaves in time."""
    with db.transaction() as session:
        return reservations.change(session, reservation_id, wish, by)


@router.post("/reservations/{reservation_id}:cancel")
def cancel_reservation(db: Db, by: By, reservation_id: Id) -> ReservationOut:
    """End an active reservation, or take a planned one back. Its nodes are open to everybody at once."""
    with db.transaction() as session:
        return reservations.cancel(session, reservation_id, by)
