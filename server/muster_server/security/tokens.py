"""The secrets people, agents and browsers present, and how they are kept.

Every secret is 256 random bits behind a prefix that names its kind, so that secret scanners find
a leaked one. Only the SHA-256 is stored: with 256 bits of entropy there is nothing to guess, so a
slow hash would cost time and buy nothing, and a lookup by hash leaks no timing about the secret.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Literal, get_args

Kind = Literal["usr", "agt", "join", "once"]
"""Kind of a secret. `usr`: API token. `agt`: credential of an agent. `join`: lets an agent join.
`once`: works once."""

_KINDS: tuple[Kind, ...] = get_args(Kind)
_MAX_LENGTH = 256
_VISIBLE = 6


def mint(kind: Kind) -> str:
    """Return a new secret: mst_<kind>_<43 characters>."""
    return f"mst_{kind}_{secrets.token_urlsafe(32)}"


def mint_session_secret() -> str:
    """Return a new value for the session cookie."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """Return the SHA-256 in hex, which the database stores and is asked for."""
    return hashlib.sha256(secret.encode()).hexdigest()


def kind_of(secret: str) -> Kind | None:
    """Return the kind a secret claims to be; None if it has no known form."""
    if len(secret) > _MAX_LENGTH or not secret.isascii():
        return None
    return next((kind for kind in _KINDS if secret.startswith(f"mst_{kind}_")), None)


def visible_prefix(secret: str) -> str:
    """Return the prefix that may be shown again later, so that people can distinguish their tokens."""
    kind = kind_of(secret)
    return secret[: len(f"mst_{kind}_") + _VISIBLE]
