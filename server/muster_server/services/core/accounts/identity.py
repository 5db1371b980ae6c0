"""Who a presented secret belongs to. Reads only; what is found out is worth one indexed lookup."""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import (
    ApiTokenRow,
    JoinTokenRow,
    NodeRow,
    OneTimeTokenRow,
    SessionRow,
    UserRow,
)
from muster_server.domain.states import NodeState
from muster_server.errors import NotSignedIn
from muster_server.schemas.accounts.auth import Role, TokenRole
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret, kind_of

from .. import access

USE_NOTED_EVERY = dt.timedelta(seconds=60)
"""A token's or session's last use is written at most this often: not a write per request."""


def lower_role(a: str, b: str) -> TokenRole:
    """Return the lesser of two roles: a token never acts above its user, even after a demotion."""
    if "predict" in (a, b) and {a, b} <= {"admin", "member", "predict"}:
        return "predict"
    # A viewer may not send requests to deployments, so its token for that may do nothing of it.
    return "metrics" if {"metrics", "predict"} & {a, b} else lower_user_role(a, b)


def lower_user_role(a: str, b: str) -> Role:
    """Return the lower of two roles that users have; an unknown role counts as viewer."""
    if a == b == "admin":
        return "admin"
    return "member" if {a, b} <= {"admin", "member"} else "viewer"


def principal_of_bearer(session: Session, secret: str, *, now: dt.datetime) -> Principal | None:
    """Return the caller behind `Authorization: Bearer …`; None for anything that is not valid right
    now."""
    match kind_of(secret):
        case "usr":
            return _of_api_token(session, hash_secret(secret), now)
        case "agt":
            return _of_agent(session, hash_secret(secret))
        case "join":
            return _of_join_token(session, hash_secret(secret), now)
        case _:
            return None


def describe_refused(session: Session, secret: str, *, now: dt.datetime) -> tuple[str, str]:
    """Return (which token it was, why it is not valid) for a secret that `principal_of_bearer` has
    no caller for. Nothing of a secret that nobody has is in it."""
    secret_hash = hash_secret(secret)
    match kind_of(secret):
        case "usr":
            found = _find_api_token(session, secret_hash)
            if found is not None:
                why = _why_void(found.revoked_at, found.expires_at, now)
                return f"token:{found.id}", why or _why_barred(is_active=found.is_active)
        case "join":
            joining = _find_join_token(session, secret_hash)
            if joining is not None:
                why = _why_void(joining.revoked_at, joining.expires_at, now)
                return f"join_token:{joining.id}", why or "used up"
            return "join_token:unknown", "unknown"
        case "agt":
            return "agent:unknown", "unknown"
        case _:
            pass
    return "token:unknown", "unknown"


def principal_of_session(
    session: Session, secret: str, *, now: dt.datetime, idle: dt.timedelta
) -> Principal | None:
    """Return the user behind a session cookie; None when it is unknown, idle too long, or past its
    end."""
    secret_hash = hash_secret(secret)
    found = session.execute(
        select(SessionRow, UserRow)
        .join(UserRow, UserRow.id == SessionRow.user_id)
        .where(SessionRow.secret_hash == secret_hash)
    ).one_or_none()
    if found is None:
        return None
    row, user = found
    if not user.may_act or row.expires_at <= now or row.last_seen_at + idle <= now:
        return None
    return Principal(
        kind="user",
        name=user.username,
        role=lower_user_role(user.role, user.role),
        user_id=user.id,
        session_hash=secret_hash,
    )


