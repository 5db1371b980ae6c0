"""The scheduler loop: place what fits, make room where it should, tell the others what they wait for."""

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
    Preempt,
    Resize,
    SchedulerPolicy,
    SchedulerSnapshot,
    Wait,
    schedule,
)
from muster_server.services.placement import note_waits, place, preempt, resize
from muster_server.services.scheduling import load_scheduler_snapshot

from .base import Loop

ESTIMATE_TOLERANCE_S = 30.0
ESTIMATE_TOLERANCE = 0.1
"""An estimated start is written anew when it moved by more than this share of what is left, and by
more than ESTIMATE_TOLERANCE_S: it moves a little with every report of a running trial."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """All that wait, noted in one transaction: their reasons are for reading only."""

    waits: tuple[Wait, ...]


Applied = Place | Preempt | Resize | Waits
Noted = tuple[str, dt.datetime | None, bool]
"""(reason, estimated start, whether slots are promised) as stored."""


class SchedulerLoop(Loop[SchedulerSnapshot, Applied]):
    name = "scheduler"

    def __init__(self, database: Database, policy: SchedulerPolicy) -> None:
        super().__init__(database)
        self.policy = policy
        self._noted: dict[int, Noted] = {}

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> SchedulerSnapshot:
        queued = session.execute(
            select(
                TrialRow.id,
                TrialRow.pending_reason,
                TrialRow.estimated_start_at,
                TrialRow.promised_since,
            ).where(TrialRow.state == "QUEUED")
        )
        self._noted = {
            row.id: (row.pending_reason, row.estimated_start_at, row.promised_since is not None)
            for row in queued
        }
        return load_scheduler_snapshot(session, now=now)

    def decide(self, snapshot: SchedulerSnapshot, *, now: dt.datetime) -> Sequence[Applied]:
        decisions = schedule(snapshot, now=now, policy=self.policy)
        changes: list[Applied] = [d for d in decisions if not isinstance(d, Wait)]
        news = tuple(
            d for d in decisions if isinstance(d, Wait) and is_news(d, self._noted, now=now)
        )
        return [*changes, Waits(waits=news)] if news else changes

    def apply(self, session: Session, decision: Applied, *, lease: Lease, now: dt.datetime) -> None:
        match decision:
            case Place():
                place(session, decision, controller_epoch=lease.epoch, now=now)
            case Preempt():
                preempt(session, decision, now=now)
            case Resize():
                resize(session, decision, now=now)
            case Waits():
                note_waits(session, decision.waits, now=now)

    def describe(self, decision: Applied) -> tuple[Hashable, str]:
        if isinstance(decision, Waits):
            return "queue", decision.waits[0].reason
        return f"trial:{decision.trial_id}", decision.reason


def is_news(wait: Wait, noted: dict[int, Noted], *, now: dt.datetime) -> bool:
    """Whether what is stored of a waiting trial has become wrong."""
    reason, estimate, is_promised = noted.get(wait.trial_id, ("", None, False))
    if (
        wait.reason != reason
        or wait.is_promised != is_promised
        or (wait.estimated_start_at is None) != (estimate is None)
    ):
        return True
    if estimate is None or wait.estimated_start_at is None:
        return False
    moved_s = abs((wait.estimated_start_at - estimate).total_seconds())
    left_s = max(0.0, (wait.estimated_start_at - now).total_seconds())
    return moved_s > max(ESTIMATE_TOLERANCE_S, ESTIMATE_TOLERANCE * left_s)
