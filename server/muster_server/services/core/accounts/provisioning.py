"""Accounts and groups that a provisioning client manages, and what it may do to them.

A client manages the accounts that it has created, and those of people who signed in with the same identity
before. It reaches no other account: not one with a password, a service account, or an administrator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    GroupMemberRow,
    GroupRow,
    ScimGroupRow,
    ScimUserRow,
    UserIdentityRow,
    UserRow,
)
from muster_server.domain.accounts import comparison_key
from muster_server.domain.admission import Person, UserRole, storable_name
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound

from .. import callers
from ..callers import Caller
from . import tokens, users

MEMBERS_MAX = 10_000
"""Members of one group."""
User = tuple[UserRow, ScimUserRow]
Group = tuple[GroupRow, ScimGroupRow]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a client says of a user or a group. None: nothing."""

    name: str
    external_id: str | None
    active: bool | None = None


# ---------------------------------------------------------------- users


def list_users(
    session: Session, where: Sequence[ColumnElement[bool]], *, offset: int, limit: int
) -> tuple[Sequence[User], int]:
    """Return one page of the users that a client manages, the oldest first, and the number of all."""
    query = select(UserRow, ScimUserRow).join(ScimUserRow, ScimUserRow.user_id == UserRow.id)
    return _page(session, query.where(_IS_SEEN, *where), UserRow.id, offset, limit)


def get_user(session: Session, user_id: int, *, lock: bool = True) -> User:
    """Return a user that a client manages. Raises NotFound."""
    query = (
        select(UserRow, ScimUserRow)
        .join(ScimUserRow, ScimUserRow.user_id == UserRow.id)
        .where(UserRow.id == user_id, _IS_SEEN)
    )
    found = session.execute(query.with_for_update() if lock else query).one_or_none()
    if found is None:
        raise NotFound("scim.not_found", f"There is no user {user_id} that SCIM manages.")
    return found[0], found[1]


def create_user(
    session: Session, told: Told, *, role: UserRole, issuer: str | None, caller: Caller
) -> User:
    """Add an account, or take up the one that the person has already.

    issuer: the OpenID provider whose subjects are the external ids; None for none.

    Raises Conflict if the name or the external id is another account's, and InvalidRequest.
    """
    user, row = _known(session, told.external_id, issuer)
    _require_free(session, told, row)
    if user is None:
        name = storable_name(told.name.partition("@")[0])
        if not name:
            raise _invalid("userName", told.name, "has no letter or digit before the @")
        user = users.create_user(
            session, username=name, password_hash=None, role=role, by=caller.author
        )
    if row is None:
        row = ScimUserRow(user_id=user.id, state="active")
        session.add(row)
    elif row.state == "deleted":
        row.state = "inactive"
    _describe(row, told)
    _record(session, caller, "scim.user_managed", f"user:{user.username}", told)
    _set_active(session, (user, row), told.active is not False, caller)
    session.flush()
    return user, row


def change_user(session: Session, user: User, told: Told, caller: Caller) -> None:
    """Follow what a client says of a user. The account keeps its name here. Raises Conflict if the name or
    the external id is another account's, and Forbidden if administrators have closed the account."""
    row = user[1]
    _require_free(session, told, row)
    if (row.user_name, row.external_id) != (told.name, told.external_id):
        _describe(row, told)
        _record(session, caller, "scim.user_changed", f"user:{user[0].username}", told)
    if told.active is not None:
        _set_active(session, user, told.active, caller)
    session.flush()


def delete_user(session: Session, user: User, caller: Caller) -> None:
    """Deactivate an account, revoke its tokens and take it out of the client's groups. What it owns stays."""
    account, row = user
    if not account.is_active and row.state == "active":
        row.external_id = None  # administrators have closed it, and alone give it back
    row.state = "deleted"
    _update(session, account, False, caller)
    session.execute(
        delete(GroupMemberRow).where(
            GroupMemberRow.user_id == account.id,
            GroupMemberRow.group_id.in_(select(ScimGroupRow.group_id)),
        )
    )
    tokens.revoke_all_of_user(session, account.id, caller.author)
    callers.record(session, "scim.user_deleted", f"user:{account.username}", caller)


def find_signing_in(session: Session, person: Person, issuer: str) -> UserRow | None:
    """Return the account that a client has created for somebody who signs in for the first time; None if
    there is none. An account that is connected already is nobody else's."""
    keys = [ScimUserRow.external_id == person.external_id] if person.external_id else []
    if person.trusted_name:
        keys.append(ScimUserRow.name_key == comparison_key(person.trusted_name))
    connected = select(UserIdentityRow.user_id).where(UserIdentityRow.issuer == issuer)
    for key in keys:
        query = select(UserRow).join(ScimUserRow, ScimUserRow.user_id == UserRow.id).where(key)
        found = session.scalar(query.where(UserRow.id.not_in(connected)).with_for_update())
        if found is not None and found.password_hash is None:
            return found
    return None


