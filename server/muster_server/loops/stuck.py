"""The loop that detects trials that do not move, say nothing or waste their slots."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.domain.runtime.waste import WasteDecision
from muster_server.domain.runtime.waste import decide as decide_waste
from muster_server.services.core.writes import Outdated
from muster_server.services.runtime import progress, quiet, waste
from muster_server.services.runtime.progress import StuckAttempt
from muster_server.services.runtime.quiet import QuietChange

from .base import Loop

EVERY = dt.timedelta(seconds=15)


Decision = StuckAttempt | QuietChange | WasteDecision


class StuckLoop(Loop[list[Decision], Decision]):
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

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[Decision]:
        if self._next_at is not None and now < self._next_at:
            return []
        self._next_at = now + EVERY
        self._since = self._since or now
        self._since = max(self._since, self._silence_ended_at(now) or self._since)
        facts = waste.load_facts(session, listening_since=self._since, now=now)
        wasting = [found for one in facts if (found := decide_waste(one, now=now)) is not None]
        if (now - self._since).total_seconds() < self._after_s:
            return [*wasting]  # while nobody led, or heard, those who moved could not say so
        stuck = progress.find_stuck(session, after_s=self._after_s, now=now)
        return [*wasting, *quiet.find_changes(session, now=now), *stuck]

    def decide(self, snapshot: list[Decision], *, now: dt.datetime) -> Sequence[Decision]:
        return snapshot

    def apply(
        self, session: Session, decision: Decision, *, lease: Lease, now: dt.datetime
    ) -> None:
        if isinstance(decision, WasteDecision):
            waste.carry_out(session, decision, now=now)
        elif isinstance(decision, QuietChange):
            if not quiet.note(session, decision, now=now):
                raise Outdated(f"trial {decision.trial_id} was seen to be quiet before")
        elif not progress.note_stuck(session, decision, now=now):
            raise Outdated(f"trial {decision.trial_id} was said to be stuck before")

    def describe(self, decision: Decision) -> tuple[Hashable, str]:
        if isinstance(decision, WasteDecision):
            return f"trial:{decision.of.trial_id}", decision.text.english
        if isinstance(decision, QuietChange):
            return f"trial:{decision.trial_id}", "quiet" if decision.is_quiet else "not quiet"
        return f"trial:{decision.trial_id}", decision.decided.reason
