"""Users and the audit trail, for administrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request, status
from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.db.models import UserRow
from muster_server.domain.accounts import AccountKind
from muster_server.schemas.accounts.auth import (
    AuditOut,
    SessionOut,
    TokenCreated,
    TokenIn,
    TokenOut,
    UserIn,
    UserOut,
    UserPatch,
)
from muster_server.schemas.base import Page
from muster_server.security import passwords
from muster_server.services.core import audit
from muster_server.services.core.accounts import auth, invitations, tokens, users
from muster_server.services.core.accounts.identity import lower_role, lower_user_role

from ..http.deps import By, Config, Cursor, Db, Id, Limit, Me
from ..http.routing import Read, Router, Write
from .auth import password_work, sessions_out
from .tokens import make_token, tokens_out

router = Router(tags=["users"])


@router.get("/users", summary="All users")
def list_users(
    session: Read,
    kind: Annotated[
        AccountKind | None, Query(description="Only people, or only service accounts.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[UserOut]:
    rows, following = users.list_users(session, kind=kind, cursor=cursor, limit=limit)
    return Page(items=users_out(session, rows), next=following)


@router.post(
    "/users",
    summary="Add a user or a service account",
    status_code=status.HTTP_201_CREATED,
)
async def create_user(body: UserIn, request: Request, db: Db, by: By) -> UserOut:
    """Add a person, who has a password, or a service account, which has none and cannot be an administrator."""
    password = body.password
    users.require_possible(body.kind, role=body.role, has_password=password is not None)
    if password is not None:
        problem = passwords.password_problem(password, username=body.username)
        if problem is not None:
            raise auth.weak_password(problem)

    def work() -> UserOut:
        password_hash = None if password is None else passwords.hash_password(password)
        with db.transaction() as session:
            row = users.create_user(
                session,
                username=body.username,
                password_hash=password_hash,
                role=body.role,
                kind=body.kind,
                description=body.description,
                by=by.author,
            )
            return users_out(session, [row])[0]

    return await password_work(request, work)


@router.patch("/users/{user_id}", summary="Change a user's role or description, or deactivate one")
def update_user(user_id: Id, body: UserPatch, session: Write, by: By) -> UserOut:
    """Change a user and end the user's sessions. The last administrator keeps the role."""
    row = users.update_user(
        session,
        user_id,
        role=body.role,
        is_active=body.is_active,
        description=body.description,
        by=by.author,
    )
    return users_out(session, [row])[0]


@router.get("/users/{user_id}/tokens", summary="The API tokens of a service account")
def list_user_tokens(
    user_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[TokenOut]:
    user = users.get_service_account(session, user_id)
    rows, following = tokens.list_api_tokens(session, user_id=user.id, cursor=cursor, limit=limit)
    return Page(items=tokens_out(session, rows), next=following)


@router.post(
    "/users/{user_id}/tokens",
    summary="Make an API token for a service account",
    status_code=status.HTTP_201_CREATED,
)
def create_user_token(user_id: Id, body: TokenIn, session: Write, by: By) -> TokenCreated:
    """Create a token of a service account. Created with a token of yours, it ends with that one."""
    user = users.get_service_account(session, user_id)
    own_role = lower_role(user.role, user.role)
    return make_token(session, user, body, own_role=own_role, by=by)


@router.get("/users/{user_id}/sessions", summary="The sessions of a user")
def list_user_sessions(user_id: Id, session: Read, config: Config, me: Me) -> Page[SessionOut]:
    user = users.get_user(session, user_id)
    return sessions_out(session, user.id, config, me)


@router.get("/audit", summary="Who did what, newest first")
def list_audit(
    session: Read,
    q: Annotated[
        str | None,
        Query(max_length=200, description="Part of the actor, action, subject or address."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[AuditOut]:
    rows, following = audit.list_entries(session, text=q, cursor=cursor, limit=limit)
    return Page(items=[AuditOut.from_row(row) for row in rows], next=following)


def users_out(session: Session, rows: Sequence[UserRow]) -> list[UserOut]:
    """Return users as they are shown."""
    provisioned = users.provisioned_among(session, rows)
    invited_until = invitations.invited_until(session, rows, now=clock.now())
    invitable = invitations.invitable_among(session, rows)
    return [
        UserOut.from_row(
            row,
            role=lower_user_role(row.role, row.role),
            is_provisioned=row.id in provisioned,
            invited_until=invited_until.get(row.id),
            is_invitable=row.id in invitable,
        )
        for row in rows
    ]
