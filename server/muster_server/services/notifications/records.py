"""Stored notifications as the domain sees them."""

from __future__ import annotations

from typing import cast

from muster_server.db.models import NotificationRow
from muster_server.db.rows import from_row
from muster_server.domain.notifications.kinds import NotificationKind
from muster_server.domain.notifications.messages import Notification


def notification_of(row: NotificationRow) -> Notification:
    return from_row(Notification, row, kind=cast("NotificationKind", row.kind))
