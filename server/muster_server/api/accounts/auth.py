"""First set-up, signing in and out, and the caller's own account."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, TypeVar

import anyio.to_thread
from fastapi import Path, Request, Response, status
from sqlalchemy.orm import Session

from muster import __version__
from muster_server import clock, parts
from muster_server.db.engine import Database
from muster_server.db.models import UserRow
from muster_server.errors import NotFound, NotSignedIn, TooManyRequests
from muster_server.rescue_commands import setup_command, sign_in_command
from muster_server.schemas.accounts.auth import (
    AuthState,
    LoginIn,
    MeOut,
    OneTimeIn,
    PasswordIn,
    SessionOut,
    SetupIn,
)
from muster_server.schemas.base import Page
from muster_server.security import passwords
from muster_server.security.cookies import clear_session_cookie, set_session_cookie
from muster_server.security.encryption import key_ring_or_none
from muster_server.security.principal import Principal
from muster_server.security.rate_limits import SignInLimits
from muster_server.services.core import audit
from muster_server.services.core.accounts import auth, openid, second_factor, users
from muster_server.services.core.accounts.identity import lower_user_role
from muster_server.settings import Settings

from ..http.deps import Config, Db, Me, RemoteAddr
from ..http.guard import permissions_of
from ..http.refusals import note_refusal
from ..http.routing import Read, Router, Write

router = Router(tags=["auth"])

T = TypeVar("T")

PASSWORD_QUEUE_MAX = 20
"""Number of sign-ins that may wait for their turn; further ones are asked to come back."""


@router.get("/auth/state", summary="Whether the first set-up is still to do")
def get_auth_state(db: Db, config: Config, addr: RemoteAddr) -> AuthState:
    with db.read() as session:
        is_required = auth.setup_required(session)
    return AuthState(
        setup_required=is_required,
        setup_command=setup_command(config) if is_required else None,
        sign_in_command=None if is_required else sign_in_command(config, addr),
        provider=config.oidc_name if config.oidc_issuer else None,
        version=__version__,
        parts=[part.name for part in parts.installed()],
    )


@router.post("/auth/setup", summary="Make the first administrator")
async def setup(
    body: SetupIn, request: Request, response: Response, db: Db, config: Config, addr: RemoteAddr
) -> MeOut:
    """Create the first administrator. Needs the one-time token the server printed at its first
    start. Works once."""
    sign_in_limits(request).count(addr)

    def work() -> tuple[MeOut, str]:
        # The token comes first: hashing is not for strangers.
        try:
            with db.read() as session:
                auth.check_setup_token(session, body.token, now=clock.now())
        except NotSignedIn:
            note_refusal(request, "auth.link_refused", "setup")
            raise
        _check_strength(body.password, body.username)
        password_hash = passwords.hash_password(body.password)
        now = clock.now()
        with db.transaction() as session:
            user = auth.set_up(
                session,
                token=body.token,
                username=body.username,
                password_hash=password_hash,
                remote_addr=addr,
                now=now,
            )
            return start(session, user, request, config, now)

    me, secret = await password_work(request, work)
    set_session_cookie(response, secret, config)
    return me


@router.post("/auth/login", summary="Sign in with name and password")
async def login(
    body: LoginIn, request: Request, response: Response, db: Db, config: Config, addr: RemoteAddr
) -> MeOut:
    """Sign in and set the session cookie. At most 5 attempts a minute for one account from one
    address."""
    limits = sign_in_limits(request)
    try:
        limits.count(addr, body.username)
    except TooManyRequests:
        await anyio.to_thread.run_sync(
            _note_failed, request, db, body.username, "too many attempts"
        )
        raise

    def work() -> tuple[MeOut, str]:
        with db.read() as session:
            found = auth.find_user(session, body.username)
            known_hash = found.password_hash if found is not None and found.is_active else None
            user_id = found.id if found is not None else None
        verified = passwords.verify_password(known_hash, body.password)
        now = clock.now()
        if not verified or known_hash is None or user_id is None:
            _note_failed(request, db, body.username, "")
            raise auth.wrong_credentials()
        new_hash = (
            passwords.hash_password(body.password) if passwords.needs_rehash(known_hash) else None
        )
        try:
            with db.transaction() as session:
                user = auth.log_in(
                    session,
                    user_id=user_id,
                    verified_hash=known_hash,
                    new_hash=new_hash,
                    remote_addr=addr,
                    now=now,
                )
                keys = key_ring_or_none(config)
                second_factor.check(session, user, body.code, keys, now=now)
                return start(session, user, request, config, now)
        except NotSignedIn as problem:
            if problem.code == "auth.wrong_code":
                _note_failed(request, db, body.username, "wrong code")
            raise

    me, secret = await password_work(request, work)
    limits.forgive(addr, body.username)
    set_session_cookie(response, secret, config)
    return me


@router.post("/auth/one-time", summary="Sign in with a one-time token")
def one_time_sign_in(
    body: OneTimeIn, request: Request, response: Response, db: Db, config: Config, addr: RemoteAddr
) -> MeOut:
    """Sign in with a link printed by `muster up` or `muster-server sign-in-token`."""
    sign_in_limits(request).count(addr)
    now = clock.now()
    try:
        with db.transaction() as session:
            user = auth.use_sign_in_token(session, token=body.token, remote_addr=addr, now=now)
            me, secret = start(session, user, request, config, now)
    except NotSignedIn:
        note_refusal(request, "auth.link_refused", "sign-in link")
        raise
    set_session_cookie(response, secret, config)
    return me


@router.post(
    "/auth/logout",
    summary="End this session",
    status_code=status.HTTP_204_NO_CONTENT,
)
def logout(response: Response, db: Db, config: Config, me: Me) -> None:
    """End the session of the cookie. An API token stays valid: revoke it instead."""
    if me.session_hash is not None:
        with db.transaction() as session:
            auth.end_session(session, me.session_hash)
    clear_session_cookie(response, config)


@router.get("/sessions", summary="Your sessions")
def list_sessions(db: Db, config: Config, me: Me) -> Page[SessionOut]:
    assert me.user_id is not None
    with db.read() as session:
        return sessions_out(session, me.user_id, config, me)


@router.delete(
    "/sessions/{session_id}",
    summary="End a session",
    status_code=status.HTTP_204_NO_CONTENT,
)
def end_session(
    session_id: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")],
    session: Write,
    me: Me,
    addr: RemoteAddr,
) -> None:
    """Sign a browser of yours out, or anybody's as an administrator. A token ends no session of a higher
    role."""
    auth.end_listed_session(session, session_id, principal=me, remote_addr=addr, now=clock.now())


def sessions_out(
    session: Session, user_id: int, config: Settings, me: Principal
) -> Page[SessionOut]:
    """Return the sessions of a user; there are few enough for one page."""
    idle = dt.timedelta(seconds=config.session_idle_s)
    rows = auth.list_sessions(session, user_id, idle=idle, now=clock.now())
    items = [
        SessionOut.from_row(
            row, id=auth.session_id(row.secret_hash), is_current=row.secret_hash == me.session_hash
        )
        for row in rows
    ]
    return Page(items=items, next=None)


@router.get("/auth/me", summary="Who you are and what you may do")
def get_me(session: Read, me: Me) -> MeOut:
    user = _own_row(session.get(UserRow, me.user_id))
    return _me(session, user, me.role, is_limited=me.is_limited)


@router.post(
    "/auth/password",
    summary="Change your password",
    status_code=status.HTTP_204_NO_CONTENT,
)
async def change_password(
    body: PasswordIn,
    request: Request,
    response: Response,
    db: Db,
    config: Config,
    me: Me,
    addr: RemoteAddr,
) -> None:
    """Change your password.

    Ends all your sessions; the one that asked gets a new cookie. Also revokes your API tokens, unless
    `revoke_tokens` is false. With a token, the present password is needed: a token cannot give its
    user the first one.
    """
    sign_in_limits(request).count(addr, me.name)

    def work() -> str | None:
        with db.read() as session:
            user = _own_row(session.get(UserRow, me.user_id))
            user_id, known_hash, username = user.id, user.password_hash, user.username
            is_theirs = openid.email_of(session, user_id) is not None or bool(
                users.provisioned_among(session, [user])
            )
        if known_hash is None and is_theirs:
            raise auth.signs_in_elsewhere()
        if known_hash is None and me.session_hash is None:
            raise auth.needs_session()
        if known_hash is not None and not passwords.verify_password(
            known_hash, body.current_password or ""
        ):
            note_refusal(request, "auth.password_refused", f"user:{username}")
            raise auth.wrong_password()
        _check_strength(body.new_password, username)
        new_hash = passwords.hash_password(body.new_password)
        now = clock.now()
        with db.transaction() as session:
            auth.change_password(
                session,
                user_id=user_id,
                verified_hash=known_hash,
                new_hash=new_hash,
                revoke_tokens=body.revoke_tokens,
                by=audit.Author(me.actor, now, addr),
            )
            if me.session_hash is None:
                return None
            return new_session(session, user_id, request, config, now)

    secret = await password_work(request, work)
    sign_in_limits(request).forgive(addr, me.name)
    if secret is not None:
        set_session_cookie(response, secret, config)


async def password_work(request: Request, work: Callable[[], T]) -> T:
    """Run `work` in one of the few threads that handle passwords, so that a flood starves nobody
    else."""
    limiter: anyio.CapacityLimiter = request.app.state.password_limiter
    if limiter.statistics().tasks_waiting >= PASSWORD_QUEUE_MAX:
        raise TooManyRequests(
            "auth.busy", "Too many people are signing in right now.", retry_after_s=2
        )
    return await anyio.to_thread.run_sync(work, limiter=limiter)


def _note_failed(request: Request, db: Database, username: str, reason: str) -> None:
    with db.read() as session:
        subject = auth.refused_subject(session, username)
    note_refusal(request, "auth.login_failed", subject, reason=reason)


def start(
    session: Session, user: UserRow, request: Request, config: Settings, now: dt.datetime
) -> tuple[MeOut, str]:
    """Return who has just signed in, and the secret of the new session."""
    return _me(session, user, user.role), new_session(session, user.id, request, config, now)


def new_session(
    session: Session, user_id: int, request: Request, config: Settings, now: dt.datetime
) -> str:
    """Return the secret of a new session of the browser that asks."""
    return auth.start_session(
        session,
        user_id=user_id,
        lifetime=dt.timedelta(seconds=config.session_max_s),
        now=now,
        remote_addr=request.client.host if request.client is not None else "",
        user_agent=request.headers.get("user-agent", ""),
    )


def _me(session: Session, user: UserRow, acting_role: str, *, is_limited: bool = False) -> MeOut:
    role = lower_user_role(acting_role, user.role)
    return MeOut(
        id=user.id,
        username=user.username,
        role=role,
        has_password=user.password_hash is not None,
        has_second_factor=second_factor.is_on(session, user.id),
        provider_account=openid.email_of(session, user.id),
        permissions=list(permissions_of(role, is_limited=is_limited)),
    )


def _own_row(user: UserRow | None) -> UserRow:
    if user is None:
        raise NotFound("users.not_found", "This user was removed.")
    return user


def _check_strength(password: str, username: str) -> None:
    problem = passwords.password_problem(password, username=username)
    if problem is not None:
        raise auth.weak_password(problem)


def sign_in_limits(request: Request) -> SignInLimits:
    limits: SignInLimits = request.app.state.sign_in_limits
    return limits
