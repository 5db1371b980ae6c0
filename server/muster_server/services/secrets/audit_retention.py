"""Removing old records of the audit trail so that what stays can still be verified.

A record is removed with all before it. The seal of the last one is kept as the base of the chain, signed
like its head: what stays must begin there, and nobody without the key can move it.
"""

from __future__ import annotations

import datetime as dt
import time

import structlog
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.deleting import Deleter, delete_all
from muster_server.db.engine import Database
from muster_server.db.models import AuditHeadRow, AuditRow
from muster_server.domain.audit_chain import Seal
from muster_server.security.encryption import KeyRing

from ..core import audit
from . import audit_seals

log = structlog.get_logger(__name__)

SLACK = dt.timedelta(days=1)
"""How much older than its age the oldest record becomes: the whole trail is verified before some of it
goes, which takes seconds."""


def remove_old(
    database: Database, now: dt.datetime, *, days: int, keys: KeyRing | None, budget_s: float
) -> None:
    """Remove the sealed records of more than `days`, from the oldest to the first younger one.

    The newest stays, because the next seal follows it. Nothing is removed from a trail that is not as it
    was sealed: what was changed would be gone with the evidence.
    """
    deadline = time.monotonic() + budget_s
    with database.snapshot() as session:
        base = _next_base(session, now - dt.timedelta(days=days))
        problem = audit_seals.verify(session, keys=keys).problem if base is not None else ""
    if problem:
        log.error("audit_not_removed", why=problem)
        return
    if base is not None:
        with database.transaction() as session:
            audit_seals.move_base(session, base, keys=keys, now=now)
            audit.record(
                session,
                "audit.removed",
                "audit",
                audit.Author("system", now),
                {"up_to": base.no, "days": days},
            )
    left_s = deadline - time.monotonic()
    delete_all(database, _delete_before_base, budget_s=max(0.0, left_s))


def _next_base(session: Session, cutoff: dt.datetime) -> Seal | None:
    """Return the seal of the last record to remove; None if there is none to remove yet."""
    kept = audit_seals.base_of(session)
    sealed = select(func.min(AuditRow.seal_no)).where(AuditRow.seal_no > kept.no)
    oldest = select(AuditRow.at).where(AuditRow.seal_no == sealed.scalar_subquery())
    found_at = session.scalar(oldest)
    if found_at is None or found_at > cutoff - SLACK:
        return None
    first_kept = session.scalar(sealed.where(AuditRow.at >= cutoff))
    if first_kept is None:
        first_kept = session.scalar(select(func.max(AuditRow.seal_no)))
    last = session.scalar(select(AuditRow).where(AuditRow.seal_no == (first_kept or 0) - 1))
    if last is None or (last.seal_no or 0) <= kept.no:
        return None
    return Seal(no=last.seal_no or 0, digest=last.digest)


def _delete_before_base(session: Session, limit: int) -> int:
    deleter = Deleter(session, limit)
    base = session.get(AuditHeadRow, audit_seals.BASE_ID)
    if base is not None:
        deleter.delete(AuditRow, AuditRow.seal_no <= base.seal_no)
    return deleter.num_deleted