def still_valid(
    session: Session, principals: Collection[Principal], *, now: dt.datetime
) -> set[Principal]:
    """Return those of the callers, seen earlier, who would still be let in now and may see as much
    as then. Ignores idleness.

    Makes four queries for any number of callers, unless there are hidden projects or limited tokens.
    """
    users = set(
        session.scalars(
            select(UserRow.id).where(
                UserRow.id.in_({one.user_id for one in principals}), UserRow.may_act
            )
        )
    )
    sessions = set(
        session.scalars(
            select(SessionRow.secret_hash).where(
                SessionRow.secret_hash.in_({one.session_hash for one in principals} - {None}),
                SessionRow.expires_at > now,
            )
        )
    )
    tokens = set(
        session.scalars(
            select(ApiTokenRow.id).where(
                ApiTokenRow.id.in_({one.token_id for one in principals} - {None}),
                ApiTokenRow.revoked_at.is_(None),
                or_(ApiTokenRow.expires_at.is_(None), ApiTokenRow.expires_at > now),
            )
        )
    )
    sight = access.Sight(session)
    return {
        one
        for one in principals
        if one.user_id in users
        and (one.session_hash is None or one.session_hash in sessions)
        and (one.token_id is None or one.token_id in tokens)
        and one.hidden_projects == sight.hidden_from(one)
    }


def use_is_stale(session: Session, principal: Principal, *, now: dt.datetime) -> bool:
    """Return whether the last recorded use is so long ago that `note_use` should be called."""
    last: dt.datetime | None
    if principal.session_hash is not None:
        last = session.scalar(
            select(SessionRow.last_seen_at).where(SessionRow.secret_hash == principal.session_hash)
        )
    elif principal.token_id is not None:
        last = session.scalar(
            select(ApiTokenRow.last_used_at).where(ApiTokenRow.id == principal.token_id)
        )
    else:
        return False
    return last is None or last + USE_NOTED_EVERY <= now


def note_use(session: Session, principal: Principal, *, now: dt.datetime) -> None:
    """Remember that a session or token was used just now."""
    if principal.session_hash is not None:
        session.execute(
            update(SessionRow)
            .where(SessionRow.secret_hash == principal.session_hash)
            .values(last_seen_at=now)
        )
    elif principal.token_id is not None:
        session.execute(
            update(ApiTokenRow).where(ApiTokenRow.id == principal.token_id).values(last_used_at=now)
        )


def principal_of_live_ticket(
    session: Session, secret: str, *, now: dt.datetime
) -> Principal | None:
    """Return the user behind a ticket for the live channel, which is used up by asking."""
    row = session.execute(
        select(OneTimeTokenRow, UserRow)
        .join(UserRow, UserRow.id == OneTimeTokenRow.user_id)
        .where(OneTimeTokenRow.secret_hash == hash_secret(secret), OneTimeTokenRow.kind == "live")
    ).one_or_none()
    if row is None:
        return None
    ticket, user = row
    used = session.execute(
        update(OneTimeTokenRow)
        .where(OneTimeTokenRow.id == ticket.id, OneTimeTokenRow.used_at.is_(None))
        .values(used_at=now)
    )
    if used.rowcount != 1 or ticket.expires_at <= now or not user.may_act:  # type: ignore[attr-defined]
        return None
    # The channel only says that something changed; the data is fetched with the caller's own role.
    principal = Principal(
        kind="user",
        name=user.username,
        role="viewer",
        user_id=user.id,
        token_id=ticket.api_token_id,
        is_limited=_is_limited(session, ticket.api_token_id),
        session_hash=ticket.session_hash,
        by_ticket=True,
    )
    hidden = access.Sight(session).hidden_from(principal)
    principal = replace(principal, hidden_projects=hidden)
    return principal if still_valid(session, [principal], now=now) else None


_TOKEN_OF_SECRET = (
    select(
        ApiTokenRow.id,
        ApiTokenRow.role,
        ApiTokenRow.is_limited,
        ApiTokenRow.revoked_at,
        ApiTokenRow.expires_at,
        UserRow.id.label("user_id"),
        UserRow.username,
        UserRow.role.label("user_role"),
        UserRow.is_active,
        UserRow.may_act,
    )
    .join(UserRow, UserRow.id == ApiTokenRow.user_id)
    .where(ApiTokenRow.secret_hash == bindparam("secret_hash"))
)
"""Asked with every call of a program."""


def _find_api_token(session: Session, secret_hash: str) -> Any:
    return session.execute(_TOKEN_OF_SECRET, {"secret_hash": secret_hash}).one_or_none()


