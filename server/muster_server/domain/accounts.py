"""Accounts of people and of programs, and how long what lets them in is valid."""

from __future__ import annotations

import datetime as dt
import unicodedata
from typing import Literal, NamedTuple

AccountKind = Literal["person", "service"]
"""A `person` signs in. A `service` account is for a program: it has tokens alone."""
ScimState = Literal["active", "inactive", "deleted"]
"""What a provisioning client says of an account. A `deleted` one is deactivated, and the client sees it no
more."""
SERVICE_TOKEN_MAX = dt.timedelta(days=365)
"""Longest lifetime of a token of a service account: nobody is reminded of it by signing in."""
EXPIRES_SOON = dt.timedelta(days=7)


class AccountProblem(NamedTuple):
    """Field of an account that cannot be as it is, and why."""

    field: str
    message: str
    hint: str


def account_problem(
    kind: AccountKind, *, role: str, has_password: bool | None = None
) -> AccountProblem | None:
    """Return what is wrong with an account; None if nothing is.

    has_password: None if it is not decided, because an account that exists is changed.
    """
    if kind == "person":
        if has_password is False:
            return AccountProblem(
                "password",
                "is missing: a person signs in with one",
                "Give a password, or make a service account: `kind: service`.",
            )
        return None
    if has_password:
        return AccountProblem(
            "password",
            "must be left out: a service account does not sign in",
            "Leave it out, and make a token for the account.",
        )
    if role == "admin":
        return AccountProblem(
            "role",
            "cannot be admin: a service account is a member or a viewer",
            "Use member or viewer. Maintainers of a project can also make it a maintainer there.",
        )
    return None


def comparison_key(name: str) -> str:
    """Return a name as it is compared with others, whatever its case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).lower())


def expires_soon(expires_at: dt.datetime | None, now: dt.datetime) -> bool:
    """Return whether a token that is valid now ends within EXPIRES_SOON."""
    return expires_at is not None and now < expires_at <= now + EXPIRES_SOON
