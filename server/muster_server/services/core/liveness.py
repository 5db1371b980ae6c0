"""Which parts of the control plane are alive, as far as the database knows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete
from sqlalchemy.orm import Session

from muster_server.db.leases import holds, renew_by_anybody
from muster_server.db.models import ApiServerRow, ControllerLeaseRow

CONTROLLER_LEASE = "controller"
"""Held by the leading controller."""
WORKER_LEASE = "worker"
"""Renewed by every Celery worker when it sweeps; who holds it does not matter."""
BACKUP_MARK = "backup"
"""Row that says when the last backup was made; nobody holds it."""
WORKER_MISSED_SWEEPS = 3
CONTROLLER_STUCK_S = 30.0
"""A controller whose loops have not all been worked through for this long is not working: as long as a
new leader has for its first round."""


SERVER_FORGOTTEN = dt.timedelta(days=1)
"""The row of an API server that was killed and never came back is deleted after this."""


@dataclass(frozen=True)
class ControlPlaneStatus:
    controller: Literal["ok", "failing", "absent"]
    """Status of the controller: absent if none leads; failing if one leads but has not completed a
    round of all of its loops lately."""
    failing_loop: str | None
    """In which loop its latest round broke off; None: in none, or that is not known."""
    is_worker_alive: bool
    """A Celery worker has swept lately."""


def parts_alive(
    session: Session, *, stuck_after: dt.timedelta, now: dt.datetime
) -> ControlPlaneStatus:
    """Return which parts of the control plane are alive.

    stuck_after: maximum age of the leader's last complete round.
    """
    is_worker_alive = holds(session, WORKER_LEASE, now=now)[0]
    row = session.get(ControllerLeaseRow, CONTROLLER_LEASE)
    if row is None or row.expires_at <= now:
        return ControlPlaneStatus("absent", None, is_worker_alive)
    if now - (row.passed_at or row.acquired_at) <= stuck_after:
        return ControlPlaneStatus("ok", None, is_worker_alive)
    return ControlPlaneStatus("failing", row.failing_loop or None, is_worker_alive)


def is_led(session: Session, *, now: dt.datetime) -> bool:
    """Return whether a controller leads, whether or not its loops work."""
    return holds(session, CONTROLLER_LEASE, now=now)[0]


def stuck_after(controller_interval_s: float) -> dt.timedelta:
    """Return the longest time between two complete rounds of a controller that counts as
    healthy."""
    return dt.timedelta(seconds=max(CONTROLLER_STUCK_S, 5 * controller_interval_s))


def worker_sweeps(
    session: Session, *, holder: str, sweep_interval_s: float, now: dt.datetime
) -> None:
    """Note that a worker is alive; it is believed for WORKER_MISSED_SWEEPS intervals and a minute."""
    ttl = dt.timedelta(seconds=WORKER_MISSED_SWEEPS * sweep_interval_s + 60)
    renew_by_anybody(session, name=WORKER_LEASE, holder=holder, ttl=ttl, now=now)


def backup_made(session: Session, *, file: str, now: dt.datetime) -> None:
    """Note that a backup was written to this file."""
    renew_by_anybody(session, name=BACKUP_MARK, holder=file[-128:], ttl=dt.timedelta(), now=now)


def last_backup_at(session: Session) -> dt.datetime | None:
    """Return when the last backup was made; None: never."""
    row = session.get(ControllerLeaseRow, BACKUP_MARK)
    return None if row is None else row.expires_at


def server_hears(session: Session, name: str, *, started_at: dt.datetime, now: dt.datetime) -> None:
    """Stamp the row of an API server: what it takes from agents is written. Controllers look whether
    it changes (domain.lifecycle.silence)."""
    row = session.get(ApiServerRow, name)
    if row is None:
        session.execute(
            delete(ApiServerRow).where(ApiServerRow.stamped_at < now - SERVER_FORGOTTEN)
        )
        row = ApiServerRow(name=name)
        session.add(row)
    row.started_at, row.stamped_at = started_at, now


def server_stops(session: Session, name: str, *, started_at: dt.datetime) -> None:
    """An API server ends in good order: its agents go elsewhere, or wait for the next one. One of the
    same name that has started meanwhile keeps the row."""
    session.execute(
        delete(ApiServerRow).where(ApiServerRow.name == name, ApiServerRow.started_at == started_at)
    )
