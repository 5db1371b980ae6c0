"""Events as REST shows them, newest first."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from muster_server.db.models import EventRow
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut

from .paging import read_page


def list_events(
    session: Session, about: ColumnElement[bool], *, cursor: str | None, limit: int
) -> Page[EventOut]:
    """Events that `about` selects, newest first."""
    query = select(EventRow).where(about)
    rows, following = read_page(
        session, query, EventRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [EventOut.from_row(row) for row in rows]
    return Page(items=items, next=following)
