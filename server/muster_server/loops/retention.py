"""Small housekeeping: what has expired is deleted, a bounded number of rows at a time."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete, select

from muster_server.db.engine import Database
from muster_server.db.models import IdempotencyRow, OneTimeTokenRow, SessionRow

IDEMPOTENCY_KEPT = dt.timedelta(days=1)
EXPIRED_KEPT = dt.timedelta(days=1)
ROWS_PER_PASS = 1000


def retention_pass(database: Database, now: dt.datetime) -> None:
    """Forget expired sessions, one-time tokens and answered idempotency keys."""
    with database.transaction() as session:
        for column, before in (
            (SessionRow.secret_hash, SessionRow.expires_at < now - EXPIRED_KEPT),
            (OneTimeTokenRow.id, OneTimeTokenRow.expires_at < now - EXPIRED_KEPT),
        ):
            old = select(column).where(before).limit(ROWS_PER_PASS)
            session.execute(
                delete(column.class_)
                .where(column.in_(old.scalar_subquery()))
                .execution_options(synchronize_session=False)
            )
        session.execute(
            delete(IdempotencyRow)
            .where(IdempotencyRow.created_at < now - IDEMPOTENCY_KEPT)
            .execution_options(synchronize_session=False)
        )
