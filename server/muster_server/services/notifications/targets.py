"""Targets of users and projects: created, listed, changed, deleted and tested."""

from __future__ import annotations

import secrets

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    DeliveryRow,
    NotificationRow,
    NotificationTargetRow,
    OutboxRow,
)
from muster_server.domain.notifications.kinds import TITLES
from muster_server.domain.notifications.matching import Recipients
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.accounts.notifications import (
    DeliveryOut,
    NotificationTargetIn,
    NotificationTargetMade,
    NotificationTargetOut,
    NotificationTargetPatch,
    TargetConfig,
)
from muster_server.schemas.base import Page
from muster_server.security.encryption import KeyRing, key_ring
from muster_server.settings import Settings

from ..core.callers import Caller
from ..core.outbox import add_notification
from ..core.owners import Owner, record_change
from ..core.paging import read_page
from ..secrets.store import seal_row
from .configs import check_config, dump_config, summary_of, with_secret
from .owners import may_see, owner_for, owner_of_row, require_change

PER_OWNER_MAX = 50
"""Most targets of one user or project."""


def list_targets(
    session: Session, caller: Caller, project: str | None, *, cursor: str | None, limit: int
) -> Page[NotificationTargetOut]:
    """Return one page of the caller's targets, or of a project's, by name. Raises NotFound."""
    owner = owner_for(session, caller, project)
    query = select(NotificationTargetRow).where(
        owner.owns(NotificationTargetRow.user_id, NotificationTargetRow.project_id)
    )
    rows, following = read_page(
        session, query, NotificationTargetRow.name, cursor=cursor, limit=limit
    )
    waiting = _count_waiting(session, [row.id for row in rows])
    items = [_out(row, owner.project, waiting.get(row.id, 0)) for row in rows]
    return Page(items=items, next=following)


def create_target(
    session: Session, caller: Caller, body: NotificationTargetIn, settings: Settings
) -> NotificationTargetMade:
    """Raises NotFound, Forbidden, InvalidRequest, and Conflict without a key for secrets."""
    owner = owner_for(session, caller, body.project)
    require_change(caller, owner)
    keys = key_ring(settings)
    check_config(body.config, settings)
    _require_free_name(session, owner, body.name)
    _require_room(session, owner)
    row = NotificationTargetRow(
        user_id=owner.user_id,
        project_id=owner.project_id,
        name=body.name,
        kind=body.config.kind,
        seal_name=f"notification-target:{secrets.token_hex(16)}",
        version=0,
        created_at=caller.now,
        created_by=caller.principal.actor[:160],
    )
    made = _set_config(row, body.config, keys)
    row.changed_at, row.changed_by = caller.now, caller.principal.actor[:160]
    session.add(row)
    session.flush()
    record_change(
        session, caller, owner, "notifications.target_created", f"notification_target:{row.id}"
    )
    return NotificationTargetMade(target=_out(row, owner.project, 0), secret=made)


def update_target(
    session: Session,
    caller: Caller,
    target_id: int,
    body: NotificationTargetPatch,
    settings: Settings,
) -> NotificationTargetMade:
    """Raises NotFound, Forbidden, InvalidRequest and Conflict."""
    row, owner = _get(session, caller, target_id, to_change=True)
    made = None
    if body.name is not None and body.name != row.name:
        _require_free_name(session, owner, body.name)
        row.name = body.name
    if body.config is not None:
        if body.config.kind != row.kind:
            raise InvalidRequest(
                "notifications.bad_target",
                f"The kind of a target cannot change from {row.kind} to {body.config.kind}.",
                fields=[FieldProblem("config.kind", f"must be {row.kind!r}")],
            )
        check_config(body.config, settings)
        made = _set_config(row, body.config, key_ring(settings))
    if body.is_enabled is not None and body.is_enabled != row.is_enabled:
        row.is_enabled, row.disabled_reason = body.is_enabled, ""
        if not body.is_enabled:
            drop_waiting(session, target_id)
    if body.config is not None or body.is_enabled:
        # What was wrong may be mended: the next attempt need not wait.
        row.not_before, row.num_failures = None, 0
    row.changed_at, row.changed_by = caller.now, caller.principal.actor[:160]
    session.flush()
    record_change(
        session, caller, owner, "notifications.target_changed", f"notification_target:{row.id}"
    )
    waiting = _count_waiting(session, [row.id]).get(row.id, 0)
    return NotificationTargetMade(target=_out(row, owner.project, waiting), secret=made)


