"""API tokens of users, and join tokens for agents."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from muster_server.db.models import ApiTokenRow, JoinTokenRow, UserRow
from muster_server.errors import Forbidden, NotFound, NotSignedIn
from muster_server.schemas.auth import TokenRole
from muster_server.security.tokens import hash_secret, mint, visible_prefix

from . import audit
from .identity import lower_role
from .paging import decode_cursor, encode_cursor


def list_api_tokens(
    session: Session, *, user_id: int, cursor: str | None, limit: int
) -> tuple[list[ApiTokenRow], str | None]:
    """A user's tokens that were not revoked, the newest first."""
    query = (
        select(ApiTokenRow)
        .where(ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None))
        .order_by(ApiTokenRow.id.desc())
        .limit(limit + 1)
    )
    key = decode_cursor(cursor, int)
    if key is not None:
        query = query.where(ApiTokenRow.id < key[0])
    rows = list(session.scalars(query))
    more = len(rows) > limit
    rows = rows[:limit]
    return rows, encode_cursor(rows[-1].id) if more else None


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
    remote_addr: str = "",
) -> tuple[ApiTokenRow, str]:
    """A new token and its secret, which nobody can ask for again.

    own_role: what the creator acts with; a token made with a token does not rise above it.
    Raises Forbidden for a role above that.
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
        expires_at=now + lifetime if lifetime is not None else None,
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


def revoke_api_token(
    session: Session,
    token_id: int,
    *,
    user_id: int | None,
    actor: str,
    now: dt.datetime,
    remote_addr: str = "",
) -> None:
    """End a token now. `user_id` limits it to that user's. Raises NotFound."""
    query = (
        update(ApiTokenRow)
        .where(ApiTokenRow.id == token_id, ApiTokenRow.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(ApiTokenRow.id)
    )
    if user_id is not None:
        query = query.where(ApiTokenRow.user_id == user_id)
    if not session.execute(query).all():
        raise NotFound("tokens.not_found", f"There is no token {token_id} of yours.")
    audit.record(
        session,
        actor=actor,
        action="tokens.revoked",
        subject=f"token:{token_id}",
        remote_addr=remote_addr,
        now=now,
    )


def list_join_tokens(
    session: Session, *, cursor: str | None, limit: int, now: dt.datetime
) -> tuple[list[JoinTokenRow], str | None]:
    """The join tokens that still work, the newest first."""
    query = (
        select(JoinTokenRow)
        .where(
            JoinTokenRow.revoked_at.is_(None),
            JoinTokenRow.expires_at > now,
            JoinTokenRow.uses_left > 0,
        )
        .order_by(JoinTokenRow.id.desc())
        .limit(limit + 1)
    )
    key = decode_cursor(cursor, int)
    if key is not None:
        query = query.where(JoinTokenRow.id < key[0])
    rows = list(session.scalars(query))
    more = len(rows) > limit
    rows = rows[:limit]
    return rows, encode_cursor(rows[-1].id) if more else None


def create_join_token(
    session: Session,
    *,
    pool: str,
    uses: int,
    lifetime: dt.timedelta,
    created_by: int | None,
    actor: str,
    now: dt.datetime,
    remote_addr: str = "",
) -> tuple[JoinTokenRow, str]:
    """A new join token and its secret."""
    secret = mint("join")
    token = JoinTokenRow(
        secret_hash=hash_secret(secret),
        prefix=visible_prefix(secret),
        pool=pool,
        uses_left=uses,
        created_by=created_by,
        created_at=now,
        expires_at=now + lifetime,
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


def use_join_token(session: Session, token_id: int, *, now: dt.datetime) -> str:
    """Count one use and return the pool it is for. Raises NotSignedIn when nothing is left of it."""
    row = session.execute(
        update(JoinTokenRow)
        .where(
            JoinTokenRow.id == token_id,
            JoinTokenRow.uses_left > 0,
            JoinTokenRow.revoked_at.is_(None),
            JoinTokenRow.expires_at > now,
        )
        .values(uses_left=JoinTokenRow.uses_left - 1)
        .returning(JoinTokenRow.pool)
    ).one_or_none()
    if row is None:
        raise NotSignedIn("join_tokens.used_up", "This join token is used up, expired or revoked.")
    pool: str = row[0]
    return pool


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
