"""The maintenance windows and reservations that decide what starts where, out of the tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import MaintenanceWindowRow, NodeReservationRow, ProjectRow, UserRow
from muster_server.db.sight import SEES_ALL
from muster_server.domain.nodes.maintenance import Schedule, Window
from muster_server.domain.nodes.reservations import NodeReservation
from muster_server.security.principal import Principal

from . import access

_OPEN_WINDOWS = (
    select(MaintenanceWindowRow)
    .where(MaintenanceWindowRow.ended_at.is_(None))
    .order_by(MaintenanceWindowRow.starts_at, MaintenanceWindowRow.id)
)
_NAMED = (
    select(NodeReservationRow, UserRow.username, ProjectRow.name, ProjectRow.visibility)
    .outerjoin(UserRow, UserRow.id == NodeReservationRow.user_id)
    .outerjoin(ProjectRow, ProjectRow.id == NodeReservationRow.project_id)
    .order_by(NodeReservationRow.starts_at, NodeReservationRow.id)
    .execution_options(**SEES_ALL)
)
_OPEN_RESERVATIONS = _NAMED.where(NodeReservationRow.ended_at.is_(None))


def open_windows(session: Session) -> list[MaintenanceWindowRow]:
    """Return the windows that nobody has ended, the first to start first."""
    return list(session.scalars(_OPEN_WINDOWS))


def window_of(row: MaintenanceWindowRow) -> Window:
    return Window(
        id=row.id,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        reason=row.reason,
        running=row.running,
        pools=tuple(row.pools),
        nodes=tuple(row.nodes),
    )


def load_schedule(session: Session, *, now: dt.datetime) -> Schedule:
    """Return the windows that are active or planned at `now`."""
    return Schedule(map(window_of, open_windows(session)), now)


def open_reservations(session: Session) -> list[tuple[NodeReservationRow, NodeReservation]]:
    """Return the reservations that nobody has ended, the first to start first."""
    return [(row, _reservation(row, *names)) for row, *names in session.execute(_OPEN_RESERVATIONS)]


def load_reservation(session: Session, row: NodeReservationRow) -> NodeReservation:
    """Return what a row says, with the name of its beneficiary."""
    _, *names = session.execute(_NAMED.where(NodeReservationRow.id == row.id)).one()
    return _reservation(row, *names)


def load_reservations(session: Session, *, now: dt.datetime) -> list[NodeReservation]:
    """Return the active and planned reservations at `now`, the first to start first."""
    return [one for _, one in open_reservations(session) if one.ends_at > now]


def closed_to(session: Session, principal: Principal, *, now: dt.datetime) -> frozenset[str]:
    """Return the names of the nodes that are reserved now for others than the caller: for another user, or a
    project to which the caller may not submit."""
    return frozenset(
        node
        for one in load_reservations(session, now=now)
        if one.is_active(now) and not _may_use(session, one, principal)
        for node in one.nodes
    )


def _may_use(session: Session, one: NodeReservation, principal: Principal) -> bool:
    if one.project_id is None:
        return one.user_id == principal.user_id
    return access.may_submit(session, one.project_id, principal)


def numbers_for(
    reservations: Sequence[NodeReservation], *, user_id: int | None, project_id: int | None
) -> tuple[int, ...]:
    """Return the numbers of the reservations whose nodes a user's trials in a project may use."""
    return tuple(
        sorted(r.id for r in reservations if r.is_for(user_id=user_id, project_id=project_id))
    )


def _reservation(
    row: NodeReservationRow, user: str | None, project: str | None, visibility: str | None
) -> NodeReservation:
    """The name of a project that not everybody sees is left out: reasons and events are for all."""
    beneficiary = user or (project if visibility == "all" else None) or ""
    return NodeReservation(
        id=row.id,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        nodes=tuple(row.nodes),
        beneficiary=beneficiary,
        user_id=row.user_id,
        project_id=row.project_id,
        reason=row.reason,
    )
