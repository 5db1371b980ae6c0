"""The loop that detects trials that do not move, reports them and keeps the stacks of their ranks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.services.core.writes import Outdated
from muster_server.services.runtime import progress
from muster_server.services.runtime.progress import StuckAttempt

from .base import Loop

EVERY = dt.timedelta(seconds=15)


class StuckLoop(Loop[list[StuckAttempt], StuckAttempt]):
    name = "stuck"

    def __init__(
        self,
        database: Database,
        *,
        after_s: float,
        silence_ended_at: Callable[[dt.datetime], dt.datetime | None] = lambda now: None,
    ) -> None:
        """Create the loop; `silence_ended_at` returns when the control plane began to hear again,
        None if it always could."""
        super().__init__(database)
        self._after_s = after_s
        self._silence_ended_at = silence_ended_at
        self._since: dt.datetime | None = None
        self._next_at: dt.datetime | None = None

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[StuckAttempt]:
        if self._next_at is not None and now < self._next_at:
            return []
        self._next_at = now + EVERY
        self._since = self._since or now
        self._since = max(self._since, self._silence_ended_at(now) or self._since)
        if (now - self._since).total_seconds() < self._after_s:
            return []  # while nobody led, or heard, those who moved could not say so
        return progress.find_stuck(session, after_s=self._after_s, now=now)

    def decide(self, snapshot: list[StuckAttempt], *, now: dt.datetime) -> Sequence[StuckAttempt]:
        return snapshot

    def apply(
        self, session: Session, decision: StuckAttempt, *, lease: Lease, now: dt.datetime
    ) -> None:
        if not progress.note_stuck(session, decision, now=now):
            raise Outdated(f"trial {decision.trial_id} was said to be stuck before")

    def describe(self, decision: StuckAttempt) -> tuple[Hashable, str]:
        return f"trial:{decision.trial_id}", decision.decided.reason
