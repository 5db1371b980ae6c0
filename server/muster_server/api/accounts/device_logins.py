"""Letting a command line in with a browser; see `muster login`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Request, status

from muster_server import clock
from muster_server.schemas.accounts.auth import (
    DeviceLoginCreated,
    DeviceLoginIn,
    DeviceLoginOut,
    DeviceTokenIn,
    TokenCreated,
)
from muster_server.services.core.accounts import device_logins

from ..http.deps import By, Config, Db, RemoteAddr
from ..http.routing import Router, Write
from .auth import sign_in_limits
from .tokens import token_created

router = Router(prefix="/auth/device", tags=["auth"])

Code = Annotated[str, Path(min_length=8, max_length=16)]


@router.post("", status_code=status.HTTP_201_CREATED)
def create_device_login(
    body: DeviceLoginIn, request: Request, db: Db, config: Config, addr: RemoteAddr
) -> DeviceLoginCreated:
    """Ask to be let in. Show the code and the page to the user, and ask for the token meanwhile."""
    sign_in_limits(request).count(addr)
    with db.transaction() as session:
        login, secret = device_logins.begin(
            session, client=body.client, remote_addr=addr, now=clock.now()
        )
        return DeviceLoginCreated(
            device_code=secret,
            user_code=login.user_code,
            url=f"{config.browser_url()}/device?code={quote(login.user_code)}",
            expires_in_s=int(device_logins.LIFETIME.total_seconds()),
            interval_s=device_logins.INTERVAL_S,
        )


@router.post("/token", status_code=status.HTTP_201_CREATED)
def create_device_token(body: DeviceTokenIn, session: Write, addr: RemoteAddr) -> TokenCreated:
    """Return the API token of the user who has let you in, once. Until somebody answers it is 409
    `auth.device_pending`."""
    row, secret = device_logins.take(session, body.device_code, remote_addr=addr, now=clock.now())
    return token_created(session, row, secret)


@router.get("/{code}")
def get_device_login(
    code: Code, request: Request, db: Db, by: By, addr: RemoteAddr
) -> DeviceLoginOut:
    """Show which command line waits with a code."""
    sign_in_limits(request).count(addr, by.principal.name)
    with db.read() as session:
        return DeviceLoginOut.from_row(device_logins.find(session, code, now=by.now))


@router.post("/{code}:approve", status_code=status.HTTP_204_NO_CONTENT)
def approve_device_login(code: Code, session: Write, by: By) -> None:
    """Let a command line in as you: it gets an API token with your role. Needs a session."""
    device_logins.answer(session, code, "approved", by)


@router.post("/{code}:deny", status_code=status.HTTP_204_NO_CONTENT)
def deny_device_login(code: Code, session: Write, by: By) -> None:
    """Refuse a command line. Needs a session."""
    device_logins.answer(session, code, "denied", by)
