"""API tokens of users, and join tokens for agents.

A token makes nothing that outranks or outlives it: what it made ends with it, expired or revoked.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import ApiTokenRow, JoinTokenRow, UserRow
from muster_server.errors import (
    FieldProblem,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSignedIn,
)
from muster_server.schemas.accounts.auth import TokenRole
from muster_server.security.tokens import hash_secret, mint, visible_prefix

from .. import audit
from ..paging import read_page
from .identity import lower_role

DEFAULT_LIFETIME = dt.timedelta(days=90)
JOIN_LIFETIME = dt.timedelta(minutes=10)


def list_api_tokens(
    session: Session, *, user_id: int, cursor: str | None, limit: int
) -> tuple[list[ApiTokenRow], str | None]:
    """Return a user's tokens that were not revoked, the newest first."""
    query = select(ApiTokenRow).where(
        ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None)
    )
    return read_page(session, query, ApiTokenRow.id, cursor=cursor, limit=limit, newest_first=True)


def create_api_token(
    session: Session,
    *,
    user: UserRow,
    name: str,
    role: TokenRole | None,
    own_role: TokenRole,
    lifetime: dt.timedelta | None,
    actor: str,
    now: dt.datetime,
    parent_id: int | None = None,
    remote_addr: str = "",
) -> tuple[ApiTokenRow, str]:
    """Return a new token and its secret, which nobody can ask for again.

    own_role: what the creator acts with. parent_id: the token it acts with, which the new one neither
    outranks nor outlives. lifetime: None for DEFAULT_LIFETIME, or what is left of the parent's when
    that is less. Raises Forbidden for a role above the creator's, InvalidRequest for a lifetime
    beyond the parent's, NotSignedIn when the parent was revoked meanwhile.
    """
    role = role or own_role
    if lower_role(role, own_role) != role:
        raise Forbidden(
            "tokens.role_too_high", f"A {own_role} cannot make a token with the role {role!r}."
        )
    secret = mint("usr")
    token = ApiTokenRow(
        user_id=user.id,
        name=name,
        secret_hash=hash_secret(secret),
        prefix=visible_prefix(secret),
        role=role,
        created_at=now,
        expires_at=_end(session, lifetime, DEFAULT_LIFETIME, parent_id, now, "expires_in_days"),
        parent_id=parent_id,
    )
    session.add(token)
    session.flush()
    audit.record(
        session,
        actor=actor,
        action="tokens.created",
        subject=f"token:{token.id}",
        detail={"name": name, "role": role, "user": user.username},
        remote_addr=remote_addr,
        now=now,
    )
    return token, secret


def _end(
    session: Session,
    lifetime: dt.timedelta | None,
    default: dt.timedelta,
    parent_id: int | None,
    now: dt.datetime,
    field: str,
) -> dt.datetime:
    """Return when a token expires that is created now with the token `parent_id`."""
    wanted = now + (lifetime or default)
    if parent_id is None:
        return wanted
    # Locked, so that what it makes is either there when it is revoked, or not made.
    parent = session.get(ApiTokenRow, parent_id, with_for_update=True, populate_existing=True)
    if parent is None or parent.revoked_at is not None:
        raise NotSignedIn("auth.not_signed_in", "This token was revoked.")
    if parent.expires_at is None or wanted <= parent.expires_at:
        return wanted
    if lifetime is not None:
        until = parent.expires_at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
        hint = "Ask for less, leave the time out to end with it, or sign in and make it yourself."
        raise InvalidRequest(
            "tokens.outlives_parent",
            f"A token cannot make one that outlives it, and yours ends {until}.",
            hint=hint,
            fields=[FieldProblem(field, f"must end before {until}", hint)],
        )
    return parent.expires_at


def revoke_api_token(
    session: Session,
    token_id: int,
    *,
    user_id: int | None,
    actor: str,
    now: dt.datetime,
    own_role: TokenRole = "admin",
    remote_addr: str = "",
) -> None:
    """End a token now, and all that it made.

    user_id: only a token of that user. own_role: only one that does not rank above this. Raises
    NotFound, and Forbidden for one that ranks above.
    """
    token = session.get(ApiTokenRow, token_id)
    if (
        token is None
        or token.revoked_at is not None
        or (user_id is not None and token.user_id != user_id)
    ):
        raise NotFound("tokens.not_found", f"There is no token {token_id} of yours.")
    if lower_role(token.role, own_role) != token.role:
        raise Forbidden(
            "tokens.role_too_high",
            f"A {own_role} cannot revoke a token with the role {token.role!r}.",
            hint="Sign in to revoke it.",
        )
    _revoke(session, [token_id], actor=actor, remote_addr=remote_addr, now=now)


