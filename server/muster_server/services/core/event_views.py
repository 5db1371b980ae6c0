"""Events as REST shows them, newest first."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from muster_server.db.models import EventRow
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut

from .paging import decode_cursor, encode_cursor


def list_events(
    session: Session, about: ColumnElement[bool], *, cursor: str | None, limit: int
) -> Page[EventOut]:
    """Events that `about` selects, newest first."""
    query = select(EventRow).where(about).order_by(EventRow.id.desc()).limit(limit + 1)
    key = decode_cursor(cursor, int)
    if key is not None:
        query = query.where(EventRow.id < key[0])
    rows = list(session.scalars(query))
    more = len(rows) > limit
    items = [
        EventOut.model_validate({name: getattr(row, name) for name in EventOut.model_fields})
        for row in rows[:limit]
    ]
    return Page(items=items, next=encode_cursor(items[-1].id) if more else None)