def delete_target(session: Session, caller: Caller, target_id: int) -> None:
    """Delete a target with its history; what waits for it is not sent. Raises NotFound and
    Forbidden."""
    row, owner = _get(session, caller, target_id, to_change=True)
    drop_waiting(session, target_id)
    session.delete(row)
    record_change(
        session, caller, owner, "notifications.target_deleted", f"notification_target:{row.id}"
    )


def send_test(session: Session, caller: Caller, target_id: int) -> None:
    """Add a test notification, and let the next attempt not wait. Raises NotFound, Forbidden, and
    Conflict for a disabled target or one whose test is still waiting."""
    row, owner = _get(session, caller, target_id, to_change=True)
    if not row.is_enabled:
        raise Conflict(
            "notifications.disabled",
            f"Target {row.name} is disabled.",
            hint="Enable it before you test it.",
        )
    row.not_before = None
    is_waiting = session.scalar(
        select(
            exists().where(
                OutboxRow.target_id == row.id,
                OutboxRow.notification_id == NotificationRow.id,
                NotificationRow.kind == "test",
            )
        )
    )
    if not is_waiting:
        notification = NotificationRow(
            at=caller.now,
            kind="test",
            level="info",
            message=f"{TITLES['test']} for target {row.name}, sent by {caller.principal.name}.",
            project=owner.project,
        )
        add_notification(session, notification, Recipients((), (row.id,)))


def list_deliveries(
    session: Session, caller: Caller, target_id: int, *, cursor: str | None, limit: int
) -> Page[DeliveryOut]:
    """Return one page of the history of a target, newest first. Raises NotFound."""
    _get(session, caller, target_id, to_change=False)
    query = select(DeliveryRow).where(DeliveryRow.target_id == target_id)
    rows, following = read_page(
        session, query, DeliveryRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    return Page(items=[DeliveryOut.from_row(row) for row in rows], next=following)


def drop_waiting(session: Session, target_id: int) -> None:
    """Delete what waits for a target; a message under way is noted as failed."""
    session.execute(delete(OutboxRow).where(OutboxRow.target_id == target_id))
    for row in session.scalars(
        select(DeliveryRow).where(
            DeliveryRow.target_id == target_id, DeliveryRow.state == "sending"
        )
    ):
        row.state, row.ended_at = "failed", row.last_tried_at or row.created_at
        row.error = row.error or "the target was disabled"


# ---------------------------------------------------------------- parts


def _get(
    session: Session, caller: Caller, target_id: int, *, to_change: bool
) -> tuple[NotificationTargetRow, Owner]:
    row = session.get(NotificationTargetRow, target_id)
    owner = (
        owner_of_row(session, user_id=row.user_id, project_id=row.project_id)
        if row is not None
        else None
    )
    if row is None or owner is None or not may_see(caller, owner):
        raise NotFound("notifications.no_target", f"There is no notification target {target_id}.")
    if to_change:
        require_change(caller, owner)
    return row, owner


def _set_config(row: NotificationTargetRow, config: TargetConfig, keys: KeyRing) -> str | None:
    """Encrypt a configuration into the row. Return the secret that was made for it, if any."""
    complete, made = with_secret(config)
    row.version += 1
    seal_row(row, dump_config(complete), keys)
    row.rotated_at = None
    row.summary = summary_of(config)
    return made


def _require_free_name(session: Session, owner: Owner, name: str) -> None:
    taken = select(NotificationTargetRow.id).where(
        owner.owns(NotificationTargetRow.user_id, NotificationTargetRow.project_id),
        NotificationTargetRow.name == name,
    )
    if session.scalar(taken) is not None:
        raise Conflict(
            "notifications.name_taken",
            f"There is already a target named {name!r}.",
            hint="Choose another name, or change that target.",
        )


def _require_room(session: Session, owner: Owner) -> None:
    num = session.scalar(
        select(func.count()).where(
            owner.owns(NotificationTargetRow.user_id, NotificationTargetRow.project_id)
        )
    )
    if (num or 0) >= PER_OWNER_MAX:
        raise Conflict(
            "notifications.too_many",
            f"There are {num} targets already, the most there can be.",
            hint="Delete some of them.",
        )


def _count_waiting(session: Session, target_ids: list[int]) -> dict[int, int]:
    if not target_ids:
        return {}
    counts = (
        select(OutboxRow.target_id, func.count())
        .where(OutboxRow.target_id.in_(target_ids))
        .group_by(OutboxRow.target_id)
    )
    return {row[0]: row[1] for row in session.execute(counts)}


def _out(
    row: NotificationTargetRow, project: str | None, num_waiting: int
) -> NotificationTargetOut:
    return NotificationTargetOut.from_row(
        row,
        project=project,
        num_waiting=num_waiting,
        next_try_at=row.not_before if row.num_failures else None,
    )
