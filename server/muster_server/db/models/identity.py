"""Who may do what: users, their sessions and tokens, and the audit trail."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    and_,
    false,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.accounts import AccountKind, ScimState

from .base import Base, BigId, belongs_to


class UserRow(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    username: Mapped[str] = mapped_column(String(64), unique=True)
    password_hash: Mapped[str | None]
    """Argon2id; None for a user that signs in by token alone."""
    role: Mapped[str] = mapped_column(String(16))
    """admin | member | viewer."""
    kind: Mapped[AccountKind] = mapped_column(String(16), default="person", server_default="person")
    description: Mapped[str] = mapped_column(String(200), default="", server_default="")
    is_active: Mapped[bool] = mapped_column(default=True)
    provider_refused_at: Mapped[dt.datetime | None]
    """Since when the OpenID provider has refused somebody who signs in nowhere else; None once they have
    signed in again."""
    created_at: Mapped[dt.datetime]
    last_login_at: Mapped[dt.datetime | None]
    summarized_at: Mapped[dt.datetime | None]
    """End of the last week of which a summary was sent, or of which there was nothing to say."""

    @hybrid_property
    def may_act(self) -> bool:
        """Whether anything may be done in this account's name: by a session, a token or a job, or for its
        notifications."""
        return self.is_active and self.provider_refused_at is None

    @may_act.inplace.expression
    @classmethod
    def _may_act_expression(cls) -> ColumnElement[bool]:
        return and_(cls.is_active, cls.provider_refused_at.is_(None))


class SessionRow(Base):
    """A browser session. The cookie holds the secret, this row its SHA-256."""

    __tablename__ = "sessions"

    secret_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int] = belongs_to("users.id", index=True)
    created_at: Mapped[dt.datetime]
    last_seen_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    remote_addr: Mapped[str] = mapped_column(String(64), default="", server_default="")
    user_agent: Mapped[str] = mapped_column(String(200), default="", server_default="")


class UserIdentityRow(Base):
    """Who a user is for an OpenID provider."""

    __tablename__ = "user_identities"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int] = belongs_to("users.id", index=True)
    issuer: Mapped[str] = mapped_column(String(512))
    subject: Mapped[str] = mapped_column(String(255))
    """The provider's own name for the person, which it gives to nobody else."""
    email: Mapped[str] = mapped_column(String(254))
    created_at: Mapped[dt.datetime]
    last_login_at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("issuer", "subject"),)


class ScimUserRow(Base):
    """What a provisioning client says of an account that it manages."""

    __tablename__ = "scim_users"

    user_id: Mapped[int] = belongs_to("users.id", primary_key=True)
    state: Mapped[ScimState] = mapped_column(String(16))
    user_name: Mapped[str] = mapped_column(String(254))
    name_key: Mapped[str] = mapped_column(String(254), unique=True)
    """The name as it is compared, whatever its case."""
    external_id: Mapped[str | None] = mapped_column(String(255), unique=True)


class OpenidSessionRow(Base):
    """A browser session that an OpenID provider has vouched for, and is asked about again."""

    __tablename__ = "openid_sessions"

    session_hash: Mapped[str] = belongs_to("sessions.secret_hash", primary_key=True)
    identity_id: Mapped[int] = belongs_to("user_identities.id", index=True)
    key_id: Mapped[str] = mapped_column(String(16))
    """Key for secrets that has encrypted the refresh token; "" if there is none, and nothing is asked."""
    nonce: Mapped[bytes] = mapped_column(LargeBinary)
    ciphertext: Mapped[bytes] = mapped_column(LargeBinary)
    checked_at: Mapped[dt.datetime] = mapped_column(index=True)


