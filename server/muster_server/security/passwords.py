"""Hashing and judging passwords."""

from __future__ import annotations

from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's minimum for Argon2id: 99 ms and 19 MiB on a small machine, where the library's default
# takes 493 ms and 64 MiB and makes a flood of sign-ins a way to exhaust memory.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

CONCURRENT_VERIFIES = 2
"""Number of passwords checked at the same time; others wait their turn outside the common thread
pool."""

_COMMON = frozenset(
    {
        "password1234", "password12345", "password123456", "123456789012", "1234567890123",
        "qwertyuiop12", "qwertyuiop123", "qwerty123456", "administrator", "administrator1",
        "adminadminadmin", "letmeinletmein", "changemechangeme", "muster123456", "iloveyou1234",
        "passwordpassword", "welcome12345", "000000000000", "111111111111", "abcdefghijkl",
        "abc123abc123", "trustno1trustno1", "correcthorsebatterystaple", "determined12",
    }
)  # fmt: skip


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def verify_password(password_hash: str | None, password: str) -> bool:
    """Return whether the password fits. Takes as long for None (no such user, no password) as for a
    hash."""
    try:
        matches = _HASHER.verify(password_hash or _dummy_hash(), password)
    except (VerificationError, InvalidHashError):
        return False
    return matches and password_hash is not None


def needs_rehash(password_hash: str) -> bool:
    """Return whether it was made with weaker parameters than today's."""
    return _HASHER.check_needs_rehash(password_hash)


def password_problem(password: str, *, username: str) -> str | None:
    """Return why a password is too easy to guess; None if it is not. Its length is checked by the
    schema."""
    lowered = password.lower()
    if lowered in _COMMON or len(set(lowered)) < 4:
        return "This password is on every attacker's list. Choose another one."
    if username.lower() in lowered and len(lowered) - len(username) < 8:
        return "A password must not be built around the user name."
    return None


@lru_cache(maxsize=1)
def _dummy_hash() -> str:
    return _HASHER.hash("nobody has this password")
