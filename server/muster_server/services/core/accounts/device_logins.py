"""Letting a command line in with a browser, after RFC 8628.

The command line has a secret to ask with, and shows a code; who is signed in types or follows that code, and
says yes. So it works over SSH, and whatever way people sign in.
"""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Literal

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import ApiTokenRow, DeviceLoginRow, UserRow
from muster_server.errors import Conflict, Forbidden, NotFound, NotSignedIn, TooManyRequests
from muster_server.security.tokens import hash_secret, mint

from ..audit import Author
from ..callers import Caller, record
from . import auth, tokens
from .identity import lower_role

LIFETIME = dt.timedelta(minutes=10)
INTERVAL_S = 3
WAITING_MAX = 1000
"""Logins that wait at a time."""
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of codes. Without vowels they spell nothing, and no digit is taken for a letter."""


def begin(
    session: Session, *, client: str, remote_addr: str, now: dt.datetime
) -> tuple[DeviceLoginRow, str]:
    """Return a login that waits to be let in, and its secret. Raises TooManyRequests."""
    session.execute(delete(DeviceLoginRow).where(DeviceLoginRow.expires_at <= now))
    if (session.scalar(select(func.count(DeviceLoginRow.id))) or 0) >= WAITING_MAX:
        raise TooManyRequests(
            "auth.busy", "Too many command lines wait to be let in.", retry_after_s=60
        )
    secret = mint("once")
    letters = "".join(secrets.choice(LETTERS) for _ in range(8))
    login = DeviceLoginRow(
        secret_hash=hash_secret(secret),
        user_code=f"{letters[:4]}-{letters[4:]}",
        client=client,
        remote_addr=remote_addr,
        state="waiting",
        created_at=now,
        expires_at=now + LIFETIME,
    )
    session.add(login)
    session.flush()
    return login, secret


def find(session: Session, code: str, *, now: dt.datetime) -> DeviceLoginRow:
    """Return the login that shows a code, however somebody has typed it. Raises NotFound."""
    letters = "".join(letter for letter in code.upper() if letter in LETTERS)
    login = session.scalar(
        select(DeviceLoginRow).where(
            DeviceLoginRow.user_code == f"{letters[:4]}-{letters[4:]}",
            DeviceLoginRow.state == "waiting",
            DeviceLoginRow.expires_at > now,
        )
    )
    if login is None:
        raise NotFound(
            "auth.no_device_login",
            f"No command line waits with the code {code}.",
            hint="Codes work once and for ten minutes: run `muster login` again.",
        )
    return login


def answer(
    session: Session, code: str, state: Literal["approved", "denied"], caller: Caller
) -> None:
    """Let a command line in as the caller, or refuse it. Raises NotFound, and Forbidden for a token: it lets
    nobody in."""
    if caller.principal.session_hash is None:
        raise auth.needs_browser()
    login = find(session, code, now=caller.now)
    answered = session.execute(
        update(DeviceLoginRow)
        .where(DeviceLoginRow.id == login.id, DeviceLoginRow.state == "waiting")
        .values(state=state, user_id=caller.principal.user_id)
        .returning(DeviceLoginRow.id)
    ).all()
    if not answered:
        raise NotFound("auth.no_device_login", f"No command line waits with the code {code}.")
    record(
        session,
        f"auth.device_{state}",
        f"user:{caller.principal.name}",
        caller,
        {"client": login.client, "address": login.remote_addr},
    )


def take(
    session: Session, secret: str, *, remote_addr: str, now: dt.datetime
) -> tuple[ApiTokenRow, str]:
    """Return a token of who has let the command line in, and its secret: once.

    Raises Conflict `auth.device_pending` while nobody has answered, Forbidden if somebody has refused, and
    NotSignedIn for a secret that is unknown, used or too old.
    """
    login = session.scalar(
        select(DeviceLoginRow)
        .where(DeviceLoginRow.secret_hash == hash_secret(secret), DeviceLoginRow.expires_at > now)
        .with_for_update()
    )
    if login is None or login.state == "taken":
        raise NotSignedIn(
            "auth.device_expired",
            "This login is not valid: used, too old, or mistyped.",
            hint="Run `muster login` again.",
        )
    if login.state == "denied":
        raise Forbidden("auth.device_denied", "Somebody has refused this login in the browser.")
    if login.state == "waiting":
        raise Conflict("auth.device_pending", f"Nobody has confirmed {login.user_code} yet.")
    user = session.get(UserRow, login.user_id)
    if user is None or not user.may_act:
        raise NotSignedIn("auth.device_expired", "Who has let it in may not sign in any more.")
    login.state = "taken"
    return tokens.create_api_token(
        session,
        user=user,
        name=login.client,
        role=None,
        own_role=lower_role(user.role, user.role),
        lifetime=None,
        by=Author(f"user:{user.username}", now, remote_addr),
    )
