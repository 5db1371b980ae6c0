"""Bounds of inboxes, of the outbox and of histories: each function deletes some rows at a time."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.deleting import ROWS_FIRST, Deleter
from muster_server.db.models import (
    DeliveryRow,
    InboxRow,
    NotificationRow,
    NotificationTargetRow,
    OutboxRow,
)

INBOX_DAYS = 90
INBOX_MAX = 1000
"""Entries of an inbox that are kept; older ones are deleted, read or not."""
HISTORY_DAYS = 30
HISTORY_MAX = 1000
"""Messages that the history of a target keeps."""
OUTBOX_MAX = 10_000
"""Notifications that may wait for one target; the oldest are dropped, and the target counts them."""
OWNERS_MAX = 20
"""Inboxes, targets or histories that one transaction trims."""


def delete_old(session: Session, now: dt.datetime, limit: int = ROWS_FIRST) -> int:
    """Delete what is too old, too much, or belongs to nothing any more. Return the rows deleted."""
    deleter = Deleter(session, limit)
    _trim_outbox(session, deleter)
    _trim_inboxes(session, deleter)
    _trim_histories(session, deleter)
    old_entries = select(NotificationRow.id).where(
        NotificationRow.at < now - dt.timedelta(days=INBOX_DAYS)
    )
    all(
        deleter.delete(row, *where)
        for row, where in (
            (InboxRow, (InboxRow.notification_id.in_(old_entries),)),
            (DeliveryRow, (DeliveryRow.ended_at < now - dt.timedelta(days=HISTORY_DAYS),)),
            (
                NotificationRow,
                (
                    # Nothing refers to a notification that was just added only within its own
                    # transaction.
                    ~exists().where(InboxRow.notification_id == NotificationRow.id),
                    ~exists().where(OutboxRow.notification_id == NotificationRow.id),
                ),
            ),
        )
    )
    return deleter.num_deleted


def _trim_outbox(session: Session, deleter: Deleter) -> None:
    is_waiting = OutboxRow.delivery_id.is_(None)
    for target_id in session.scalars(
        select(OutboxRow.target_id)
        .where(is_waiting)
        .group_by(OutboxRow.target_id)
        .having(func.count() > OUTBOX_MAX)
        .limit(OWNERS_MAX)
    ).all():
        first_kept = session.scalar(
            select(OutboxRow.id)
            .where(OutboxRow.target_id == target_id, is_waiting)
            .order_by(OutboxRow.id.desc())
            .offset(OUTBOX_MAX - 1)
            .limit(1)
        )
        before = deleter.num_deleted
        deleter.delete(
            OutboxRow, OutboxRow.target_id == target_id, is_waiting, OutboxRow.id < first_kept
        )
        session.execute(
            update(NotificationTargetRow)
            .where(NotificationTargetRow.id == target_id)
            .values(num_dropped=NotificationTargetRow.num_dropped + deleter.num_deleted - before)
            .execution_options(synchronize_session=False)
        )


def _trim_inboxes(session: Session, deleter: Deleter) -> None:
    for user_id in session.scalars(
        select(InboxRow.user_id)
        .group_by(InboxRow.user_id)
        .having(func.count() > INBOX_MAX)
        .limit(OWNERS_MAX)
    ).all():
        first_kept = session.scalar(
            select(InboxRow.id)
            .where(InboxRow.user_id == user_id)
            .order_by(InboxRow.id.desc())
            .offset(INBOX_MAX - 1)
            .limit(1)
        )
        deleter.delete(InboxRow, InboxRow.user_id == user_id, InboxRow.id < first_kept)


def _trim_histories(session: Session, deleter: Deleter) -> None:
    is_over = DeliveryRow.state != "sending"
    for target_id in session.scalars(
        select(DeliveryRow.target_id)
        .where(is_over)
        .group_by(DeliveryRow.target_id)
        .having(func.count() > HISTORY_MAX)
        .limit(OWNERS_MAX)
    ).all():
        first_kept = session.scalar(
            select(DeliveryRow.id)
            .where(DeliveryRow.target_id == target_id, is_over)
            .order_by(DeliveryRow.id.desc())
            .offset(HISTORY_MAX - 1)
            .limit(1)
        )
        deleter.delete(
            DeliveryRow, DeliveryRow.target_id == target_id, is_over, DeliveryRow.id < first_kept
        )
