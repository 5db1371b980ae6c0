"""Setting up, signing in and out. Passwords are hashed and verified by the caller, outside any
transaction: it takes a tenth of a second, for which nobody else should have to wait.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete, exists, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import OneTimeTokenRow, SessionRow, UserRow
from muster_server.errors import Conflict, Forbidden, InvalidRequest, NotFound, NotSignedIn
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret, mint, mint_session_secret

from .. import audit
from . import tokens
from .identity import lower_role

SETUP_TOKEN_LIFETIME = dt.timedelta(minutes=30)
SIGN_IN_TOKEN_LIFETIME = dt.timedelta(minutes=30)
LIVE_TICKET_LIFETIME = dt.timedelta(seconds=60)
USER_AGENT_MAX = 200
SESSIONS_PER_USER = 20
"""The oldest end when there would be more."""


def setup_required(session: Session) -> bool:
    """Return whether no administrator can sign in with a password yet.

    Users made for a machine's own command line have only tokens and do not count.
    """
    return not session.scalar(
        select(exists().where(UserRow.role == "admin", UserRow.password_hash.is_not(None)))
    )


def has_setup_token(session: Session, *, now: dt.datetime) -> bool:
    """Return whether there is a setup token that is neither used nor expired."""
    return bool(
        session.scalar(
            select(
                exists().where(
                    OneTimeTokenRow.kind == "setup",
                    OneTimeTokenRow.used_at.is_(None),
                    OneTimeTokenRow.expires_at > now,
                )
            )
        )
    )


def create_setup_token(session: Session, *, now: dt.datetime) -> str:
    """Create the secret that lets its holder make the first administrator. Raises Conflict when
    there is one."""
    if not setup_required(session):
        raise _already_set_up()
    return _one_time_token(session, "setup", None, SETUP_TOKEN_LIFETIME, now)


def check_setup_token(session: Session, token: str, *, now: dt.datetime) -> None:
    """Raises what `set_up` would for this token, without using it."""
    if not setup_required(session):
        raise _already_set_up()
    find_one_time_token(session, "setup", token, now)


def set_up(
    session: Session,
    *,
    token: str,
    username: str,
    password_hash: str,
    remote_addr: str,
    now: dt.datetime,
) -> UserRow:
    """Make the first administrator. Raises Conflict once there is one, NotSignedIn for a bad token."""
    if not setup_required(session):
        raise _already_set_up()
    use_one_time_token(session, "setup", token, now)
    user = session.scalar(select(UserRow).where(UserRow.username == username))
    if user is not None:
        raise Conflict("users.name_taken", f"There is already a user named {username!r}.")
    user = UserRow(
        username=username,
        password_hash=password_hash,
        role="admin",
        created_at=now,
        last_login_at=now,
    )
    session.add(user)
    session.flush()
    # Every other waiting setup token has lost its purpose.
    session.execute(
        update(OneTimeTokenRow)
        .where(OneTimeTokenRow.kind == "setup", OneTimeTokenRow.used_at.is_(None))
        .values(used_at=now)
    )
    record_own(session, "auth.setup", user, now, remote_addr)
    return user


def record_own(
    session: Session, action: str, user: UserRow, now: dt.datetime, remote_addr: str = ""
) -> None:
    """Add a line to the audit trail about what a user did with the user's own account."""
    who = f"user:{user.username}"
    audit.record(session, action, who, audit.Author(who, now, remote_addr))


def find_user(session: Session, username: str) -> UserRow | None:
    return session.scalar(select(UserRow).where(UserRow.username == username))


def log_in(
    session: Session,
    *,
    user_id: int,
    verified_hash: str,
    new_hash: str | None,
    remote_addr: str,
    now: dt.datetime,
) -> UserRow:
    """Let a user in whose password was verified against `verified_hash`.

    Raises NotSignedIn when the password or the user changed meanwhile.
    """
    user = session.scalar(
        select(UserRow).where(UserRow.id == user_id).with_for_update(key_share=True)
    )
    if user is None or not user.is_active or user.password_hash != verified_hash:
        raise wrong_credentials()
    if new_hash is not None:
        user.password_hash = new_hash
    user.last_login_at = now
    record_own(session, "auth.login", user, now, remote_addr)
    return user


def refused_subject(session: Session, username: str) -> str:
    """Return the subject under which a refused sign-in is recorded. People type passwords into the
    name field: what is no user's name is not kept."""
    return f"user:{username}" if find_user(session, username) else "user:unknown"


