"""What each user has dismissed from the list of what needs attention.

A key names one occurrence. The same problem at another time has another key, so it is listed again.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from muster_server.db.models import DismissalRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.errors import Forbidden
from muster_server.schemas.accounts.dismissals import DismissalOut, DismissalsOut
from muster_server.security.principal import Principal

MAX_DISMISSALS = 500
"""Maximum number of dismissals per user. A new one replaces the oldest."""
MAX_KEY_CHARS = 120


def list_dismissals(session: Session, principal: Principal) -> DismissalsOut:
    """Return what the caller has dismissed, latest first."""
    rows = session.scalars(
        select(DismissalRow)
        .where(DismissalRow.user_id == _user(principal))
        .order_by(DismissalRow.dismissed_at.desc(), DismissalRow.key)
        .limit(MAX_DISMISSALS)
    )
    return DismissalsOut(items=[DismissalOut.from_row(row) for row in rows])


def dismiss(session: Session, principal: Principal, key: str, now: dt.datetime) -> None:
    """Dismiss what `key` names; once more changes nothing."""
    user_id = _user(principal)
    session.execute(
        insert_or_ignore(session, DismissalRow),
        {"user_id": user_id, "key": key, "dismissed_at": now},
    )
    kept = (
        select(DismissalRow.key)
        .where(DismissalRow.user_id == user_id)
        .order_by(DismissalRow.dismissed_at.desc(), DismissalRow.key)
        .limit(MAX_DISMISSALS)
    )
    session.execute(
        delete(DismissalRow).where(DismissalRow.user_id == user_id, DismissalRow.key.not_in(kept))
    )


def restore(session: Session, principal: Principal, key: str) -> None:
    """List it again; nothing happens if it was not dismissed."""
    session.execute(
        delete(DismissalRow).where(
            DismissalRow.user_id == _user(principal), DismissalRow.key == key
        )
    )


def _user(principal: Principal) -> int:
    if principal.user_id is None:
        raise Forbidden(
            "dismissals.no_user", "Dismissals belong to users; this credential is no user's."
        )
    return principal.user_id
