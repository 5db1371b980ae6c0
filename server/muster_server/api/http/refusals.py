"""Refused secrets and calls in the audit log."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import HTTPConnection

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.security.refusals import RefusalCounts
from muster_server.services.core import audit

log = structlog.get_logger(__name__)


def note_refusal(
    connection: HTTPConnection,
    action: str,
    subject: str,
    *,
    reason: str = "",
    actor: str = "anonymous",
) -> None:
    """Record that a secret or a call was refused, unless this kind was recorded often enough. Nothing of a
    secret is kept. A database that takes no writes changes nothing of the refusal."""
    counts: RefusalCounts = connection.app.state.refusals
    address = connection.client.host if connection.client is not None else ""
    refusal = counts.count(action, subject, address, actor)
    if refusal is None:
        return
    database: Database = connection.app.state.database
    detail = {"reason": reason} if reason else {}
    try:
        with database.transaction() as session:
            audit.record(
                session,
                refusal.action,
                refusal.subject,
                audit.Author(refusal.actor, clock.now(), refusal.address),
                {**detail, "times": refusal.times} if refusal.times > 1 else detail,
            )
    except SQLAlchemyError as error:
        log.warning("refusal_not_recorded", error=type(error).__name__)