_IS_SEEN = ScimUserRow.state != "deleted"


def _known(
    session: Session, external_id: str | None, issuer: str | None
) -> tuple[UserRow | None, ScimUserRow | None]:
    """Return the account of a person whom a client adds, if they have one: the client has deleted it, or
    they have signed in already."""
    if external_id is None:
        return None, None
    row = session.scalar(
        select(ScimUserRow).where(ScimUserRow.external_id == external_id, ~_IS_SEEN)
    )
    if row is not None:
        return session.get_one(UserRow, row.user_id), row
    user = session.scalar(
        select(UserRow)
        .join(UserIdentityRow, UserIdentityRow.user_id == UserRow.id)
        .where(
            UserIdentityRow.issuer == (issuer or ""),
            UserIdentityRow.subject == external_id,
            UserRow.id.not_in(select(ScimUserRow.user_id)),
        )
    )
    if user is not None and (user.password_hash is not None or user.role == "admin"):
        raise Conflict(
            "scim.taken",
            f"The account {user.username} is this person's, and has a password or is an administrator: SCIM "
            "does not manage it.",
        )
    return user, None


def _require_free(session: Session, told: Told, row: ScimUserRow | None) -> None:
    """Raise Conflict if the name or the external id is another account's than this one."""
    own_id = row.user_id if row is not None else -1
    fields = (
        ("userName", told.name, ScimUserRow.name_key == comparison_key(told.name)),
        ("externalId", told.external_id, ScimUserRow.external_id == told.external_id),
    )
    for name, value, condition in fields:
        other = (
            value
            and session.execute(
                select(UserRow.username, ScimUserRow.state)
                .join(ScimUserRow, ScimUserRow.user_id == UserRow.id)
                .where(condition, ScimUserRow.user_id != own_id)
            ).one_or_none()
        )
        if other:
            is_gone = other.state == "deleted"
            raise Conflict(
                "scim.taken",
                f"The {name} {value!r} is that of the {'deleted ' * is_gone}account {other.username}.",
                hint="If it is the same person, an administrator of Muster activates the account again."
                if is_gone
                else None,
            )


def _describe(row: ScimUserRow, told: Told) -> None:
    row.user_name, row.name_key = told.name, comparison_key(told.name)
    row.external_id = told.external_id


def _set_active(session: Session, user: User, wanted: bool, caller: Caller) -> None:
    account, row = user
    if wanted == account.is_active:
        return
    if wanted and row.state == "active":
        raise Forbidden(
            "scim.closed_here",
            f"An administrator of Muster has deactivated the account {account.username}.",
            hint="An administrator activates it again.",
        )
    row.state = "active" if wanted else "inactive"
    _update(session, account, wanted, caller)


def _update(session: Session, account: UserRow, is_active: bool, caller: Caller) -> None:
    users.update_user(session, account.id, role=None, is_active=is_active, by=caller.author)


# ---------------------------------------------------------------- groups


def list_groups(
    session: Session, where: Sequence[ColumnElement[bool]], *, offset: int, limit: int
) -> tuple[Sequence[Group], int]:
    """Return one page of the groups that a client manages, the oldest first, and the number of all."""
    query = select(GroupRow, ScimGroupRow).join(ScimGroupRow, ScimGroupRow.group_id == GroupRow.id)
    return _page(session, query.where(*where), GroupRow.id, offset, limit)


def get_group(session: Session, group_id: int, *, lock: bool = True) -> Group:
    """Return a group that a client manages. Raises NotFound."""
    query = (
        select(GroupRow, ScimGroupRow)
        .join(ScimGroupRow, ScimGroupRow.group_id == GroupRow.id)
        .where(GroupRow.id == group_id)
    )
    found = session.execute(query.with_for_update() if lock else query).one_or_none()
    if found is None:
        raise NotFound("scim.not_found", f"There is no group {group_id} that SCIM manages.")
    return found[0], found[1]


def members_of(session: Session, group_ids: Collection[int]) -> dict[int, list[int]]:
    """Return the ids of the users of groups, of those that a client sees, by group."""
    found: dict[int, list[int]] = {id: [] for id in group_ids}
    query = (
        select(GroupMemberRow.group_id, GroupMemberRow.user_id)
        .join(ScimUserRow, ScimUserRow.user_id == GroupMemberRow.user_id)
        .where(GroupMemberRow.group_id.in_(group_ids), _IS_SEEN)
        .order_by(GroupMemberRow.user_id)
    )
    for group_id, user_id in session.execute(query):
        found[group_id].append(user_id)
    return found


