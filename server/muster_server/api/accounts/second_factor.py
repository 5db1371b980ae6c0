"""Two-step sign-in: your own, and switching off that of somebody else."""

from __future__ import annotations

from fastapi import Request, status

from muster_server.db.models import UserRow
from muster_server.domain.second_factor import address, spelled
from muster_server.errors import NotFound
from muster_server.schemas.accounts.auth import (
    CodeIn,
    OwnPasswordIn,
    RecoveryCodes,
    SecondFactorBegun,
)
from muster_server.security import passwords
from muster_server.security.encryption import key_ring
from muster_server.services.core.accounts import auth, second_factor

from ..http.deps import By, Config, Db, Id, RemoteAddr
from ..http.refusals import note_refusal
from ..http.routing import Router, Write
from .auth import password_work, sign_in_limits

router = Router(tags=["auth"])
ISSUER = "Muster"


@router.post("/auth/second-factor")
async def begin_second_factor(
    body: OwnPasswordIn, request: Request, db: Db, config: Config, by: By, addr: RemoteAddr
) -> SecondFactorBegun:
    """Return a new secret for your authenticator app. It counts once you have confirmed a code of it."""
    await _check_password(body, request, db, by, addr)
    with db.transaction() as session:
        secret = second_factor.begin(session, by, key_ring(config))
    return SecondFactorBegun(
        secret=spelled(secret), address=address(secret, issuer=ISSUER, account=by.principal.name)
    )


@router.post("/auth/second-factor:confirm")
def confirm_second_factor(
    body: CodeIn, request: Request, db: Db, config: Config, by: By, addr: RemoteAddr
) -> RecoveryCodes:
    """Switch two-step sign-in on with the code that the app shows. The recovery codes are in this response
    and nowhere else."""
    limits = sign_in_limits(request)
    limits.count(addr, by.principal.name)
    with db.transaction() as session:
        codes = second_factor.confirm(session, body.code, by, key_ring(config))
    limits.forgive(addr, by.principal.name)
    return RecoveryCodes(codes=codes)


@router.post("/auth/second-factor:switch-off", status_code=status.HTTP_204_NO_CONTENT)
async def switch_off_second_factor(
    body: OwnPasswordIn, request: Request, db: Db, by: By, addr: RemoteAddr
) -> None:
    """Switch two-step sign-in off, with your password."""
    await _check_password(body, request, db, by, addr)
    with db.transaction() as session:
        second_factor.switch_off(session, _user(session.get(UserRow, by.principal.user_id)), by)


@router.delete("/users/{user_id}/second-factor", status_code=status.HTTP_204_NO_CONTENT)
def remove_second_factor(user_id: Id, session: Write, by: By) -> None:
    """Switch two-step sign-in of somebody off who lost the phone and the recovery codes."""
    second_factor.switch_off(session, _user(session.get(UserRow, user_id)), by)


async def _check_password(
    body: OwnPasswordIn, request: Request, db: Db, by: By, addr: RemoteAddr
) -> None:
    """Raise Forbidden unless it is the caller's. An open browser that somebody left is not enough."""
    limits = sign_in_limits(request)
    limits.count(addr, by.principal.name)

    def work() -> bool:
        with db.read() as session:
            known_hash = _user(session.get(UserRow, by.principal.user_id)).password_hash
        return passwords.verify_password(known_hash, body.password)

    if not await password_work(request, work):
        note_refusal(request, "auth.password_refused", f"user:{by.principal.name}")
        raise auth.wrong_password()
    limits.forgive(addr, by.principal.name)


def _user(user: UserRow | None) -> UserRow:
    if user is None:
        raise NotFound("users.not_found", "There is no such user.")
    return user