def create_sign_in_token(session: Session, *, username: str | None, now: dt.datetime) -> str:
    """Create a secret that signs a user in once. Without a name: the administrator who has been
    longest."""
    query = select(UserRow).where(UserRow.is_active)
    if username is not None:
        query = query.where(UserRow.username == username)
    else:
        query = query.where(UserRow.role == "admin").order_by(
            UserRow.password_hash.is_(None), UserRow.id
        )
    user = session.scalars(query.limit(1)).first()
    if user is None:
        who = f"no active user named {username!r}" if username else "no administrator yet"
        raise NotFound(
            "users.not_found", f"There is {who}.", hint="muster-server setup-token makes the first."
        )
    require_person(user)
    audit.record(
        session, "auth.sign_in_token_created", f"user:{user.username}", audit.Author("system", now)
    )
    return _one_time_token(session, "sign_in", user.id, SIGN_IN_TOKEN_LIFETIME, now)


def require_person(user: UserRow) -> None:
    """Raise Conflict for a service account."""
    if user.kind == "service":
        raise Conflict(
            "users.service_account",
            f"{user.username} is a service account, which does not sign in.",
            hint=f"Make a token for it: `muster token create nightly --for {user.username}`.",
        )


def use_sign_in_token(
    session: Session, *, token: str, remote_addr: str, now: dt.datetime
) -> UserRow:
    """Return the user a one-time token signs in. Raises NotSignedIn when it is unknown, used or too
    old."""
    row = use_one_time_token(session, "sign_in", token, now)
    user = session.get(UserRow, row.user_id)
    if user is None or not user.is_active:
        raise _bad_one_time_token()
    user.last_login_at = now
    record_own(session, "auth.one_time_sign_in", user, now, remote_addr)
    return user


def create_live_ticket(session: Session, *, principal: Principal, now: dt.datetime) -> str:
    """Create a secret that opens the live channel once, for callers whose WebSockets carry no
    headers.

    The channel ends with the session or the token that asked for it.
    """
    assert principal.user_id is not None
    session.execute(
        delete(OneTimeTokenRow).where(
            OneTimeTokenRow.kind == "live", OneTimeTokenRow.expires_at <= now
        )
    )
    secret = mint("once")
    session.add(
        OneTimeTokenRow(
            kind="live",
            user_id=principal.user_id,
            secret_hash=hash_secret(secret),
            created_at=now,
            expires_at=now + LIVE_TICKET_LIFETIME,
            session_hash=principal.session_hash,
            api_token_id=principal.token_id,
        )
    )
    return secret


def start_session(
    session: Session,
    *,
    user_id: int,
    lifetime: dt.timedelta,
    now: dt.datetime,
    remote_addr: str = "",
    user_agent: str = "",
) -> str:
    """Return the secret for a new session's cookie: always a new one, whatever cookie the browser
    had. The address and the browser are kept for the list of the user's sessions.

    Whom the provider had refused may act again: somebody has just vouched for them.
    """
    session.execute(
        update(UserRow)
        .where(UserRow.id == user_id, UserRow.provider_refused_at.is_not(None))
        .values(provider_refused_at=None)
    )
    session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
    keep = (
        select(SessionRow.secret_hash)
        .where(SessionRow.user_id == user_id)
        .order_by(SessionRow.last_seen_at.desc())
        .limit(SESSIONS_PER_USER - 1)
    )
    kept = list(session.scalars(keep))
    session.execute(
        delete(SessionRow).where(SessionRow.user_id == user_id, SessionRow.secret_hash.not_in(kept))
    )
    secret = mint_session_secret()
    session.add(
        SessionRow(
            secret_hash=hash_secret(secret),
            user_id=user_id,
            created_at=now,
            last_seen_at=now,
            expires_at=now + lifetime,
            remote_addr=remote_addr[:64],
            user_agent="".join(c for c in user_agent if c.isprintable())[:USER_AGENT_MAX],
        )
    )
    return secret


def list_sessions(
    session: Session, user_id: int, *, idle: dt.timedelta, now: dt.datetime
) -> list[SessionRow]:
    """Return the sessions of a user that are valid now, the last used first: SESSIONS_PER_USER at most."""
    query = select(SessionRow).where(
        SessionRow.user_id == user_id,
        SessionRow.expires_at > now,
        SessionRow.last_seen_at > now - idle,
    )
    return list(session.scalars(query.order_by(SessionRow.last_seen_at.desc())))


def session_id(secret_hash: str) -> str:
    """Return the name of a session in addresses, which says nothing of its secret and lets nobody in."""
    return hash_secret(f"session|{secret_hash}")[:16]


def end_listed_session(
    session: Session, id: str, *, principal: Principal, remote_addr: str, now: dt.datetime
) -> None:
    """End a session of the caller or, for an administrator, of anybody.

    Raises NotFound, and Forbidden for a token that ranks below the user of the session.
    """
    query = select(SessionRow.secret_hash)
    if principal.role != "admin":
        query = query.where(SessionRow.user_id == principal.user_id)
    secret_hash = next((one for one in session.scalars(query) if session_id(one) == id), None)
    row = session.get(SessionRow, secret_hash) if secret_hash is not None else None
    if row is None:
        raise NotFound(
            "sessions.not_found",
            f"There is no session {id!r} of yours.",
            hint="`muster sign-in list` shows your sessions.",
        )
    user = session.get_one(UserRow, row.user_id)
    if lower_role(principal.role, user.role) != user.role:
        raise Forbidden(
            "sessions.role_too_high",
            f"A token with the role {principal.role} cannot end a session with the role {user.role}.",
            hint="Sign in to end it.",
        )
    session.delete(row)
    audit.record(
        session,
        "auth.session_ended",
        f"user:{user.username}",
        audit.Author(principal.actor, now, remote_addr),
        {"session": id},
    )


