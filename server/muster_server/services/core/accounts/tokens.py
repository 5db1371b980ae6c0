"""API tokens of users, and join tokens for agents.

A token makes nothing that outranks or outlives it: what it made ends with it, expired or revoked. One
that is limited to projects makes only tokens that are limited to the same ones or fewer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import (
    ApiTokenProjectRow,
    ApiTokenRow,
    JoinTokenRow,
    OneTimeTokenRow,
    ProjectRow,
    UserRow,
)
from muster_server.domain.accounts import SERVICE_TOKEN_MAX
from muster_server.errors import (
    FieldProblem,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSignedIn,
)
from muster_server.schemas.accounts.auth import TokenRole
from muster_server.security.tokens import hash_secret, mint, visible_prefix

from .. import access, audit
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
    by: audit.Author,
    parent_id: int | None = None,
    projects: Sequence[str] | None = None,
) -> tuple[ApiTokenRow, str]:
    """Return a new token and its secret, which nobody can ask for again.

    own_role: what the creator acts with. parent_id: the token it acts with, which the new one neither
    outranks nor outlives. lifetime: None for DEFAULT_LIFETIME, or what is left of the parent's when
    that is less. projects: names of those that it is limited to; None for no limit but the parent's.
    Raises Forbidden for a role above the creator's, InvalidRequest for a lifetime beyond the parent's
    or the longest of a service account, and for a project that the creator does not see, NotSignedIn
    when the parent was revoked meanwhile.
    """
    if user.kind == "service":
        _require_service_lifetime(lifetime)
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
        created_at=by.now,
        expires_at=end_of(
            session, lifetime, DEFAULT_LIFETIME, parent_id, by.now, "expires_in_days"
        ),
        parent_id=parent_id,
    )
    limits = _limits(session, projects, parent_id)
    if limits is not None and role == "metrics":
        raise InvalidRequest(
            "tokens.metrics_limited",
            "A token of the role metrics reads the metrics of the whole server, and cannot be limited to "
            "projects.",
            fields=[FieldProblem("projects", "must be left out for the role metrics")],
        )
    token.is_limited = limits is not None
    session.add(token)
    session.flush()
    session.add_all(ApiTokenProjectRow(token_id=token.id, project_id=id) for id in limits or ())
    detail = {"name": name, "role": role, "user": user.username}
    if limits is not None:
        detail["projects"] = ", ".join(sorted(limits.values()))
    audit.record(session, "tokens.created", f"token:{token.id}", by, detail)
    return token, secret


def projects_of(session: Session, tokens: Sequence[ApiTokenRow]) -> dict[int, list[str] | None]:
    """Return the names of the projects that each token is limited to, as far as the caller sees them;
    None for a token without this limit."""
    found: dict[int, list[str] | None] = {t.id: [] if t.is_limited else None for t in tokens}
    query = (
        select(ApiTokenProjectRow.token_id, ProjectRow.name)
        .join(ProjectRow, ProjectRow.id == ApiTokenProjectRow.project_id)
        .where(ApiTokenProjectRow.token_id.in_([t.id for t in tokens if t.is_limited]))
        .order_by(ProjectRow.name)
    )
    for token_id, name in session.execute(query):
        names = found[token_id]
        if names is not None:
            names.append(name)
    return found


def _limits(
    session: Session, names: Sequence[str] | None, parent_id: int | None
) -> Mapping[int, str] | None:
    """Return the projects, by id, that a new token is limited to; None for no limit.

    They are locked, so that none is deleted before the token is there.
    """
    query = select(ProjectRow.id, ProjectRow.name).with_for_update(key_share=True)
    if names is None:
        parent = session.get(ApiTokenRow, parent_id) if parent_id is not None else None
        if parent is None or not parent.is_limited:
            return None
        ids = access.limits_of(session, parent.id)
        rows = session.execute(query.where(ProjectRow.id.in_(ids)))
        return {row.id: row.name for row in rows}
    # A limited parent sees no other projects: what it may not give away is answered as what is not there.
    found = {name: id for id, name in session.execute(query.where(ProjectRow.name.in_(names)))}
    hint = "`muster project list` shows the projects that you can name."
    missing = {place: name for place, name in enumerate(names) if name not in found}
    if missing:
        raise InvalidRequest(
            "tokens.no_project",
            f"There is no project {next(iter(missing.values()))!r} to limit the token to.",
            hint=hint,
            fields=[
                FieldProblem(f"projects.{place}", f"there is no project {name!r}", hint)
                for place, name in missing.items()
            ],
        )
    return {id: name for name, id in found.items()}


def _require_service_lifetime(lifetime: dt.timedelta | None) -> None:
    if lifetime is None or lifetime <= SERVICE_TOKEN_MAX:
        return
    most = SERVICE_TOKEN_MAX.days
    raise InvalidRequest(
        "tokens.lasts_too_long",
        f"A token of a service account is valid for at most {most} days, and {lifetime.days} were asked "
        "for.",
        hint=f"Ask for {most} days or less, and replace the token before it ends.",
        fields=[FieldProblem("expires_in_days", f"must be at most {most} for a service account")],
    )


def end_of(
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
    by: audit.Author,
    own_role: TokenRole = "admin",
    limited_by: int | None = None,
) -> None:
    """End a token now, and all that it made.

    user_id: only a token of that user. own_role: only one that does not rank above this. limited_by:
    the limited token that asks, which revokes only those that are limited to the same projects or
    fewer. Raises NotFound, and Forbidden for one that ranks above or sees more.
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
    if limited_by is not None and not (
        token.is_limited
        and access.limits_of(session, token_id) <= access.limits_of(session, limited_by)
    ):
        raise Forbidden(
            "tokens.sees_more",
            "A token that is limited to projects cannot revoke one that sees more.",
            hint="Sign in to revoke it.",
        )
    _revoke(session, [token_id], by)


