"""Who belongs to which project and to which group."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    GroupMemberRow,
    GroupRow,
    ProjectMemberRow,
    ProjectRow,
    ScimGroupRow,
    UserRow,
)
from muster_server.domain.access import Action, ProjectRole
from muster_server.errors import Conflict, NotFound
from muster_server.schemas.accounts.members import GroupMemberOut, GroupOut, ProjectMemberOut
from muster_server.schemas.base import Page

from .. import access, callers
from ..callers import Caller
from ..lookup import get_project
from ..paging import read_page_of_tuples

MemberKind = Literal["user", "group"]

# ---------------------------------------------------------------- projects


def list_members(
    session: Session, project_name: str, caller: Caller, *, cursor: str | None, limit: int
) -> Page[ProjectMemberOut]:
    """Return one page of the members of a project, in the order in which they were added. Raises
    NotFound."""
    project = _project(session, project_name, caller, "read")
    query = _members().where(ProjectMemberRow.project_id == project.id)
    rows, following = read_page_of_tuples(
        session, query, ProjectMemberRow.id, cursor=cursor, limit=limit
    )
    return Page(items=[_member_out(row, user, group) for row, user, group in rows], next=following)


def set_member(
    session: Session,
    project_name: str,
    kind: MemberKind,
    name: str,
    role: ProjectRole,
    caller: Caller,
) -> ProjectMemberOut:
    """Add a user or a group to a project, or change the role it has there. Raises NotFound, and
    Forbidden unless the caller is a maintainer of the project or an administrator."""
    project = _project(session, project_name, caller, "manage", lock=True)
    who = _who(session, kind, name)
    row = session.scalar(select(ProjectMemberRow).where(_is(project, kind, who)))
    if row is None:
        row = ProjectMemberRow(
            project_id=project.id,
            user_id=who.id if kind == "user" else None,
            group_id=who.id if kind == "group" else None,
            role=role,
            added_at=caller.now,
            added_by=caller.principal.actor,
        )
        session.add(row)
    row.role = role
    session.flush()
    _record(session, caller, "projects.member_set", f"project:{project.name}", kind, name, role)
    user, group = (name, None) if kind == "user" else (None, name)
    return _member_out(row, user, group)


def remove_member(
    session: Session, project_name: str, kind: MemberKind, name: str, caller: Caller
) -> None:
    """Remove a user or a group from a project. What they have submitted runs on, without the project's
    secrets from its next attempt on. Raises NotFound and Forbidden."""
    project = _project(session, project_name, caller, "manage", lock=True)
    done = session.execute(
        delete(ProjectMemberRow).where(_is(project, kind, _who(session, kind, name)))
    )
    if done.rowcount == 0:  # type: ignore[attr-defined]
        raise NotFound(
            "projects.no_such_member", f"Project {project.name} has no member {kind} {name}."
        )
    _record(session, caller, "projects.member_removed", f"project:{project.name}", kind, name)


# ---------------------------------------------------------------- groups


def list_groups(session: Session, *, cursor: str | None, limit: int) -> Page[GroupOut]:
    """Return one page of groups, by name."""
    rows, following = read_page_of_tuples(
        session, _groups(), GroupRow.name, cursor=cursor, limit=limit
    )
    items = [_group_out(row, num, is_provisioned) for row, num, is_provisioned in rows]
    return Page(items=items, next=following)


def set_group(session: Session, name: str, caller: Caller) -> GroupOut:
    """Return the group of this name, which is created if there is none."""
    if session.scalar(select(GroupRow.id).where(GroupRow.name == name)) is None:
        group = GroupRow(name=name, created_at=caller.now, created_by=caller.principal.actor)
        session.add(group)
        session.flush()
        _record(session, caller, "groups.created", f"group:{name}")
    return _group_out(*session.execute(_groups().where(GroupRow.name == name)).one())


def fill_group(session: Session, name: str, provider_group: str | None, caller: Caller) -> GroupOut:
    """Let a group of the OpenID provider say who the members of a group are, from each one's next sign-in
    or check on; None: administrators say it, and the members stay. Raises NotFound, and Conflict if it fills
    another group."""
    group = _group(session, name, lock=True)
    other = session.scalar(
        select(GroupRow.name).where(
            GroupRow.provider_group == provider_group, GroupRow.id != group.id
        )
    )
    if provider_group is not None and other is not None:
        raise Conflict(
            "groups.provider_group_taken",
            f"The provider's group {provider_group} fills the group {other} already.",
        )
    if group.provider_group != provider_group:
        _require_not_provisioned(session, group)
        group.provider_group = provider_group
        callers.record(
            session,
            "groups.filled",
            f"group:{name}",
            caller,
            {"provider_group": provider_group or ""},
        )
    return set_group(session, name, caller)


def delete_group(session: Session, name: str, caller: Caller) -> None:
    """Delete a group, and with it what its members may do by it. Raises NotFound."""
    session.delete(_group(session, name))
    _record(session, caller, "groups.deleted", f"group:{name}")


def list_group_members(
    session: Session, name: str, *, cursor: str | None, limit: int
) -> Page[GroupMemberOut]:
    """Return one page of the members of a group, the oldest account first. Raises NotFound."""
    query = (
        select(GroupMemberRow, UserRow.username)
        .join(UserRow, UserRow.id == GroupMemberRow.user_id)
        .where(GroupMemberRow.group_id == _group(session, name).id)
    )
    rows, following = read_page_of_tuples(
        session, query, GroupMemberRow.user_id, cursor=cursor, limit=limit
    )
    items = [GroupMemberOut.from_row(row, username=username) for row, username in rows]
    return Page(items=items, next=following)


def add_to_group(session: Session, name: str, username: str, caller: Caller) -> None:
    """Add a user to a group; adding one again changes nothing. Raises NotFound, and Conflict if the provider
    says who its members are."""
    group, user = _own_group(session, name), _user(session, username)
    if session.get(GroupMemberRow, (group.id, user.id)) is not None:
        return
    session.add(
        GroupMemberRow(
            group_id=group.id,
            user_id=user.id,
            added_at=caller.now,
            added_by=caller.principal.actor,
        )
    )
    _record(session, caller, "groups.member_added", f"group:{name}", "user", username)


def remove_from_group(session: Session, name: str, username: str, caller: Caller) -> None:
    """Remove a user from a group. Raises NotFound, and Conflict if the provider says who its members are."""
    group, user = _own_group(session, name), _user(session, username)
    row = session.get(GroupMemberRow, (group.id, user.id))
    if row is None:
        raise NotFound("groups.no_such_member", f"Group {name} has no member {username}.")
    session.delete(row)
    _record(session, caller, "groups.member_removed", f"group:{name}", "user", username)


# ---------------------------------------------------------------- helpers


def _project(
    session: Session, name: str, caller: Caller, action: Action, *, lock: bool = False
) -> ProjectRow:
    project = get_project(session, name, lock=lock)
    access.require(session, project, action, caller.principal)
    return project


def _who(session: Session, kind: MemberKind, name: str) -> UserRow | GroupRow:
    return _user(session, name) if kind == "user" else _group(session, name)


def _user(session: Session, username: str) -> UserRow:
    row = session.scalar(select(UserRow).where(UserRow.username == username))
    if row is None:
        raise NotFound("users.not_found", f"There is no user {username!r}.")
    return row


def _group(session: Session, name: str, *, lock: bool = False) -> GroupRow:
    query = select(GroupRow).where(GroupRow.name == name)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound(
            "groups.not_found",
            f"There is no group {name!r}.",
            hint="`muster group list` shows all groups.",
        )
    return row


def _is(project: ProjectRow, kind: MemberKind, who: UserRow | GroupRow) -> ColumnElement[bool]:
    column = ProjectMemberRow.user_id if kind == "user" else ProjectMemberRow.group_id
    return (ProjectMemberRow.project_id == project.id) & (column == who.id)


def _members() -> Any:
    return (
        select(ProjectMemberRow, UserRow.username, GroupRow.name)
        .join(UserRow, UserRow.id == ProjectMemberRow.user_id, isouter=True)
        .join(GroupRow, GroupRow.id == ProjectMemberRow.group_id, isouter=True)
    )


def _member_out(row: ProjectMemberRow, username: str | None, group: str | None) -> ProjectMemberOut:
    kind: MemberKind = "user" if row.user_id is not None else "group"
    return ProjectMemberOut.from_row(row, kind=kind, name=username or group)


def _groups() -> Any:
    num = select(func.count()).where(GroupMemberRow.group_id == GroupRow.id).scalar_subquery()
    is_provisioned = exists().where(ScimGroupRow.group_id == GroupRow.id)
    return select(GroupRow, num, is_provisioned)


def _group_out(row: GroupRow, num_members: int, is_provisioned: bool) -> GroupOut:
    return GroupOut.from_row(row, num_members=num_members, is_provisioned=is_provisioned)


def _require_not_provisioned(session: Session, group: GroupRow) -> None:
    if session.get(ScimGroupRow, group.id) is not None:
        raise Conflict(
            "groups.filled_by_scim",
            f"The identity provider fills the group {group.name} by SCIM.",
            hint="Change its members there, or stop provisioning the group there.",
        )


def _own_group(session: Session, name: str) -> GroupRow:
    """Return a group whose members administrators choose."""
    group = _group(session, name, lock=True)
    _require_not_provisioned(session, group)
    if group.provider_group is not None:
        raise Conflict(
            "groups.filled",
            f"The members of {name} are those of {group.provider_group} at the OpenID provider.",
            hint=f"Change them there, or let administrators choose: `muster group create {name} "
            '--provider-group ""`.',
        )
    return group


def _record(session: Session, caller: Caller, action: str, subject: str, *detail: str) -> None:
    names = ("kind", "name", "role")
    callers.record(session, action, subject, caller, dict(zip(names, detail, strict=False)))
