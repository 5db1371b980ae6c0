"""Codes of authenticator apps, after RFC 6238 with the values that every app knows: SHA-1, 6 digits, 30 s."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

STEP_S = 30
DIGITS = 6
SECRET_BYTES = 20
CLOCK_STEPS = 1
"""Steps by which the clock of a phone may be off."""


def accepted_step(secret: bytes, code: str, *, now: dt.datetime, last_step: int) -> int | None:
    """Return the step that a code is of; None if it is of none that may be used now.

    last_step: the step of the last code that was accepted. A code works once, and none from before it does.
    """
    totp = TOTP(secret, DIGITS, SHA1(), STEP_S)  # noqa: S303
    present = int(now.timestamp()) // STEP_S
    for step in range(present - CLOCK_STEPS, present + CLOCK_STEPS + 1):
        expected = totp.generate(step * STEP_S).decode()
        if hmac.compare_digest(expected, code) and step > last_step:
            return step
    return None


def address(secret: bytes, *, issuer: str, account: str) -> str:
    """Return the otpauth address of a secret, which apps read from a QR code."""
    query = urlencode({"secret": spelled(secret), "issuer": issuer}, quote_via=quote)
    return f"otpauth://totp/{quote(f'{issuer}:{account}')}?{query}"


def spelled(secret: bytes) -> str:
    """Return a secret as somebody types it into an app."""
    return base64.b32encode(secret).decode().rstrip("=")
