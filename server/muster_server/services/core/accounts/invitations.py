"""Invitations: links with which people choose the password of an account that an administrator has made.

The account exists from the invitation on, with its roles, and nobody can sign in to it before the link is
used. A user has one open link at most.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, exists, func, select, union
from sqlalchemy.orm import Session

from muster_server.db.models import (
    ApiTokenRow,
    OneTimeTokenRow,
    ScimUserRow,
    UserIdentityRow,
    UserRow,
)
from muster_server.errors import Conflict, NotFound, NotSignedIn
from muster_server.schemas.accounts.auth import InvitedMember, Role
from muster_server.security.tokens import hash_secret, mint

from .. import callers
from ..callers import Caller
from . import auth, members, tokens, users

KIND = "invitation"
LIFETIME = dt.timedelta(days=7)


def invite(
    session: Session,
    username: str,
    caller: Caller,
    *,
    role: Role | None,
    projects: Sequence[InvitedMember],
    lifetime: dt.timedelta | None,
) -> tuple[UserRow, OneTimeTokenRow, str]:
    """Return the user, the invitation and its secret, which nobody can ask for again.

    A user who was invited or added before and has never signed in gets a new link, and the old one ends.
    Raises Conflict for any other user, NotFound for an unknown project, and what `tokens.end_of` raises.
    """
    user = session.scalar(
        select(UserRow).where(func.lower(UserRow.username) == username.lower()).with_for_update()
    )
    if user is None:
        user = users.create_user(
            session, username=username, password_hash=None, role=role or "member", by=caller.author
        )
    else:
        _require_invitable(session, user)
        users.update_user(session, user.id, role=role, is_active=None, by=caller.author)
    for place in projects:
        members.set_member(session, place.project, "user", user.username, place.role, caller)
    session.execute(delete(OneTimeTokenRow).where(_of(user.id)))
    secret = mint("once")
    token_id = caller.principal.token_id
    invitation = OneTimeTokenRow(
        kind=KIND,
        user_id=user.id,
        secret_hash=hash_secret(secret),
        created_at=caller.now,
        expires_at=tokens.end_of(
            session, lifetime, LIFETIME, token_id, caller.now, "expires_in_days"
        ),
        api_token_id=token_id,
    )
    session.add(invitation)
    detail = {"role": user.role, "expires_at": invitation.expires_at.isoformat()}
    callers.record(session, "users.invited", f"user:{user.username}", caller, detail)
    return user, invitation, secret


def invited_until(
    session: Session, rows: Sequence[UserRow], *, now: dt.datetime
) -> dict[int, dt.datetime]:
    """Return when the open invitations of these users expire, by the users' ids."""
    query = select(OneTimeTokenRow.user_id, OneTimeTokenRow.expires_at).where(
        OneTimeTokenRow.kind == KIND,
        OneTimeTokenRow.user_id.in_([row.id for row in rows]),
        OneTimeTokenRow.used_at.is_(None),
        OneTimeTokenRow.expires_at > now,
    )
    return {row.user_id: row.expires_at for row in session.execute(query)}


def invitable_among(session: Session, rows: Sequence[UserRow]) -> frozenset[int]:
    """Return the ids of those users whom `invite` gives a new link."""
    acting = select(ApiTokenRow.user_id).where(ApiTokenRow.user_id.in_([row.id for row in rows]))
    provided = [
        select(table.user_id).where(table.user_id.in_([row.id for row in rows]))
        for table in (UserIdentityRow, ScimUserRow)
    ]
    others = {*session.scalars(union(acting, *provided))}
    return frozenset(
        row.id
        for row in rows
        if row.is_active
        and row.last_login_at is None
        and row.kind == "person"
        and row.id not in others
    )


def revoke(session: Session, user_id: int, caller: Caller) -> None:
    """End the invitation of a user, who stays. Raises NotFound."""
    user = users.get_user(session, user_id)
    if not invited_until(session, [user], now=caller.now):
        raise NotFound(
            "users.no_invitation",
            f"{user.username} has no open invitation.",
            hint="It was used, revoked or has expired. `muster user list` shows open ones.",
        )
    session.execute(delete(OneTimeTokenRow).where(_of(user_id)))
    callers.record(session, "users.invitation_revoked", f"user:{user.username}", caller)


def find(session: Session, token: str, *, now: dt.datetime) -> tuple[UserRow, OneTimeTokenRow]:
    """Return whom a link is for, without using it. Raises NotSignedIn."""
    try:
        row = auth.find_one_time_token(session, KIND, token, now)
    except NotSignedIn:
        raise _bad_invitation() from None
    user = session.get(UserRow, row.user_id)
    if user is None or not user.is_active:
        raise _bad_invitation()
    return user, row


def accept(
    session: Session, token: str, *, password_hash: str, remote_addr: str, now: dt.datetime
) -> UserRow:
    """Set the password of the invited user, and use the link up. Raises NotSignedIn."""
    user, _ = find(session, token, now=now)
    try:
        auth.use_one_time_token(session, KIND, token, now)
    except NotSignedIn:
        raise _bad_invitation() from None
    user.password_hash = password_hash
    user.last_login_at = now
    auth.record_own(session, "auth.invitation_accepted", user, now, remote_addr)
    return user


def _of(user_id: int) -> ColumnElement[bool]:
    return (OneTimeTokenRow.kind == KIND) & (OneTimeTokenRow.user_id == user_id)


def _require_invitable(session: Session, user: UserRow) -> None:
    """Raise Conflict, which says why, for a user who is not `invitable_among` others."""
    auth.require_person(user)
    if user.id in invitable_among(session, [user]):
        return
    provided = session.scalar(
        select(
            exists().where(UserIdentityRow.user_id == user.id)
            | exists().where(ScimUserRow.user_id == user.id)
        )
    )
    if provided:
        why, hint = "signs in with the identity provider", "Send the address of the dashboard."
    elif not user.is_active:
        why = "is deactivated"
        hint = f"Activate the account first: `muster user set {user.username} --active`."
    elif user.last_login_at is not None:
        why = "has signed in already"
        hint = (
            f"`muster-server sign-in-token --user {user.username}` on the server lets somebody in who "
            "forgot the password."
        )
    else:
        why = "acts with an API token, as the account of `muster up` does"
        hint = "Invite the person with a name of their own: `muster user invite NAME`."
    raise Conflict("users.not_invitable", f"{user.username} {why}.", hint=hint)


def _bad_invitation() -> NotSignedIn:
    return NotSignedIn(
        "auth.bad_invitation",
        "This invitation is not valid: used, replaced, revoked, expired or mistyped.",
        hint="Ask an administrator for a new link.",
    )
