"""Sessions of people whom an OpenID provider vouches for.

The provider is asked outside of any transaction, by the caller. A sign-in is tied to the browser that
began it: the cookie is one half, the state that travels by way of the provider the other. Nonce and
verifier are made of both, so nothing that would let somebody sign in is stored.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import (
    GroupMemberRow,
    GroupRow,
    OneTimeTokenRow,
    OpenidSessionRow,
    ScimGroupRow,
    SessionRow,
    UserIdentityRow,
    UserRow,
)
from muster_server.domain.admission import Admission, NotAdmitted, Person
from muster_server.errors import Conflict
from muster_server.security.encryption import KeyRing, SealedAs, SealedValue
from muster_server.security.tokens import hash_secret, mint, mint_session_secret
from muster_server.settings import Settings

from .. import audit
from . import auth, provisioning, tokens, users

SIGN_IN_TIME = dt.timedelta(minutes=10)
"""Time that somebody has at the provider."""
CHECK_EVERY = dt.timedelta(seconds=40)
"""How often a provider is asked again about a session that is in use."""
CHECKS_MAX = 50
"""Sessions that are checked in one round."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A sign-in that has begun in a browser."""

    cookie: str
    state: str

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    def _derived(self, what: str) -> str:
        mac = hmac.new(self.cookie.encode(), f"{what}|{self.state}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(mac.digest()).decode().rstrip("=")


@dataclass(frozen=True, kw_only=True)
class DueCheck:
    """A session about which the provider is to be asked."""

    session_hash: str
    identity_id: int
    subject: str
    sealed: SealedValue


Problem = Literal["expired", "name_taken", "identity_taken"]


class CannotSignIn(Exception):
    """Somebody whom the provider may well vouch for is not signed in here; the text says why."""

    def __init__(self, problem: Problem, reason: str) -> None:
        super().__init__(reason)
        self.problem = problem


def rules_of(settings: Settings) -> Admission:
    default = settings.oidc_default_role
    return Admission(
        username_claim=settings.oidc_username_claim,
        groups_claim=settings.oidc_groups_claim,
        admins=frozenset(settings.oidc_admin_groups),
        members=frozenset(settings.oidc_member_groups),
        viewers=frozenset(settings.oidc_viewer_groups),
        external_id_claim=settings.scim_external_id_claim,
        trusted_name_claim=settings.scim_username_claim,
        default_role=None if default == "none" else default,
    )


def begin(
    session: Session, *, cookie: str | None, target: str, user_id: int | None, now: dt.datetime
) -> Attempt:
    """Begin a sign-in.

    cookie: what the browser has from a sign-in that it began before; None for none. target: travels with
    the state. user_id: of the user who is signed in and connects their account; None for anybody else.
    """
    session.execute(
        delete(OneTimeTokenRow).where(
            OneTimeTokenRow.kind == "openid", OneTimeTokenRow.expires_at <= now
        )
    )
    attempt = Attempt(
        cookie=cookie if cookie and _is_secret(cookie) else mint_session_secret(),
        state=f"{mint('once')}.{target}",
    )
    session.add(
        OneTimeTokenRow(
            kind="openid",
            user_id=user_id,
            secret_hash=hash_secret(attempt.state),
            session_hash=hash_secret(attempt.cookie),
            created_at=now,
            expires_at=now + SIGN_IN_TIME,
        )
    )
    return attempt


def take(session: Session, attempt: Attempt, *, now: dt.datetime) -> int | None:
    """Use up a sign-in, and return the user who connects their account with it; None for anybody else.
    Raises CannotSignIn for one that was used, is too old, or began in another browser."""
    row = session.execute(
        update(OneTimeTokenRow)
        .where(
            OneTimeTokenRow.kind == "openid",
            OneTimeTokenRow.secret_hash == hash_secret(attempt.state),
            OneTimeTokenRow.session_hash == hash_secret(attempt.cookie),
            OneTimeTokenRow.used_at.is_(None),
            OneTimeTokenRow.expires_at > now,
        )
        .values(used_at=now)
        .returning(OneTimeTokenRow.user_id)
    ).one_or_none()
    if row is None:
        raise CannotSignIn(
            "expired", "the sign-in was used, is too old, or began in another browser"
        )
    user_id: int | None = row[0]
    return user_id


def sign_in(
    session: Session,
    person: Person,
    *,
    issuer: str,
    connects: int | None,
    decides_role: bool,
    remote_addr: str,
    now: dt.datetime,
) -> tuple[UserRow, UserIdentityRow]:
    """Return the user that a person is here, who is created at the first time.

    connects: the user who is signed in and connects their account; None for anybody else.
    decides_role: whether the provider's groups say what role the user has.

    Raises NotAdmitted for somebody who was deactivated, and CannotSignIn if another account has the person's
    name, or the person is connected to another account than this one.
    """
    identity = session.scalar(
        select(UserIdentityRow)
        .where(UserIdentityRow.issuer == issuer, UserIdentityRow.subject == person.subject)
        .with_for_update()
    )
    if identity is None:
        user = _new_user(session, person, issuer, connects, remote_addr, now)
        identity = UserIdentityRow(
            user_id=user.id, issuer=issuer, subject=person.subject, created_at=now
        )
        session.add(identity)
    else:
        user = session.get_one(UserRow, identity.user_id)
        if connects is not None and connects != user.id:
            raise CannotSignIn(
                "identity_taken", f"the person is connected to the account {user.username}"
            )
    if not user.is_active:
        raise NotAdmitted(f"the account {user.username} is deactivated")
    identity.email, identity.last_login_at = person.email, now
    session.flush()
    _follow(session, user, person, decides_role=decides_role, now=now)
    user.last_login_at = now
    audit.record(
        session,
        "auth.openid_sign_in",
        f"user:{user.username}",
        audit.Author(f"user:{user.username}", now, remote_addr),
        {"issuer": issuer, "subject": person.subject},
    )
    return user, identity


def bind(
    session: Session,
    secret: str,
    identity: UserIdentityRow,
    refresh_token: str | None,
    *,
    keys: KeyRing | None,
    now: dt.datetime,
) -> None:
    """Remember that the provider vouches for a new session, and what to ask it with. Without a key to
    encrypt that with, it is not asked again."""
    row = OpenidSessionRow(
        session_hash=hash_secret(secret), identity_id=identity.id, checked_at=now
    )
    _seal(row, refresh_token, keys)
    session.add(row)


def claim_checks(session: Session, *, idle_s: float, now: dt.datetime) -> list[DueCheck]:
    """Return the sessions to ask the provider about; no other server asks about them now."""
    due = (
        select(OpenidSessionRow.session_hash)
        .join(SessionRow, SessionRow.secret_hash == OpenidSessionRow.session_hash)
        .where(
            OpenidSessionRow.key_id != "",
            OpenidSessionRow.checked_at <= now - CHECK_EVERY,
            SessionRow.expires_at > now,
            SessionRow.last_seen_at > now - dt.timedelta(seconds=idle_s),
        )
        .order_by(OpenidSessionRow.checked_at)
        .limit(CHECKS_MAX)
    )
    claimed = session.scalars(
        update(OpenidSessionRow)
        .where(
            OpenidSessionRow.session_hash.in_(session.scalars(due).all()),
            OpenidSessionRow.checked_at <= now - CHECK_EVERY,
        )
        .values(checked_at=now)
        .returning(OpenidSessionRow.session_hash)
    ).all()
    rows = session.execute(
        select(OpenidSessionRow, UserIdentityRow.subject)
        .join(UserIdentityRow, UserIdentityRow.id == OpenidSessionRow.identity_id)
        .where(OpenidSessionRow.session_hash.in_(claimed))
    ).all()
    return [
        DueCheck(
            session_hash=row.session_hash,
            identity_id=row.identity_id,
            subject=subject,
            sealed=SealedValue(key_id=row.key_id, nonce=row.nonce, ciphertext=row.ciphertext),
        )
        for row, subject in rows
    ]


def opened(check: DueCheck, keys: KeyRing) -> str:
    """Return the token to ask the provider with. Raises Conflict if no key decrypts it."""
    return keys.open(check.sealed, **SEALED_AS)


def confirm(
    session: Session,
    check: DueCheck,
    person: Person | None,
    refresh_token: str,
    *,
    decides_role: bool,
    keys: KeyRing,
    now: dt.datetime,
) -> None:
    """Follow what the provider says now.

    person: None if it says nothing but that the session goes on. refresh_token: what to ask with next time,
    which is encrypted anew: so it follows a change of keys.
    """
    row = session.get(OpenidSessionRow, check.session_hash)
    if row is None:
        return
    _seal(row, refresh_token, keys)
    identity = session.get_one(UserIdentityRow, check.identity_id)
    user = session.get_one(UserRow, identity.user_id)
    if person is not None and user.is_active:
        session.flush()
        _follow(session, user, person, decides_role=decides_role, now=now)


def end(session: Session, check: DueCheck, reason: str, *, now: dt.datetime) -> None:
    """End a session that the provider does not vouch for any more."""
    identity = session.get(UserIdentityRow, check.identity_id)
    auth.end_session(session, check.session_hash)
    if identity is None:
        return
    user = session.get_one(UserRow, identity.user_id)
    audit.record(
        session,
        "auth.openid_session_ended",
        f"user:{user.username}",
        audit.Author("system", now),
        {"reason": reason},
    )


def refuse(session: Session, check: DueCheck, *, now: dt.datetime) -> None:
    """Let somebody whom the provider refuses do nothing more, until they sign in again. Who has a password
    here does not depend on the provider, and keeps their tokens."""
    identity = session.get(UserIdentityRow, check.identity_id)
    user = session.get_one(UserRow, identity.user_id) if identity is not None else None
    if user is None or user.password_hash is not None:
        return
    user.provider_refused_at = now
    auth.end_all_sessions(session, user.id)
    tokens.revoke_join_tokens_by(session, user.id, now=now)


def email_of(session: Session, user_id: int) -> str | None:
    """Return the address, or else the name, that a user has at the provider; None if they are not
    connected."""
    found = session.execute(
        select(UserIdentityRow.email, UserIdentityRow.subject)
        .where(UserIdentityRow.user_id == user_id)
        .order_by(UserIdentityRow.last_login_at.desc())
        .limit(1)
    ).one_or_none()
    return None if found is None else found.email or found.subject


def _is_secret(cookie: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]{43}", cookie) is not None


SEALED_AS = SealedAs(owner="openid", name="refresh-token", version=1)


def _seal(row: OpenidSessionRow, refresh_token: str | None, keys: KeyRing | None) -> None:
    row.key_id, row.nonce, row.ciphertext = "", b"", b""
    if refresh_token is not None and keys is not None:
        sealed = keys.seal(refresh_token, **SEALED_AS)
        row.key_id, row.nonce, row.ciphertext = sealed.key_id, sealed.nonce, sealed.ciphertext


def _new_user(
    session: Session,
    person: Person,
    issuer: str,
    connects: int | None,
    remote_addr: str,
    now: dt.datetime,
) -> UserRow:
    if connects is not None:
        return session.get_one(UserRow, connects)
    provisioned = provisioning.find_signing_in(session, person, issuer)
    if provisioned is not None:
        return provisioned
    same = func.lower(UserRow.username) == person.username.lower()
    if session.scalar(select(UserRow.id).where(same)) is not None:
        # Whoever has the name here need not be the person whom the provider calls so.
        raise CannotSignIn("name_taken", f"there is already an account named {person.username}")
    return users.create_user(
        session,
        username=person.username,
        password_hash=None,
        role=person.role,
        by=audit.Author("system", now, remote_addr),
    )


def _follow(
    session: Session, user: UserRow, person: Person, *, decides_role: bool, now: dt.datetime
) -> None:
    """Give a user the role and the groups that the provider says."""
    by = audit.Author("system", now)
    if decides_role and user.role != person.role:
        try:
            users.update_user(session, user.id, role=person.role, is_active=None, by=by)
        except Conflict as problem:  # the last administrator stays one
            why = {"reason": problem.message, "role": person.role}
            audit.record(session, "auth.openid_role_kept", f"user:{user.username}", by, why)
    _follow_groups(session, user, person.groups, now)


def _follow_groups(
    session: Session, user: UserRow, theirs: Collection[str], now: dt.datetime
) -> None:
    groups: Sequence[GroupRow] = session.scalars(
        select(GroupRow)
        .where(
            GroupRow.provider_group.is_not(None),
            GroupRow.id.not_in(select(ScimGroupRow.group_id)),
        )
        .order_by(GroupRow.id)
    ).all()
    present = {
        row.group_id: row
        for row in session.scalars(
            select(GroupMemberRow).where(
                GroupMemberRow.user_id == user.id,
                GroupMemberRow.group_id.in_([group.id for group in groups]),
            )
        )
    }
    for group in groups:
        is_in, was_in = group.provider_group in theirs, group.id in present
        if is_in == was_in:
            continue
        if is_in:
            session.add(
                GroupMemberRow(group_id=group.id, user_id=user.id, added_at=now, added_by="system")
            )
        else:
            session.delete(present[group.id])
        audit.record(
            session,
            f"groups.member_{'added' if is_in else 'removed'}",
            f"group:{group.name}",
            audit.Author("system", now),
            {"user": user.username, "by": "provider"},
        )
