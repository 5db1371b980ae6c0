"""The scheduler loop: place what fits, and tell the others what they wait for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.db.models import TrialRow
from muster_server.domain.scheduler import (
    Place,
    SchedulerPolicy,
    SchedulerSnapshot,
    Wait,
    schedule,
)
from muster_server.services.placement import note_waits, place
from muster_server.services.queue import load_scheduler_snapshot

from .base import Loop


@dataclass(frozen=True, kw_only=True)
class Waits:
    """All that wait, noted in one transaction: their reasons are for reading only."""

    waits: tuple[Wait, ...]


class SchedulerLoop(Loop[SchedulerSnapshot, Place | Waits]):
    name = "scheduler"

    def __init__(self, database: Database, policy: SchedulerPolicy) -> None:
        super().__init__(database)
        self.policy = policy
        self._reasons: dict[int, str] = {}

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> SchedulerSnapshot:
        queued = session.execute(
            select(TrialRow.id, TrialRow.pending_reason).where(TrialRow.state == "QUEUED")
        )
        self._reasons = dict(queued.all())
        return load_scheduler_snapshot(session)

    def decide(self, snapshot: SchedulerSnapshot, *, now: dt.datetime) -> Sequence[Place | Waits]:
        decisions = schedule(snapshot, now=now, policy=self.policy)
        places = [d for d in decisions if isinstance(d, Place)]
        news = tuple(
            d
            for d in decisions
            if isinstance(d, Wait) and self._reasons.get(d.trial_id) != d.reason
        )
        return [*places, Waits(waits=news)] if news else places

    def apply(
        self, session: Session, decision: Place | Waits, *, lease: Lease, now: dt.datetime
    ) -> None:
        if isinstance(decision, Place):
            place(session, decision, controller_epoch=lease.epoch, now=now)
        else:
            note_waits(session, decision.waits)

    def describe(self, decision: Place | Waits) -> tuple[Hashable, str]:
        if isinstance(decision, Place):
            return f"trial:{decision.trial_id}", decision.reason
        return "queue", decision.waits[0].reason