def _is_limited(session: Session, token_id: int | None) -> bool:
    query = select(ApiTokenRow.is_limited).where(ApiTokenRow.id == token_id)
    return token_id is not None and bool(session.scalar(query))


def _find_join_token(session: Session, secret_hash: str) -> JoinTokenRow | None:
    return session.scalar(select(JoinTokenRow).where(JoinTokenRow.secret_hash == secret_hash))


def _why_void(
    revoked_at: dt.datetime | None, expires_at: dt.datetime | None, now: dt.datetime
) -> str:
    """Return why a token is not valid by itself; "" if it is."""
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at is not None and expires_at <= now else ""


def _why_barred(*, is_active: bool) -> str:
    return "the provider has refused the user" if is_active else "the user is deactivated"


def _of_api_token(session: Session, secret_hash: str, now: dt.datetime) -> Principal | None:
    found = _find_api_token(session, secret_hash)
    if found is None or _why_void(found.revoked_at, found.expires_at, now) or not found.may_act:
        return None
    return Principal(
        kind="user",
        name=found.username,
        role=lower_role(found.role, found.user_role),
        user_id=found.user_id,
        token_id=found.id,
        is_limited=found.is_limited,
    )


_NODE_OF_CREDENTIAL = select(NodeRow.id, NodeRow.name, NodeRow.pool, NodeRow.credential_hash).where(
    or_(
        NodeRow.credential_hash == bindparam("secret_hash"),
        NodeRow.next_credential_hash == bindparam("secret_hash"),
    ),
    NodeRow.state != NodeState.REMOVED,
)
"""Asked with every call of every agent."""


def _of_agent(session: Session, secret_hash: str) -> Principal | None:
    node = session.execute(_NODE_OF_CREDENTIAL, {"secret_hash": secret_hash}).one_or_none()
    if node is None:
        return None
    return Principal(
        kind="agent",
        name=node.name,
        role="agent",
        node_id=node.id,
        pool=node.pool,
        uses_next_credential=node.credential_hash != secret_hash,
        credential_hash=secret_hash,
    )


_CREDENTIAL_OF_NODE = select(NodeRow.credential_hash).where(
    NodeRow.id == bindparam("node_id"), NodeRow.state != NodeState.REMOVED
)


def confirm_agent(session: Session, agent: Principal) -> None:
    """Raise NotSignedIn unless what an agent presented is its node's credential now.

    For calls that were let in by what was known a moment ago, in the transaction that does their
    work: a credential is void from the commit on that takes it away. One that is only just being
    taken up is looked up each time instead.
    """
    if not agent.uses_next_credential:
        confirm_hash(agent, session.scalar(_CREDENTIAL_OF_NODE, {"node_id": agent.node_id}))


def confirm_hash(agent: Principal, present: str | None) -> None:
    """Raise NotSignedIn if an agent's credential is not valid, like `confirm`, for a caller that
    has already read the node's `credential_hash`."""
    if agent.uses_next_credential:
        return
    if not is_hash_of(agent, present):
        raise NotSignedIn(
            "auth.not_signed_in", "The token is not valid: mistyped, expired or revoked."
        )


def is_hash_of(agent: Principal, present: str | None) -> bool:
    """Return whether `present` is the hash of the credential that the agent presented."""
    return present is not None and hmac.compare_digest(present, agent.credential_hash)


def _of_join_token(session: Session, secret_hash: str, now: dt.datetime) -> Principal | None:
    token = _find_join_token(session, secret_hash)
    if token is None or _why_void(token.revoked_at, token.expires_at, now):
        return None
    if token.uses_left < 1 and not _is_joining(session, token.id):
        return None
    return Principal(
        kind="join_token",
        name=token.prefix,
        role="join",
        join_token_id=token.id,
        pool=token.pool,
    )


def _is_joining(session: Session, token_id: int) -> bool:
    """Return whether a node that joined with this token has not used its credential yet.

    Such a node may ask once more; services.nodes.credentials decides.
    """
    query = select(NodeRow.id).where(NodeRow.join_token_id == token_id, NodeRow.join_id != "")
    return session.scalar(query.limit(1)) is not None
