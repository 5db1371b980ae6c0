"""The inbox of a user in the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import InboxRow, NotificationRow
from muster_server.domain.notifications.messages import path_of, title_of
from muster_server.schemas.accounts.notifications import InboxCountOut, InboxEntryOut
from muster_server.schemas.base import Page

from ..core.callers import Caller
from ..core.paging import read_page_of_tuples
from .owners import owner_for
from .records import notification_of


def list_inbox(
    session: Session, caller: Caller, *, unread: bool, cursor: str | None, limit: int
) -> Page[InboxEntryOut]:
    """Return one page of the caller's inbox, newest first. Raises Forbidden."""
    owner = owner_for(session, caller, None)
    query = (
        select(InboxRow, NotificationRow)
        .join(NotificationRow, NotificationRow.id == InboxRow.notification_id)
        .where(InboxRow.user_id == owner.id)
    )
    if unread:
        query = query.where(InboxRow.is_read.is_(False))
    rows, following = read_page_of_tuples(
        session, query, InboxRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = []
    for entry, row in rows:
        content = notification_of(row)
        items.append(
            InboxEntryOut.from_row(
                row,
                id=entry.id,
                is_read=entry.is_read,
                title=title_of([content]),
                path=path_of(content),
            )
        )
    return Page(items=items, next=following)


def count_unread(session: Session, caller: Caller) -> InboxCountOut:
    """Return how many entries the caller has not read. Raises Forbidden."""
    owner = owner_for(session, caller, None)
    num = session.scalar(
        select(func.count())
        .select_from(InboxRow)
        .join(NotificationRow, NotificationRow.id == InboxRow.notification_id)
        .where(InboxRow.user_id == owner.id, InboxRow.is_read.is_(False))
    )
    return InboxCountOut(num_unread=num or 0)


def mark_read(session: Session, caller: Caller, ids: Sequence[int] | None) -> InboxCountOut:
    """Mark entries of the caller as read, all of them for None; others' are left alone. Raises
    Forbidden."""
    owner = owner_for(session, caller, None)
    statement = update(InboxRow).where(InboxRow.user_id == owner.id, InboxRow.is_read.is_(False))
    if ids is not None:
        statement = statement.where(InboxRow.id.in_(ids))
    session.execute(statement.values(is_read=True).execution_options(synchronize_session=False))
    touch(session, f"inbox:{owner.id}")
    return count_unread(session, caller)