def revoke_all_of_user(
    session: Session, user_id: int, *, actor: str, now: dt.datetime, remote_addr: str = ""
) -> int:
    """End every API token of a user, and all that they made; how many there were."""
    ids = session.scalars(
        select(ApiTokenRow.id).where(
            ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None)
        )
    ).all()
    _revoke(session, ids, actor=actor, remote_addr=remote_addr, now=now)
    return len(ids)


def _revoke(
    session: Session, ids: Sequence[int], *, actor: str, remote_addr: str, now: dt.datetime
) -> None:
    # One generation after the other: each update waits for whoever is making a child just now, and
    # the next one sees that child.
    wanted = ApiTokenRow.id.in_(ids)
    while ids:
        query = update(ApiTokenRow).where(wanted, ApiTokenRow.revoked_at.is_(None))
        ids = session.scalars(query.values(revoked_at=now).returning(ApiTokenRow.id)).all()
        for id in ids:
            audit.record(
                session,
                actor=actor,
                action="tokens.revoked",
                subject=f"token:{id}",
                remote_addr=remote_addr,
                now=now,
            )
        _revoke_join_tokens(session, JoinTokenRow.api_token_id.in_(ids), now)
        wanted = ApiTokenRow.parent_id.in_(ids)


def revoke_join_tokens_by(session: Session, user_id: int, *, now: dt.datetime) -> None:
    """End the join tokens that a user made, who may not make any more."""
    _revoke_join_tokens(session, JoinTokenRow.created_by == user_id, now)


def _revoke_join_tokens(session: Session, which: ColumnElement[bool], now: dt.datetime) -> None:
    query = update(JoinTokenRow).where(which, JoinTokenRow.revoked_at.is_(None))
    session.execute(query.values(revoked_at=now))


def list_join_tokens(
    session: Session, *, cursor: str | None, limit: int, now: dt.datetime
) -> tuple[list[JoinTokenRow], str | None]:
    """Return the join tokens that still work, the newest first."""
    query = select(JoinTokenRow).where(
        JoinTokenRow.revoked_at.is_(None), JoinTokenRow.expires_at > now, JoinTokenRow.uses_left > 0
    )
    return read_page(session, query, JoinTokenRow.id, cursor=cursor, limit=limit, newest_first=True)


def create_join_token(
    session: Session,
    *,
    pool: str,
    uses: int,
    lifetime: dt.timedelta | None,
    created_by: int | None,
    actor: str,
    now: dt.datetime,
    parent_id: int | None = None,
    remote_addr: str = "",
) -> tuple[JoinTokenRow, str]:
    """Return a new join token and its secret. parent_id, lifetime and errors: as for an API
    token."""
    secret = mint("join")
    token = JoinTokenRow(
        secret_hash=hash_secret(secret),
        prefix=visible_prefix(secret),
        pool=pool,
        uses_left=uses,
        created_by=created_by,
        created_at=now,
        expires_at=_end(session, lifetime, JOIN_LIFETIME, parent_id, now, "expires_in_s"),
        api_token_id=parent_id,
    )
    session.add(token)
    session.flush()
    audit.record(
        session,
        actor=actor,
        action="join_tokens.created",
        subject=f"join_token:{token.id}",
        detail={"pool": pool, "uses": uses},
        remote_addr=remote_addr,
        now=now,
    )
    return token, secret


def revoke_join_token(
    session: Session, token_id: int, *, actor: str, now: dt.datetime, remote_addr: str = ""
) -> None:
    """End a join token now. Agents that joined with it stay. Raises NotFound."""
    revoked = session.execute(
        update(JoinTokenRow)
        .where(JoinTokenRow.id == token_id, JoinTokenRow.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(JoinTokenRow.id)
    ).all()
    if not revoked:
        raise NotFound("join_tokens.not_found", f"There is no join token {token_id}.")
    audit.record(
        session,
        actor=actor,
        action="join_tokens.revoked",
        subject=f"join_token:{token_id}",
        remote_addr=remote_addr,
        now=now,
    )
