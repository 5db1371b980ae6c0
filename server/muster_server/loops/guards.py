"""The loop that judges the guards of trials and carries out what they decide."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.domain.guards.deciding import GuardDecision, TrialGuards, decide
from muster_server.services.runtime import guards

from .base import Loop


class GuardLoop(Loop[list[TrialGuards], GuardDecision]):
    """It runs before the lifecycle loop: a script that fails right after a value that a guard acts on is
    then already asked to leave, and that decides how its trial goes on."""

    name = "guards"
    occasion = guards.ANY_GUARDED

    def __init__(
        self,
        database: Database,
        *,
        silence_ended_at: Callable[[dt.datetime], dt.datetime | None] = lambda now: None,
    ) -> None:
        """Create the loop; `silence_ended_at` returns when the control plane began to hear again,
        None if it always could."""
        super().__init__(database)
        self._silence_ended_at = silence_ended_at
        self._since: dt.datetime | None = None
        self._after = 0

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[TrialGuards]:
        begin_snapshot(session)
        self._since = self._since or now
        self._since = max(self._since, self._silence_ended_at(now) or self._since)
        found = guards.load_new(session, after=self._after, listening_since=self._since, now=now)
        self._after = found[-1].trial_id if len(found) >= guards.TRIALS_PER_PASS else 0
        return found

    def decide(self, snapshot: list[TrialGuards], *, now: dt.datetime) -> Sequence[GuardDecision]:
        return [decision for trial in snapshot if (decision := decide(trial)) is not None]

    def apply(
        self, session: Session, decision: GuardDecision, *, lease: Lease, now: dt.datetime
    ) -> None:
        guards.carry_out(session, decision, now=now)

    def describe(self, decision: GuardDecision) -> tuple[Hashable, str]:
        return f"trial:{decision.of.trial_id}", decision.reason
