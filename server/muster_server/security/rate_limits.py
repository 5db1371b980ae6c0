"""Limits on attempts to use secrets. Kept in memory: per API process, gone with it."""

from __future__ import annotations

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from muster_server.errors import TooManyRequests

PER_ACCOUNT_AND_ADDRESS = 5
PER_ACCOUNT = 30
"""Attempts from all addresses together: high enough that a stranger cannot lock somebody out
cheaply."""


class SignInLimits:
    """Counts attempts per minute: by address, by account, and by both.

    Threads: may be shared.
    """

    def __init__(self, *, attempts_per_address: int) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._by_address = RateLimitItemPerMinute(attempts_per_address)
        self._by_account = RateLimitItemPerMinute(PER_ACCOUNT)
        self._by_both = RateLimitItemPerMinute(PER_ACCOUNT_AND_ADDRESS)

    def count(self, address: str, account: str | None = None) -> None:
        """Count one attempt before the secret is looked at. Raises TooManyRequests."""
        self._hit(self._by_address, "address", address)
        if account is not None:
            account = account.lower()
            self._hit(self._by_both, "both", account, address)
            self._hit(self._by_account, "account", account)

    def forgive(self, address: str, account: str) -> None:
        """Forget failed attempts from the same place after a right password."""
        self._limiter.clear(self._by_both, "both", account.lower(), address)

    def _hit(self, item: RateLimitItemPerMinute, *key: str) -> None:
        if self._limiter.hit(item, *key):
            return
        reset_at = self._limiter.get_window_stats(item, *key).reset_time
        raise TooManyRequests(
            "auth.too_many_attempts",
            "Too many attempts. Wait a moment before the next one.",
            retry_after_s=max(1, math.ceil(reset_at - time.time())),
        )
