"""The second factor of who signs in with a password: codes of an authenticator app.

Sign-ins by a link that the server printed and by an OpenID provider have their own; API tokens are no
sign-ins.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets

from sqlalchemy import delete
from sqlalchemy.orm import Session

from muster_server.db.models import RecoveryCodeRow, SecondFactorRow, UserRow
from muster_server.domain.second_factor import SECRET_BYTES, accepted_step, spelled
from muster_server.errors import Conflict, NotFound, NotSignedIn
from muster_server.security.encryption import KeyRing, SealedAs, SealedValue
from muster_server.security.tokens import hash_secret

from ..callers import Caller, record
from . import auth

RECOVERY_CODES = 10


def sealed_as(user_id: int) -> SealedAs:
    return SealedAs(owner=f"second-factor:{user_id}", name="secret", version=1)


def is_on(session: Session, user_id: int) -> bool:
    row = session.get(SecondFactorRow, user_id)
    return row is not None and row.confirmed_at is not None


def begin(session: Session, caller: Caller, keys: KeyRing) -> bytes:
    """Return a new secret, which counts once a code of it was confirmed. Raises Conflict if there is one
    that does."""
    user_id = _user_id(caller)
    if is_on(session, user_id):
        raise Conflict("auth.second_factor_on", "Two-step sign-in is on already.")
    secret = os.urandom(SECRET_BYTES)
    sealed = keys.seal(secret.hex(), **sealed_as(user_id))
    session.merge(
        SecondFactorRow(
            user_id=user_id,
            key_id=sealed.key_id,
            nonce=sealed.nonce,
            ciphertext=sealed.ciphertext,
            created_at=caller.now,
            confirmed_at=None,
            last_step=0,
        )
    )
    return secret


def confirm(session: Session, code: str, caller: Caller, keys: KeyRing) -> list[str]:
    """Switch it on with a first code, and return the recovery codes, each of which stands once for a code of
    the app. Raises NotFound before `begin`, and NotSignedIn for a wrong code."""
    user_id = _user_id(caller)
    row = session.get(SecondFactorRow, user_id, with_for_update=True)
    if row is None or row.confirmed_at is not None:
        raise NotFound("auth.no_second_factor", "There is no two-step sign-in to confirm.")
    if not _takes(row, code, keys, caller.now):
        raise wrong_code()
    row.confirmed_at = caller.now
    session.execute(delete(RecoveryCodeRow).where(RecoveryCodeRow.user_id == user_id))
    # 50 bits each: what is tried is counted, as with passwords.
    codes = [spelled(secrets.token_bytes(7))[:10].lower() for _ in range(RECOVERY_CODES)]
    session.add_all(
        RecoveryCodeRow(user_id=user_id, code_hash=hash_secret(_recovery(user_id, code)))
        for code in codes
    )
    record(session, "auth.second_factor_on", f"user:{caller.principal.name}", caller)
    return [f"{code[:5]}-{code[5:]}" for code in codes]


def check(
    session: Session, user: UserRow, code: str | None, keys: KeyRing | None, *, now: dt.datetime
) -> None:
    """Let somebody in whose password was right. Raises NotSignedIn: `auth.code_needed` without a code where
    one is needed, `auth.wrong_code` for one that is wrong or was used."""
    row = session.get(SecondFactorRow, user.id, with_for_update=True)
    if row is None or row.confirmed_at is None:
        return
    if not code:
        raise NotSignedIn("auth.code_needed", "Enter the code that your authenticator app shows.")
    plain = code.replace(" ", "").replace("-", "").lower()
    if plain.isdecimal():
        if keys is not None and _takes(row, plain, keys, now):
            return
    elif _uses(session, user.id, plain):
        auth.record_own(session, "auth.recovery_code_used", user, now)
        return
    raise wrong_code()


def switch_off(session: Session, user: UserRow, caller: Caller) -> None:
    """Switch it off, for oneself after the password or, as an administrator, for somebody who lost the phone.
    Raises NotFound if it is off."""
    row = session.get(SecondFactorRow, user.id)
    if row is None:
        raise NotFound("auth.no_second_factor", f"Two-step sign-in of {user.username} is off.")
    session.delete(row)
    session.execute(delete(RecoveryCodeRow).where(RecoveryCodeRow.user_id == user.id))
    record(session, "auth.second_factor_off", f"user:{user.username}", caller)


def wrong_code() -> NotSignedIn:
    return NotSignedIn(
        "auth.wrong_code",
        "The code is wrong or was used already.",
        hint="Codes change every 30 s. Without the app, enter one of your recovery codes.",
    )


def _takes(row: SecondFactorRow, code: str, keys: KeyRing, now: dt.datetime) -> bool:
    sealed = SealedValue(key_id=row.key_id, nonce=row.nonce, ciphertext=row.ciphertext)
    secret = keys.open(sealed, **sealed_as(row.user_id))
    step = accepted_step(bytes.fromhex(secret), code, now=now, last_step=row.last_step)
    if step is not None:
        row.last_step = step
    return step is not None


def _uses(session: Session, user_id: int, code: str) -> bool:
    """Use a recovery code up, and return whether it was one."""
    found = session.execute(
        delete(RecoveryCodeRow)
        .where(
            RecoveryCodeRow.user_id == user_id,
            RecoveryCodeRow.code_hash == hash_secret(_recovery(user_id, code)),
        )
        .returning(RecoveryCodeRow.code_hash)
    ).all()
    return bool(found)


def _recovery(user_id: int, code: str) -> str:
    return f"recovery|{user_id}|{code}"


def _user_id(caller: Caller) -> int:
    """Return the id of who is signed in. Raises Forbidden for a token: it changes no way of signing in."""
    if caller.principal.session_hash is None or caller.principal.user_id is None:
        raise auth.needs_browser()
    return caller.principal.user_id
