"""Leader election: one row per loop family, taken when it is free or expired, with a growing epoch.

The lease decides who should work; the epoch decides whose writes count. Every write transaction of
a leader calls `require`, so one that was suspended and wakes up too late changes nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, bindparam, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .models import ControllerLeaseRow


class LeaseLost(Exception):
    """Another controller leads now; whatever was decided must be dropped."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    name: str
    holder: str
    epoch: int
    acquired_at: dt.datetime
    """Time at which this holder became the leader; renewing does not change it."""


def acquire(
    session: Session,
    *,
    name: str,
    holder: str,
    ttl: dt.timedelta,
    now: dt.datetime,
    is_abandoned: bool = False,
) -> Lease | None:
    """Become or stay the leader for `ttl`. Return None if another process leads.

    A holder that lets its lease expire and asks again gets a new epoch: in between, somebody
    else may have led. is_abandoned: the caller knows that the holder has ended, or has seen `stamp`
    stay the same for longer than `ttl` by a clock of its own, so that a holder whose clock is ahead
    keeps nobody waiting.
    """
    row = session.get(ControllerLeaseRow, name, with_for_update=True)
    if row is None:
        row = ControllerLeaseRow(
            name=name, holder=holder, epoch=1, acquired_at=now, expires_at=now + ttl
        )
        session.add(row)
        try:
            session.flush()
        except IntegrityError:  # another one came first, this very moment
            session.rollback()
            return None
    elif row.holder == holder and row.expires_at > now:
        row.expires_at = now + ttl
    elif row.expires_at <= now or (is_abandoned and row.holder != holder):
        row.holder, row.epoch = holder, row.epoch + 1
        row.acquired_at, row.expires_at = now, now + ttl
        row.passed_at, row.failing_loop = None, ""
    else:
        return None
    return Lease(name=name, holder=row.holder, epoch=row.epoch, acquired_at=row.acquired_at)


def note_passes(
    session: Session, lease: Lease, *, passed_at: dt.datetime | None, failing_loop: str
) -> None:
    """Say when the leader last worked through all of its loops (None: not once yet), and in which of
    them its latest round broke off ("": in none). Call it in the transaction of `acquire`."""
    row = session.get_one(ControllerLeaseRow, lease.name)
    row.passed_at, row.failing_loop = passed_at, failing_loop


def stamp(session: Session, name: str) -> tuple[int, dt.datetime] | None:
    """Return a value that changes whenever the lease is taken or renewed; None if nobody ever had
    it."""
    row = session.get(ControllerLeaseRow, name)
    return (row.epoch, row.expires_at) if row is not None else None


def holder_of(session: Session, name: str) -> str | None:
    """Return the last holder of the lease; None if there never was one. It stays so until the end
    of the transaction."""
    row = session.get(ControllerLeaseRow, name, with_for_update=True)
    return row.holder if row is not None else None


def holds(session: Session, name: str, *, now: dt.datetime) -> tuple[bool, int]:
    """Return whether somebody holds the lease, and how often it has changed hands (0: never held)."""
    row = session.get(ControllerLeaseRow, name)
    return (row.expires_at > now, row.epoch) if row is not None else (False, 0)


def renew_by_anybody(
    session: Session, *, name: str, holder: str, ttl: dt.timedelta, now: dt.datetime
) -> None:
    """Record that one of several equals is alive. It excludes nobody."""
    row = session.get(ControllerLeaseRow, name, with_for_update=True)
    if row is not None:
        row.holder, row.expires_at = holder, now + ttl
        return
    row = ControllerLeaseRow(
        name=name, holder=holder, epoch=1, acquired_at=now, expires_at=now + ttl
    )
    with contextlib.suppress(IntegrityError), session.begin_nested():
        session.add(row)  # another one came first: it says the same


_EPOCH = (
    select(ControllerLeaseRow.epoch)
    .where(ControllerLeaseRow.name == bindparam("of"), ControllerLeaseRow.holder == bindparam("by"))
    .with_for_update(read=True)
)
"""Query run before every write of a leader."""


def require(session: Session, lease: Lease) -> None:
    """Raise LeaseLost unless `lease` still leads; until the commit nobody can take over."""
    said = {"of": lease.name, "by": lease.holder}
    epoch = session.connection().scalar(_EPOCH, said)
    if epoch != lease.epoch:
        raise LeaseLost(f"{lease.name}: epoch {lease.epoch} is over")


def release(session: Session, lease: Lease, *, now: dt.datetime) -> bool:
    """Let the next process lead at once. Return False if the lease was lost already."""
    result = session.execute(
        update(ControllerLeaseRow)
        .where(
            ControllerLeaseRow.name == lease.name,
            ControllerLeaseRow.holder == lease.holder,
            ControllerLeaseRow.epoch == lease.epoch,
        )
        .values(expires_at=now)
    )
    return cast("CursorResult[Any]", result).rowcount == 1
