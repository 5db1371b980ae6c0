"""The maintenance windows that decide what starts, out of the tables."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import MaintenanceWindowRow
from muster_server.domain.nodes.maintenance import Schedule, Window

_OPEN = (
    select(MaintenanceWindowRow)
    .where(MaintenanceWindowRow.ended_at.is_(None))
    .order_by(MaintenanceWindowRow.starts_at, MaintenanceWindowRow.id)
)


def open_rows(session: Session) -> list[MaintenanceWindowRow]:
    """Return the windows that nobody has ended, the first to start first."""
    return list(session.scalars(_OPEN))


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
    return Schedule(map(window_of, open_rows(session)), now)