def end_session(session: Session, secret_hash: str) -> None:
    session.execute(delete(SessionRow).where(SessionRow.secret_hash == secret_hash))


def end_all_sessions(session: Session, user_id: int) -> None:
    session.execute(delete(SessionRow).where(SessionRow.user_id == user_id))


def change_password(
    session: Session,
    *,
    user_id: int,
    verified_hash: str | None,
    new_hash: str,
    revoke_tokens: bool,
    by: audit.Author,
) -> UserRow:
    """Set a new password, and end every session of the user and, if wanted, every API token.

    Raises Conflict when the password was changed meanwhile.
    """
    user = session.scalar(
        select(UserRow).where(UserRow.id == user_id).with_for_update(key_share=True)
    )
    if user is None or user.password_hash != verified_hash:
        raise Conflict("auth.password_changed", "The password was changed by somebody else.")
    user.password_hash = new_hash
    end_all_sessions(session, user_id)
    if revoke_tokens:
        tokens.revoke_all_of_user(session, user_id, by)
    audit.record(session, "auth.password_changed", f"user:{user.username}", by)
    return user


def wrong_credentials() -> NotSignedIn:
    """Return the same error for an unknown user, a wrong password and a user who may not sign in
    any more."""
    return NotSignedIn("auth.wrong_credentials", "User name or password is wrong.")


def wrong_password() -> Forbidden:
    """Return the error for a signed-in user who gives a wrong current password.

    The status is 403, because a dashboard takes 401 to mean that the user is signed out.
    """
    return Forbidden("auth.wrong_password", "The current password is wrong.")


def needs_session() -> Forbidden:
    """A password lets its user in for ever, which is more than the token that would set it."""
    return Forbidden(
        "auth.session_needed",
        "A token cannot set the first password of its user.",
        hint="Sign in with a link of 'muster-server sign-in-token', then set it under Settings.",
    )


def needs_browser() -> Forbidden:
    """A token outlasts the browser that made it, and must not let others in or change how its user comes in."""
    return Forbidden(
        "auth.session_needed",
        "A token lets nobody in, and changes no way of signing in.",
        hint="Sign in with a browser.",
    )


def signs_in_elsewhere() -> Forbidden:
    # Else somebody who has left, and whom the provider does not let in any more, could still come in.
    return Forbidden(
        "auth.provider_account",
        "You sign in with the OpenID provider, so there is no password here.",
    )


def weak_password(problem: str) -> InvalidRequest:
    return InvalidRequest("auth.weak_password", problem)


def _already_set_up() -> Conflict:
    return Conflict(
        "auth.already_set_up",
        "This installation has an administrator.",
        hint="Sign in, or run 'muster-server sign-in-token' on the server.",
    )


def _bad_one_time_token() -> NotSignedIn:
    return NotSignedIn(
        "auth.bad_one_time_token", "This link is not valid: used, too old, or mistyped."
    )


def _one_time_token(
    session: Session, kind: str, user_id: int | None, lifetime: dt.timedelta, now: dt.datetime
) -> str:
    secret = mint("once")
    session.add(
        OneTimeTokenRow(
            kind=kind,
            user_id=user_id,
            secret_hash=hash_secret(secret),
            created_at=now,
            expires_at=now + lifetime,
        )
    )
    return secret


def find_one_time_token(
    session: Session, kind: str, token: str, now: dt.datetime
) -> OneTimeTokenRow:
    """Return a one-time token that still works, without using it. Raises NotSignedIn."""
    row = session.scalar(
        select(OneTimeTokenRow).where(
            OneTimeTokenRow.kind == kind, OneTimeTokenRow.secret_hash == hash_secret(token)
        )
    )
    if row is None or row.expires_at <= now or row.used_at is not None:
        raise _bad_one_time_token()
    return row


def use_one_time_token(
    session: Session, kind: str, token: str, now: dt.datetime
) -> OneTimeTokenRow:
    """Use a one-time token up. Raises NotSignedIn."""
    row = find_one_time_token(session, kind, token, now)
    # The condition decides between two who use it at the same moment.
    used = session.execute(
        update(OneTimeTokenRow)
        .where(OneTimeTokenRow.id == row.id, OneTimeTokenRow.used_at.is_(None))
        .values(used_at=now)
        .returning(OneTimeTokenRow.id)
    ).all()
    if not used:
        raise _bad_one_time_token()
    return row
