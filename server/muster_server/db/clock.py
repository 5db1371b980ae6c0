"""The one clock that all API servers and controllers share: that of the database."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server import clock


def server_time_ms(session: Session) -> float:
    """Return Unix time in milliseconds, by the database's clock, at this moment of the transaction.

    SQLite has no clock of its own: everything that uses it runs on one machine.
    """
    if session.get_bind().dialect.name == "sqlite":
        return clock.now().timestamp() * 1000
    return float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0) * 1000
