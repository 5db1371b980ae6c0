"""Errors that users see.

MusterError (code, status, message, hint, fields)
├── Malformed            400  it cannot even be read
├── InvalidRequest       422  what was sent cannot work
├── NotSignedIn          401
├── Forbidden            403
├── NotFound             404  also for what the caller may not see
├── Conflict             409  it clashes with the present state
├── Superseded           410  an older session, attempt or epoch spoke
├── TooLarge             413
├── Misdirected          421  the Host header names somebody else
├── TooManyRequests      429  carries retry_after_s
└── Unavailable          503  carries retry_after_s
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster_server.domain.messages import AnyMessage

SCHEMA_MISMATCH_EXIT = 78
"""Exit code of a process whose database does not have this version's tables: starting it again
changes nothing (EX_CONFIG of sysexits.h)."""


@dataclass(frozen=True)
class FieldProblem:
    path: str
    message: AnyMessage | str
    """What is wrong, as it follows the path: "must be at least 1"."""
    hint: str | None = None


class MusterError(Exception):
    """`code` is stable ("experiments.not_found"); `message` says what was given and what would work."""

    status = 500

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        fields: Sequence[FieldProblem] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.fields = tuple(fields)
        self.retry_after_s = retry_after_s


class Malformed(MusterError):
    status = 400


class InvalidRequest(MusterError):
    status = 422


class NotSignedIn(MusterError):
    status = 401


class Forbidden(MusterError):
    status = 403


class NotFound(MusterError):
    status = 404


class Conflict(MusterError):
    status = 409


class Superseded(MusterError):
    status = 410


class TooLarge(MusterError):
    status = 413


class Misdirected(MusterError):
    status = 421


class TooManyRequests(MusterError):
    status = 429


class Unavailable(MusterError):
    status = 503
