"""Notifications of what happens: into inboxes and the outbox, in the transaction of the event."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from typing import cast

from sqlalchemy import and_, insert, literal, or_, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import (
    ExperimentRow,
    InboxRow,
    NodeRow,
    NotificationRow,
    NotificationRuleRow,
    NotificationRuleTargetRow,
    NotificationTargetRow,
    OutboxRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.db.rows import from_row
from muster_server.domain.notifications.kinds import ADMIN_KINDS, PUBLIC_KINDS, NotificationKind
from muster_server.domain.notifications.matching import (
    NotificationRule,
    Occurrence,
    Recipients,
    Whose,
    recipients,
)

from . import access


def notify(
    session: Session,
    kind: NotificationKind,
    message: str,
    *,
    now: dt.datetime,
    level: str,
    experiment_id: int | None = None,
    trial_id: int | None = None,
    node_id: str | None = None,
    project_id: int | None = None,
    owner_id: int | None = None,
) -> None:
    """Add a notification for everybody whose rules match; nothing if there is nobody.

    owner_id: user whom it concerns, where it is not about an experiment.

    The probes of a diagnosis, which nobody submitted, notify nobody.
    """
    experiment = (
        session.execute(
            select(
                ExperimentRow.name,
                ExperimentRow.owner_id,
                ExperimentRow.project_id,
                ExperimentRow.purpose,
            ).where(ExperimentRow.id == experiment_id)
        ).first()
        if experiment_id is not None
        else None
    )
    if experiment is not None and experiment.purpose is not None:
        return
    if experiment is not None:
        project_id = experiment.project_id
    occurrence = Occurrence(
        kind=kind,
        owner_id=experiment.owner_id if experiment is not None else owner_id,
        project_id=project_id,
    )
    found = recipients(_load_rules(session, occurrence), occurrence)
    if not (found.user_ids or found.target_ids):
        return
    row = NotificationRow(
        at=now,
        kind=kind,
        level=level,
        message=message,
        project=session.scalar(select(ProjectRow.name).where(ProjectRow.id == project_id)),
        experiment_id=experiment_id,
        experiment_name=experiment.name if experiment is not None else None,
        trial_id=trial_id,
        trial_no=session.scalar(select(TrialRow.no).where(TrialRow.id == trial_id)),
        node_id=node_id,
        node_name=session.scalar(select(NodeRow.name).where(NodeRow.id == node_id)),
    )
    add_notification(session, row, found)


def add_notification(session: Session, row: NotificationRow, found: Recipients) -> None:
    """Add a notification to inboxes, and to the outbox of the targets that are enabled."""
    session.add(row)
    session.flush()
    if found.user_ids:
        session.execute(
            insert(InboxRow),
            [{"user_id": id_, "notification_id": row.id} for id_ in found.user_ids],
        )
        touch(session, *(f"inbox:{id_}" for id_ in found.user_ids))
    enabled = session.scalars(
        select(NotificationTargetRow.id)
        .where(
            NotificationTargetRow.id.in_(found.target_ids),
            NotificationTargetRow.is_enabled.is_(True),
        )
        .order_by(NotificationTargetRow.id)
    ).all()
    if enabled:
        session.execute(
            insert(OutboxRow),
            [{"target_id": id_, "notification_id": row.id} for id_ in enabled],
        )


def _load_rules(session: Session, occurrence: Occurrence) -> list[NotificationRule]:
    """Return the enabled rules that may match, those of active users who may see what it is about."""
    of_user = and_(
        NotificationRuleRow.user_id.is_not(None),
        UserRow.may_act,
        or_(
            NotificationRuleRow.whose == "all",
            NotificationRuleRow.user_id == occurrence.owner_id,
            literal(occurrence.kind in ADMIN_KINDS | PUBLIC_KINDS),
        ),
    )
    of_project = and_(
        NotificationRuleRow.owner_project_id.is_not(None),
        NotificationRuleRow.owner_project_id == occurrence.project_id,
    )
    rows = session.execute(
        select(NotificationRuleRow, UserRow.role)
        .join(UserRow, UserRow.id == NotificationRuleRow.user_id, isouter=True)
        .where(
            NotificationRuleRow.is_enabled,
            NotificationRuleRow.kinds.contains(f" {occurrence.kind} ", autoescape=True),
            or_(of_user, of_project),
        )
    ).all()
    if (project_id := occurrence.project_id) is not None:
        rows = [
            found
            for found in rows
            if (user_id := found[0].user_id) is None
            or access.may(session, "read", project_id, user_id)
        ]
    targets = targets_of(session, [row.id for row, _ in rows])
    return [
        from_row(
            NotificationRule,
            row,
            is_admin=role == "admin",
            whose=cast("Whose", row.whose),
            kinds=frozenset(cast("list[NotificationKind]", row.kinds.split())),
            target_ids=tuple(targets[row.id]),
        )
        for row, role in rows
    ]


def targets_of(session: Session, rule_ids: Iterable[int]) -> defaultdict[int, list[int]]:
    """Return the ids of the targets of each rule, in order of id."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    wanted = list(rule_ids)
    if wanted:
        pairs = session.execute(
            select(NotificationRuleTargetRow.rule_id, NotificationRuleTargetRow.target_id)
            .where(NotificationRuleTargetRow.rule_id.in_(wanted))
            .order_by(NotificationRuleTargetRow.target_id)
        )
        for rule_id, target_id in pairs:
            found[rule_id].append(target_id)
    return found
