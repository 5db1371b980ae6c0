"""Rules of users and projects: which events are notified, and where."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    NotificationRuleRow,
    NotificationRuleTargetRow,
    NotificationTargetRow,
    ProjectRow,
)
from muster_server.domain.notifications.kinds import ADMIN_KINDS, PERSONAL_KINDS, RuleKind
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.accounts.notifications import (
    NotificationRuleIn,
    NotificationRuleOut,
    NotificationRulePatch,
)
from muster_server.schemas.base import Page

from ..core.callers import Caller
from ..core.lookup import get_project
from ..core.outbox import targets_of
from ..core.owners import Owner, record_change
from ..core.paging import read_page
from .owners import may_see, owner_for, owner_of_row, require_change

PER_OWNER_MAX = 50
"""Most rules of one user or project."""


def list_rules(
    session: Session, caller: Caller, project: str | None, *, cursor: str | None, limit: int
) -> Page[NotificationRuleOut]:
    """Return one page of the caller's rules, or of a project's. Raises NotFound."""
    owner = owner_for(session, caller, project)
    query = select(NotificationRuleRow).where(
        owner.owns(NotificationRuleRow.user_id, NotificationRuleRow.owner_project_id)
    )
    rows, following = read_page(session, query, NotificationRuleRow.id, cursor=cursor, limit=limit)
    return Page(items=_outs(session, rows, owner), next=following)


def create_rule(session: Session, caller: Caller, body: NotificationRuleIn) -> NotificationRuleOut:
    """Raises NotFound, Forbidden, InvalidRequest and Conflict."""
    owner = owner_for(session, caller, body.owner_project)
    require_change(caller, owner)
    _require_kinds(caller, owner, body.kinds)
    num = session.scalar(
        select(func.count()).where(
            owner.owns(NotificationRuleRow.user_id, NotificationRuleRow.owner_project_id)
        )
    )
    if (num or 0) >= PER_OWNER_MAX:
        raise Conflict(
            "notifications.too_many",
            f"There are {num} rules already, the most there can be.",
            hint="Delete some of them.",
        )
    is_project = owner.kind == "project"
    row = NotificationRuleRow(
        user_id=owner.user_id,
        owner_project_id=owner.project_id,
        whose="all" if is_project else body.whose,
        project_id=None if is_project else _project_id(session, body.project),
        kinds=_stored(body.kinds),
        inbox=body.inbox and not is_project,
        is_enabled=body.is_enabled,
        created_at=caller.now,
        changed_at=caller.now,
    )
    session.add(row)
    session.flush()
    _set_targets(session, row, owner, body.target_ids)
    _require_effect(row, body.target_ids)
    record_change(
        session, caller, owner, "notifications.rule_created", f"notification_rule:{row.id}"
    )
    return _outs(session, [row], owner)[0]


def update_rule(
    session: Session, caller: Caller, rule_id: int, body: NotificationRulePatch
) -> NotificationRuleOut:
    """Raises NotFound, Forbidden and InvalidRequest."""
    row, owner = _get(session, caller, rule_id)
    is_project = owner.kind == "project"
    if body.kinds is not None:
        _require_kinds(caller, owner, body.kinds)
        row.kinds = _stored(body.kinds)
    if body.whose is not None and not is_project:
        row.whose = body.whose
    if "project" in body.model_fields_set and not is_project:
        row.project_id = _project_id(session, body.project)
    if body.inbox is not None:
        row.inbox = body.inbox and not is_project
    if body.is_enabled is not None:
        row.is_enabled = body.is_enabled
    if body.target_ids is not None:
        _set_targets(session, row, owner, body.target_ids)
    _require_effect(row, targets_of(session, [row.id])[row.id])
    row.changed_at = caller.now
    session.flush()
    record_change(
        session, caller, owner, "notifications.rule_changed", f"notification_rule:{row.id}"
    )
    return _outs(session, [row], owner)[0]


def delete_rule(session: Session, caller: Caller, rule_id: int) -> None:
    """Raises NotFound and Forbidden."""
    row, owner = _get(session, caller, rule_id)
    session.delete(row)
    record_change(
        session, caller, owner, "notifications.rule_deleted", f"notification_rule:{row.id}"
    )


# ---------------------------------------------------------------- parts


def _get(session: Session, caller: Caller, rule_id: int) -> tuple[NotificationRuleRow, Owner]:
    row = session.get(NotificationRuleRow, rule_id)
    owner = (
        owner_of_row(session, user_id=row.user_id, project_id=row.owner_project_id)
        if row is not None
        else None
    )
    if row is None or owner is None or not may_see(caller, owner):
        raise NotFound("notifications.no_rule", f"There is no notification rule {rule_id}.")
    require_change(caller, owner)
    return row, owner


def _stored(kinds: Sequence[RuleKind]) -> str:
    return f" {' '.join(dict.fromkeys(kinds))} "


def _require_kinds(caller: Caller, owner: Owner, kinds: Sequence[RuleKind]) -> None:
    for kind in ADMIN_KINDS & set(kinds):
        if owner.kind == "project" or caller.principal.role != "admin":
            raise Forbidden(
                "notifications.admin_kind",
                f"{kind} concerns the cluster: only rules of administrators can name it.",
                hint=f"Leave out {kind}.",
            )
    for kind in PERSONAL_KINDS & set(kinds):
        if owner.kind == "project":
            raise InvalidRequest(
                "notifications.personal_kind",
                f"{kind} concerns one user alone: a rule of a project cannot name it.",
                hint="Name it in a rule of your own.",
                fields=[FieldProblem("kinds", f"has {kind}")],
            )


def _require_effect(row: NotificationRuleRow, target_ids: Sequence[int]) -> None:
    if not row.inbox and not target_ids:
        raise InvalidRequest(
            "notifications.no_recipient",
            "The rule would notify nobody: it names no target"
            + (" and not the inbox." if row.user_id is not None else "."),
            fields=[FieldProblem("target_ids", "names no target")],
        )


def _project_id(session: Session, name: str | None) -> int | None:
    return get_project(session, name).id if name is not None else None


def _set_targets(
    session: Session, row: NotificationRuleRow, owner: Owner, target_ids: Sequence[int]
) -> None:
    """Replace the targets of a rule by others of the same owner."""
    wanted = sorted(set(target_ids))
    known = set(
        session.scalars(
            select(NotificationTargetRow.id).where(
                NotificationTargetRow.id.in_(wanted),
                owner.owns(NotificationTargetRow.user_id, NotificationTargetRow.project_id),
            )
        )
    )
    missing = [id_ for id_ in wanted if id_ not in known]
    if missing:
        whose = "you have" if owner.kind == "user" else f"project {owner.name} has"
        raise InvalidRequest(
            "notifications.unknown_target",
            f"There is no notification target {missing[0]} that {whose}.",
            fields=[FieldProblem("target_ids", f"names {missing[0]}, which is no target")],
        )
    session.execute(
        delete(NotificationRuleTargetRow).where(NotificationRuleTargetRow.rule_id == row.id)
    )
    if wanted:
        session.execute(
            insert(NotificationRuleTargetRow),
            [{"rule_id": row.id, "target_id": id_} for id_ in wanted],
        )


def _outs(
    session: Session, rows: Sequence[NotificationRuleRow], owner: Owner
) -> list[NotificationRuleOut]:
    targets = targets_of(session, [row.id for row in rows])
    wanted = {row.project_id for row in rows if row.project_id is not None}
    projects = select(ProjectRow.id, ProjectRow.name).where(ProjectRow.id.in_(wanted))
    names = {row.id: row.name for row in session.execute(projects)}
    return [
        NotificationRuleOut.from_row(
            row,
            owner_project=owner.project,
            project=names.get(row.project_id) if row.project_id is not None else None,
            kinds=row.kinds.split(),
            target_ids=targets[row.id],
        )
        for row in rows
    ]
