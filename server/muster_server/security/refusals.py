"""Which of many refused secrets and calls are worth a line in the audit log. Counted in memory, per process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_S = 3600.0
"""Seconds after which counting starts anew."""
EACH = 5
"""Refusals of one kind in a window of which each is told; after them the 10th, 100th, 1000th, …"""
KINDS_MAX = 100
"""Kinds (action, subject, address, actor) in a window that are told apart; the others are counted together."""
OTHERS = "(others)"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A refusal to record."""

    action: str
    subject: str
    address: str
    actor: str
    times: int
    """Refusals of this kind in this window, this one included."""


class RefusalCounts:
    """Counts refusals, and picks those to record: a flood adds a few hundred lines an hour at most.

    Threads: may be shared.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._since = monotonic()

    def count(
        self, action: str, subject: str, address: str, actor: str = "anonymous"
    ) -> Refusal | None:
        """Count one refusal. Return what to record, None for nothing."""
        with self._lock:
            if self._monotonic() - self._since >= WINDOW_S:
                self._counts.clear()
                self._since = self._monotonic()
            kind = (action, subject, address, actor)
            if kind not in self._counts and len(self._counts) >= KINDS_MAX:
                kind = (action, OTHERS, "", "anonymous")
            self._counts[kind] += 1
            times = self._counts[kind]
        if times > EACH and times != 10 ** (len(str(times)) - 1):
            return None
        action, subject, address, actor = kind
        return Refusal(action=action, subject=subject, address=address, actor=actor, times=times)
