"""Weekly summaries: what the runs of a person held and lost, for who has a rule about it."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import exists, func, or_, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import LedgerDayRow, NotificationRuleRow, UserRow
from muster_server.domain.goodput.ledger import CLASSES
from muster_server.domain.goodput.summary import WEEK, due_week, weekly_text
from muster_server.domain.notifications.kinds import RuleKind

from ..core.outbox import notify
from ..core.writes import changed

KIND: RuleKind = "summary.weekly"


def send_due(database: Database, now: dt.datetime) -> int:
    """Notify everybody who wants a summary of the last week and has none yet; return how many were looked
    at. Each is noted in the transaction that sends it, so none is sent twice."""
    due_at = due_week(now)
    is_due = or_(UserRow.summarized_at.is_(None), UserRow.summarized_at < due_at)
    wants = exists().where(
        NotificationRuleRow.user_id == UserRow.id,
        NotificationRuleRow.is_enabled,
        NotificationRuleRow.kinds.contains(f" {KIND} ", autoescape=True),
        # A rule begins with the week in which it was made.
        NotificationRuleRow.changed_at < due_at,
    )
    with database.read() as session:
        ids = session.scalars(select(UserRow.id).where(UserRow.may_act, is_due, wants)).all()
    for user_id in ids:
        with database.transaction() as session:
            claim = update(UserRow).where(UserRow.id == user_id, is_due)
            if changed(session, claim.values(summarized_at=due_at)):
                _send(session, user_id, due_at, now)
    return len(ids)


def _send(session: Session, user_id: int, due_at: dt.datetime, now: dt.datetime) -> None:
    row = session.execute(
        select(
            *(func.sum(getattr(LedgerDayRow, str(kind))).label(str(kind)) for kind in CLASSES)
        ).where(
            LedgerDayRow.owner_id == user_id,
            LedgerDayRow.day >= (due_at - WEEK).date(),
            LedgerDayRow.day < due_at.date(),
        )
    ).one()
    text = weekly_text({k: v or 0.0 for k, v in row._mapping.items()}, due_at)
    if text is not None:
        notify(session, KIND, text, now=now, level="info", owner_id=user_id)
