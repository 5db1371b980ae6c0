"""The scheduler's decisions on what is true now, for people who ask before they are carried out."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from muster_server.db.engine import Database
from muster_server.domain.scheduling import (
    Decided,
    Scheduler,
    SchedulerPolicy,
    SchedulerSnapshot,
)

from .snapshot import SnapshotLoader


class Foreseen(NamedTuple):
    snapshot: SchedulerSnapshot
    decided: Decided


class Foresight:
    """One per process. Thread-safe: one request reads it at a time.

    It remembers as the controller does, so a question costs what has changed since the last one.
    Requests that came while it was reading share what it then reads: nobody is told anything
    older than his question.
    """

    def __init__(
        self,
        database: Database,
        policy: SchedulerPolicy,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a preview with no cached snapshot.

        monotonic: a clock in seconds that nobody can set back.
        """
        self._database = database
        self._policy = policy
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._loader = SnapshotLoader()
        self._scheduler = Scheduler()
        self._last: Foreseen | None = None
        self._read_at = 0.0

    @contextmanager
    def ask(self, now: dt.datetime) -> Iterator[Foreseen]:
        """Yield what the controller would decide now. The result is valid only within the block."""
        asked_at = self._monotonic()
        with self._lock:
            if self._last is None or self._read_at < asked_at:
                self._read_at = self._monotonic()
                with self._database.read() as session:
                    snapshot = self._loader.load(session, now=now)
                self._last = Foreseen(snapshot, self._run(snapshot, now))
            yield self._last

    def ask_about(self, snapshot: SchedulerSnapshot, now: dt.datetime) -> Decided:
        """Return what would be decided on another snapshot, within a block of `ask`. This
        invalidates the result of that block."""
        self._last = None
        return self._run(snapshot, now)

    def _run(self, snapshot: SchedulerSnapshot, now: dt.datetime) -> Decided:
        try:
            return self._scheduler.run(snapshot, now=now, policy=self._policy)
        except Exception:
            self._forget()  # half-way through
            raise
