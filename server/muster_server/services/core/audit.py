"""The audit trail: who did what to whom, and from where. Append-only; never holds a secret."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from muster_server.db.models import AuditRow

from .paging import read_page


@dataclass(frozen=True)
class Author:
    """Who changes something, when, and from which address."""

    actor: str
    now: dt.datetime
    remote_addr: str = ""


def record(
    session: Session, action: str, subject: str, by: Author, detail: Mapping[str, Any] | None = None
) -> None:
    """Add one line, in the transaction of what it tells about. `action` is stable ("auth.login")."""
    session.add(
        AuditRow(
            at=by.now,
            actor=by.actor[:160],
            action=action,
            subject=subject[:160],
            remote_addr=by.remote_addr[:64],
            detail=dict(detail or {}),
        )
    )


def list_entries(
    session: Session, *, text: str | None, cursor: str | None, limit: int
) -> tuple[list[AuditRow], str | None]:
    """Return the entries, the newest first, and the cursor of the next page.

    text: Part of the actor, the action, the subject or the address, in any case; None for all.
    """
    query = select(AuditRow)
    if text:
        columns = (AuditRow.actor, AuditRow.action, AuditRow.subject, AuditRow.remote_addr)
        query = query.where(or_(*(column.icontains(text, autoescape=True) for column in columns)))
    return read_page(session, query, AuditRow.id, cursor=cursor, limit=limit, newest_first=True)