class ApiTokenRow(Base):
    __tablename__ = "api_tokens"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int] = belongs_to("users.id", index=True)
    name: Mapped[str] = mapped_column(String(128))
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    prefix: Mapped[str] = mapped_column(String(24))
    """The visible beginning of the token, so that people can tell theirs apart."""
    role: Mapped[str] = mapped_column(String(16))
    """The token acts with this role, never above its user's."""
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime | None]
    last_used_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]
    parent_id: Mapped[int | None] = mapped_column(BigId, index=True)
    """The token that made it, which it neither outlives nor outranks; NULL when a person did."""
    is_limited: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether it sees and acts in the projects of its `ApiTokenProjectRow`s alone. A flag of its own,
    so that a token whose last project was deleted is left with none, and not with all."""


class ApiTokenProjectRow(Base):
    """A project that a limited token is for."""

    __tablename__ = "api_token_projects"

    token_id: Mapped[int] = belongs_to("api_tokens.id", primary_key=True)
    project_id: Mapped[int] = belongs_to("projects.id", primary_key=True, index=True)


class OneTimeTokenRow(Base):
    """A secret that works once: `setup` makes the first administrator, `sign_in` signs a user in,
    `live` opens the live channel, `openid` is the state of a sign-in at an OpenID provider, `invitation`
    lets a user choose the first password."""

    __tablename__ = "one_time_tokens"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    user_id: Mapped[int | None] = belongs_to("users.id")
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    used_at: Mapped[dt.datetime | None]
    session_hash: Mapped[str | None] = mapped_column(String(64))
    """Session that requested a `live` token. If an API token requested it, or an `invitation`,
    `api_token_id` is set instead. Of `openid`: hash of the cookie of the browser that began the sign-in."""
    api_token_id: Mapped[int | None] = mapped_column(BigId)


class SecondFactorRow(Base):
    """Secret of a user's authenticator app, encrypted."""

    __tablename__ = "second_factors"

    user_id: Mapped[int] = belongs_to("users.id", primary_key=True)
    key_id: Mapped[str] = mapped_column(String(16))
    """Key for secrets that encrypted it; see security.encryption."""
    nonce: Mapped[bytes] = mapped_column(LargeBinary)
    ciphertext: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[dt.datetime]
    confirmed_at: Mapped[dt.datetime | None]
    """Time of the first code; None while it does not count yet."""
    last_step: Mapped[int] = mapped_column(BigInteger)
    """Step of the last code that was accepted: 30 s each, since 1970."""


class RecoveryCodeRow(Base):
    """A code that lets a user in once, without the app."""

    __tablename__ = "recovery_codes"

    user_id: Mapped[int] = belongs_to("users.id", primary_key=True)
    code_hash: Mapped[str] = mapped_column(String(64), primary_key=True)


class DeviceLoginRow(Base):
    """A command line that waits for somebody to let it in, in a browser."""

    __tablename__ = "device_logins"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    user_code: Mapped[str] = mapped_column(String(9), unique=True)
    """What both the command line and the page show, so that people see that they belong together."""
    client: Mapped[str] = mapped_column(String(128))
    """What it says of itself: "muster on host"."""
    remote_addr: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(8))
    """waiting | approved | denied | taken."""
    user_id: Mapped[int | None] = belongs_to("users.id")
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]


class JoinTokenRow(Base):
    """Lets an agent join the cluster; exchanged for a credential of its own."""

    __tablename__ = "join_tokens"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    prefix: Mapped[str] = mapped_column(String(24))
    pool: Mapped[str] = mapped_column(String(64))
    uses_left: Mapped[int]
    created_by: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    revoked_at: Mapped[dt.datetime | None]
    api_token_id: Mapped[int | None] = mapped_column(BigId, index=True)
    """The API token that made it; NULL when a person or the server did."""


class AuditRow(Base):
    __tablename__ = "audit_log"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[dt.datetime]
    actor: Mapped[str] = mapped_column(String(160))
    """"user:ada", "token:12 (ada)", "agent:node-1", "system"."""
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(160))
    remote_addr: Mapped[str] = mapped_column(String(64), default="")
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    seal_no: Mapped[int | None] = mapped_column(BigInteger, unique=True, index=True)
    """Place in the chain of seals, from 1; null until it is sealed. See domain.audit_chain."""
    digest: Mapped[str] = mapped_column(String(64), default="", server_default="")
    """Digest of the chain up to here; "" until it is sealed."""

    __table_args__ = (Index("ix_audit_log_at", "at"),)


class AuditHeadRow(Base):
    """The newest seal of the audit trail, signed; one row."""

    __tablename__ = "audit_heads"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seal_no: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))
    key_id: Mapped[str] = mapped_column(String(16))
    """Key for secrets that has signed it, by encrypting the digest; "" if none has."""
    nonce: Mapped[bytes] = mapped_column(LargeBinary)
    ciphertext: Mapped[bytes] = mapped_column(LargeBinary)
    sealed_at: Mapped[dt.datetime]


class IdempotencyRow(Base):
    """The answer to a request that carried an Idempotency-Key, so that its retry gets the same one."""

    __tablename__ = "idempotency_keys"

    user_id: Mapped[int] = belongs_to("users.id", primary_key=True)
    key: Mapped[str] = mapped_column(String(128), primary_key=True)
    request_hash: Mapped[str] = mapped_column(String(64))
    experiment_id: Mapped[int | None]
    answer: Mapped[dict[str, Any] | None]
    """Answer to a request that concerns more than one experiment; null for any other request."""
    created_at: Mapped[dt.datetime]
