"""The loop of schedules: starts experiments at the times of their cron expressions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.experiments.schedules import DueSchedule, ScheduleTurn, decide
from muster_server.services.experiments.schedules import ANY_SCHEDULE, apply_turn, load_due

from .base import Loop


class ScheduleLoop(Loop[list[DueSchedule], ScheduleTurn]):
    name = "schedules"
    occasion = ANY_SCHEDULE

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[DueSchedule]:
        return load_due(session, now)

    def decide(self, snapshot: list[DueSchedule], *, now: dt.datetime) -> Sequence[ScheduleTurn]:
        return decide(snapshot, now=now)

    def apply(
        self, session: Session, decision: ScheduleTurn, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_turn(session, decision, now=now)

    def describe(self, decision: ScheduleTurn) -> tuple[Hashable, str]:
        return f"schedule:{decision.schedule_id}", decision.reason.english
