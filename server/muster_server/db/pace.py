"""The size of background transactions, limited so that they hold SQLite's write lock briefly.

Whatever is written in the background is bounded by a number of rows; that number follows from how
long the last transaction held the lock, as a row costs more on a slow or busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from .engine import Database

LOCK_TARGET_S = 0.075
"""Target duration of a background transaction in seconds; a quarter of the most it may take."""


class Pace:
    """The size of the next transaction, between `least` and `most`, in whatever the caller counts."""

    def __init__(self, most: int, *, first: int, least: int) -> None:
        self.most = most
        self.least = least
        """Below it a transaction takes no less time: beginning and committing it is all it does."""
        self.size = first

    def took(self, seconds: float) -> None:
        """Adapt to how long a transaction of this size held the lock; by a factor of 2 at most, as
        one may have been slow for reasons of its own."""
        factor = min(2.0, max(0.5, LOCK_TARGET_S / max(seconds, 1e-6)))
        self.size = max(self.least, min(self.most, int(self.size * factor)))


BREATH_S = 0.11
"""Longest pause after a transaction. SQLite's queue is no queue: who finds the lock taken looks again
after up to 0.1 s, and would not get it from somebody who takes it again at once."""


@contextmanager
def paced(database: Database, pace: Pace) -> Iterator[Session]:
    """Run a write transaction and tell `pace` how long it held the lock, waiting for it left out.
    On SQLite, pause as long afterwards for those who wait."""
    with database.transaction() as session:
        session.connection()  # begins it: the lock is taken here
        began = time.monotonic()
        yield session
    held_s = time.monotonic() - began
    pace.took(held_s)
    if database.is_sqlite:
        time.sleep(min(held_s, BREATH_S))
