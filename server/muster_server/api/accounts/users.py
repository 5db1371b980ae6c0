"""Users and the audit trail, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, status

from muster_server import clock
from muster_server.db.models import UserRow
from muster_server.schemas.accounts.auth import AuditOut, UserIn, UserOut, UserPatch
from muster_server.schemas.base import Page
from muster_server.security import passwords
from muster_server.services.core import audit
from muster_server.services.core.accounts import auth, users
from muster_server.services.core.accounts.identity import lower_user_role

from ..http.deps import Cursor, Db, Id, Limit, Me, RemoteAddr
from .auth import password_work

router = APIRouter(tags=["users"])


@router.get("/users", summary="All users")
def list_users(db: Db, cursor: Cursor = None, limit: Limit = 50) -> Page[UserOut]:
    with db.read() as session:
        rows, following = users.list_users(session, cursor=cursor, limit=limit)
        return Page(items=[_user_out(row) for row in rows], next=following)


@router.post(
    "/users",
    summary="Add a user",
    status_code=status.HTTP_201_CREATED,
)
async def create_user(body: UserIn, request: Request, db: Db, me: Me, addr: RemoteAddr) -> UserOut:
    problem = passwords.password_problem(body.password, username=body.username)
    if problem is not None:
        raise auth.weak_password(problem)

    def work() -> UserOut:
        password_hash = passwords.hash_password(body.password)
        with db.transaction() as session:
            row = users.create_user(
                session,
                username=body.username,
                password_hash=password_hash,
                role=body.role,
                actor=me.actor,
                remote_addr=addr,
                now=clock.now(),
            )
            return _user_out(row)

    return await password_work(request, work)


@router.patch("/users/{user_id}", summary="Change a user's role")
def update_user(user_id: Id, body: UserPatch, db: Db, me: Me, addr: RemoteAddr) -> UserOut:
    """Change a user and end the user's sessions. The last administrator keeps the role."""
    with db.transaction() as session:
        row = users.update_user(
            session,
            user_id,
            role=body.role,
            is_active=body.is_active,
            actor=me.actor,
            remote_addr=addr,
            now=clock.now(),
        )
        return _user_out(row)


@router.get("/audit", summary="Who did what, newest first")
def list_audit(
    db: Db,
    q: Annotated[
        str | None,
        Query(max_length=200, description="Part of the actor, action, subject or address."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[AuditOut]:
    with db.read() as session:
        rows, following = audit.list_entries(session, text=q, cursor=cursor, limit=limit)
        return Page(
            items=[AuditOut.from_row(row) for row in rows],
            next=following,
        )


def _user_out(row: UserRow) -> UserOut:
    return UserOut.from_row(row, role=lower_user_role(row.role, row.role))
