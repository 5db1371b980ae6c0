"""Users: who they are and what role they have."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import OneTimeTokenRow, ScimUserRow, UserRow
from muster_server.domain.accounts import AccountKind, account_problem
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.accounts.auth import Role

from .. import audit
from ..paging import read_page
from . import auth, tokens


def list_users(
    session: Session, *, cursor: str | None, limit: int, kind: AccountKind | None = None
) -> tuple[list[UserRow], str | None]:
    query = select(UserRow) if kind is None else select(UserRow).where(UserRow.kind == kind)
    return read_page(session, query, UserRow.id, cursor=cursor, limit=limit)


def provisioned_among(session: Session, rows: Sequence[UserRow]) -> frozenset[int]:
    """Return the ids of those users that an identity provider manages by SCIM."""
    query = select(ScimUserRow.user_id).where(
        ScimUserRow.user_id.in_([row.id for row in rows]), ScimUserRow.state != "deleted"
    )
    return frozenset(session.scalars(query))


def get_user(session: Session, user_id: int) -> UserRow:
    """Raises NotFound."""
    user = session.get(UserRow, user_id)
    if user is None:
        raise NotFound("users.not_found", f"There is no user {user_id}.")
    return user


def get_service_account(session: Session, user_id: int) -> UserRow:
    """Return an account whose tokens administrators make. Raises NotFound, and Conflict for a person."""
    user = get_user(session, user_id)
    if user.kind != "service":
        raise Conflict(
            "tokens.of_a_person",
            f"{user.username} is a person, who makes and lists tokens alone.",
            hint="Make a service account for a program: `muster user add NAME --service`.",
        )
    return user


def require_possible(kind: AccountKind, *, role: Role, has_password: bool | None = None) -> None:
    """Raise InvalidRequest for an account that cannot be like this."""
    problem = account_problem(kind, role=role, has_password=has_password)
    if problem is not None:
        raise InvalidRequest(
            "users.not_possible",
            f"The {problem.field} {problem.message}.",
            hint=problem.hint,
            fields=[FieldProblem(problem.field, problem.message, problem.hint)],
        )


def create_user(
    session: Session,
    *,
    username: str,
    password_hash: str | None,
    role: Role,
    by: audit.Author,
    kind: AccountKind = "person",
    description: str = "",
) -> UserRow:
    """Add a user or a service account. Raises Conflict when the name is taken, whatever its case."""
    taken = session.scalar(
        select(UserRow.username).where(func.lower(UserRow.username) == username.lower())
    )
    if taken is not None:
        raise Conflict("users.name_taken", f"There is already a user named {taken!r}.")
    user = UserRow(
        username=username,
        password_hash=password_hash,
        role=role,
        kind=kind,
        description=description,
        created_at=by.now,
    )
    session.add(user)
    session.flush()
    audit.record(
        session,
        "users.created",
        f"user:{username}",
        by,
        {"role": role} | ({"kind": kind} if kind != "person" else {}),
    )
    return user


def update_user(
    session: Session,
    user_id: int,
    *,
    role: Role | None,
    is_active: bool | None,
    description: str | None = None,
    by: audit.Author,
) -> UserRow:
    """Change a role or a description, or (de)activate. A changed right ends the user's sessions: they sign in with the new rights.

    API tokens act with the new rights from now on, those of a deactivated user with none. The join
    tokens of somebody who is no administrator any more are revoked.

    Raises NotFound; Conflict when no active administrator would be left; InvalidRequest for a service
    account that would be an administrator.
    """
    # All administrators are locked, not only this one: two who demote each other at the same
    # moment would otherwise both find that one is left.
    admins = session.scalars(
        select(UserRow).where(UserRow.role == "admin").order_by(UserRow.id).with_for_update()
    ).all()
    user = get_user(session, user_id)
    require_possible(user.kind, role=role or "viewer")
    keeps_power = (role in (None, "admin")) and is_active is not False
    others = [a for a in admins if a.id != user_id and a.is_active and a.password_hash is not None]
    if user.role == "admin" and not keeps_power and not others:
        raise Conflict(
            "users.last_admin",
            "This is the last administrator with a password.",
            hint="Make somebody else an administrator first.",
        )
    changes: dict[str, str | bool] = {}
    if role is not None and role != user.role:
        user.role = changes["role"] = role
    if is_active is not None and is_active != user.is_active:
        if is_active:
            _reopen(session, user)
        user.is_active = changes["is_active"] = is_active
        session.execute(
            delete(OneTimeTokenRow).where(
                OneTimeTokenRow.kind == "invitation", OneTimeTokenRow.user_id == user_id
            )
        )
        touch(session, "loops")  # what they have queued waits, or may start
    if changes:  # of rights
        auth.end_all_sessions(session, user_id)
        if not (user.is_active and user.role == "admin"):
            tokens.revoke_join_tokens_by(session, user_id, now=by.now)
    if description is not None and description != user.description:
        user.description = changes["description"] = description
    if changes:
        audit.record(session, "users.updated", f"user:{user.username}", by, changes)
    return user


def _reopen(session: Session, user: UserRow) -> None:
    """Raise Conflict if a provisioning client says that the account is closed. One that it has deleted is
    given back to it."""
    row = session.get(ScimUserRow, user.id)
    if row is not None and row.state == "inactive":
        raise Conflict(
            "users.closed_by_scim",
            f"The identity provider has deactivated {user.username} by SCIM.",
            hint="Activate the account there.",
        )
    if row is not None:
        row.state = "active"