def create_group(session: Session, told: Told, caller: Caller) -> Group:
    """Add a group, or take up the one here that the provider's group of this name fills. Raises Conflict for
    a name that another group has, and InvalidRequest."""
    _require_group_free(session, told, None)
    group = session.scalar(select(GroupRow).where(GroupRow.provider_group == told.name))
    if group is None:
        name = storable_name(told.name)
        if not name:
            raise _invalid("displayName", told.name, "has no letter or digit")
        if session.scalar(select(GroupRow.id).where(func.lower(GroupRow.name) == name.lower())):
            raise Conflict(
                "scim.taken",
                f"There is already a group {name}, whose members SCIM does not say.",
                hint=f"An administrator lets it: `muster group create {name} --provider-group "
                f"{told.name!r}`.",
            )
        group = GroupRow(name=name, created_at=caller.now, created_by=caller.principal.actor)
        session.add(group)
        session.flush()
    row = ScimGroupRow(group_id=group.id)
    session.add(row)
    _describe_group((group, row), told)
    _record(session, caller, "scim.group_managed", f"group:{group.name}", told)
    session.flush()
    return group, row


def change_group(session: Session, group: Group, told: Told, caller: Caller) -> None:
    """Follow what a client says of a group, which keeps its name here. Raises Conflict."""
    if (group[0].provider_group, group[1].external_id) == (told.name, told.external_id):
        return
    _require_group_free(session, told, group[1])
    _describe_group(group, told)
    _record(session, caller, "scim.group_changed", f"group:{group[0].name}", told)
    session.flush()


def set_members(session: Session, group: Group, wanted: Collection[int], caller: Caller) -> None:
    """Give a group these members and no others. Raises InvalidRequest for somebody whom the client does not
    manage, and for too many."""
    if len(wanted) > MEMBERS_MAX:
        raise _invalid("members", str(len(wanted)), f"are more than {MEMBERS_MAX}")
    id, name = group[0].id, group[0].name
    query = select(GroupMemberRow.user_id).where(GroupMemberRow.group_id == id)
    present = set(session.scalars(query))
    added, removed = set(wanted) - present, present - set(wanted)
    named = select(UserRow.id, UserRow.username).where(UserRow.id.in_(added | removed))
    usernames = {user_id: username for user_id, username in session.execute(named)}  # noqa: C416
    managed = select(ScimUserRow.user_id).where(ScimUserRow.user_id.in_(added), _IS_SEEN)
    unknown = added - set(session.scalars(managed))
    if unknown:
        raise _invalid("members.value", str(min(unknown)), "is no user that SCIM manages")
    session.execute(
        delete(GroupMemberRow).where(
            GroupMemberRow.group_id == id, GroupMemberRow.user_id.in_(removed)
        )
    )
    for user_id in sorted(added):
        session.add(
            GroupMemberRow(
                group_id=id,
                user_id=user_id,
                added_at=caller.now,
                added_by=caller.principal.actor,
            )
        )
    for action, ids in (("added", added), ("removed", removed)):
        for user_id in sorted(ids):
            detail = {"user": usernames[user_id], "by": "scim"}
            callers.record(session, f"groups.member_{action}", f"group:{name}", caller, detail)
    session.flush()


def delete_group(session: Session, group: Group, caller: Caller) -> None:
    """Delete a group that a client has created. One that administrators have created is emptied, and keeps
    its roles in projects."""
    account, row = group
    set_members(session, group, (), caller)
    session.delete(account if account.created_by == caller.principal.actor else row)
    callers.record(session, "scim.group_deleted", f"group:{account.name}", caller)
    session.flush()


def _require_group_free(session: Session, told: Told, row: ScimGroupRow | None) -> None:
    own_id = row.group_id if row is not None else -1
    other = session.scalar(
        select(GroupRow.name)
        .join(ScimGroupRow, ScimGroupRow.group_id == GroupRow.id, isouter=True)
        .where(
            (ScimGroupRow.name_key == comparison_key(told.name))
            | ((GroupRow.provider_group == told.name) & (own_id != -1)),
            GroupRow.id != own_id,
        )
        .limit(1)
    )
    if other is not None:
        raise Conflict("scim.taken", f"The displayName {told.name!r} is that of the group {other}.")


def _describe_group(group: Group, told: Told) -> None:
    group[0].provider_group = told.name
    group[1].name_key, group[1].external_id = comparison_key(told.name), told.external_id


# ---------------------------------------------------------------- both


def _page(
    session: Session, query: Any, key: Any, offset: int, limit: int
) -> tuple[Sequence[Any], int]:
    total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    rows = session.execute(query.order_by(key).offset(offset).limit(limit)).all() if limit else ()
    return rows, total


def _invalid(field: str, value: str, problem: str) -> InvalidRequest:
    return InvalidRequest(
        "scim.invalid_value",
        f"{field} {value[:100]!r} {problem}.",
        fields=[FieldProblem(field, problem)],
    )


def _record(session: Session, caller: Caller, action: str, subject: str, told: Told) -> None:
    detail = {"name": told.name, "external_id": told.external_id or ""}
    callers.record(session, action, subject, caller, detail)