def revoke_all_of_user(session: Session, user_id: int, by: audit.Author) -> int:
    """End every API token of a user, and all that they made; how many there were."""
    ids = session.scalars(
        select(ApiTokenRow.id).where(
            ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None)
        )
    ).all()
    _revoke(session, ids, by)
    return len(ids)


def _revoke(session: Session, ids: Sequence[int], by: audit.Author) -> None:
    # One generation after the other: each update waits for whoever is making a child just now, and
    # the next one sees that child.
    wanted = ApiTokenRow.id.in_(ids)
    while ids:
        query = update(ApiTokenRow).where(wanted, ApiTokenRow.revoked_at.is_(None))
        ids = session.scalars(query.values(revoked_at=by.now).returning(ApiTokenRow.id)).all()
        for id in ids:
            audit.record(session, "tokens.revoked", f"token:{id}", by)
        _revoke_join_tokens(session, JoinTokenRow.api_token_id.in_(ids), by.now)
        session.execute(
            delete(OneTimeTokenRow).where(
                OneTimeTokenRow.kind == "invitation", OneTimeTokenRow.api_token_id.in_(ids)
            )
        )
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
    by: audit.Author,
    parent_id: int | None = None,
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
        created_at=by.now,
        expires_at=end_of(session, lifetime, JOIN_LIFETIME, parent_id, by.now, "expires_in_s"),
        api_token_id=parent_id,
    )
    session.add(token)
    session.flush()
    audit.record(
        session, "join_tokens.created", f"join_token:{token.id}", by, {"pool": pool, "uses": uses}
    )
    return token, secret


def revoke_join_token(session: Session, token_id: int, by: audit.Author) -> None:
    """End a join token now. Agents that joined with it stay. Raises NotFound."""
    revoked = session.execute(
        update(JoinTokenRow)
        .where(JoinTokenRow.id == token_id, JoinTokenRow.revoked_at.is_(None))
        .values(revoked_at=by.now)
        .returning(JoinTokenRow.id)
    ).all()
    if not revoked:
        raise NotFound("join_tokens.not_found", f"There is no join token {token_id}.")
    audit.record(session, "join_tokens.revoked", f"join_token:{token_id}", by)
