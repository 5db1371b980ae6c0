"""Which parts of the control plane are alive, as far as the database knows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sqlalchemy.orm import Session

from muster_server.db.leases import holds, renew_by_anybody

CONTROLLER_LEASE = "controller"
"""Held by the leading controller."""
WORKER_LEASE = "worker"
"""Renewed by every Celery worker when it sweeps; who holds it does not matter."""
WORKER_MISSED_SWEEPS = 3


@dataclass(frozen=True)
class Parts:
    is_led: bool
    """A controller leads."""
    is_worker_alive: bool
    """A Celery worker has swept lately."""


def parts_alive(session: Session, *, now: dt.datetime) -> Parts:
    return Parts(
        is_led=holds(session, CONTROLLER_LEASE, now=now)[0],
        is_worker_alive=holds(session, WORKER_LEASE, now=now)[0],
    )


def worker_sweeps(
    session: Session, *, holder: str, sweep_interval_s: float, now: dt.datetime
) -> None:
    """Note that a worker is alive; it is believed for WORKER_MISSED_SWEEPS intervals and a minute."""
    ttl = dt.timedelta(seconds=WORKER_MISSED_SWEEPS * sweep_interval_s + 60)
    renew_by_anybody(session, name=WORKER_LEASE, holder=holder, ttl=ttl, now=now)
