"""Stored notifications as the domain sees them."""

from __future__ import annotations

from typing import cast

from muster_server.db.models import NotificationRow
from muster_server.domain.notifications.kinds import NotificationKind
from muster_server.domain.notifications.messages import Notification


def notification_of(row: NotificationRow) -> Notification:
    return Notification(
        id=row.id,
        at=row.at,
        kind=cast("NotificationKind", row.kind),
        level=row.level,
        message=row.message,
        project=row.project,
        experiment_id=row.experiment_id,
        experiment_name=row.experiment_name,
        trial_id=row.trial_id,
        trial_no=row.trial_no,
        node_id=row.node_id,
        node_name=row.node_name,
    )
