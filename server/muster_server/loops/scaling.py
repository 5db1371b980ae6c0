"""The loop that takes scaling reports from one run to the next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.insight.scaling import Action
from muster_server.services.insight import scaling

from .base import Loop


class ScalingLoop(Loop[list[Action], Action]):
    name = "scaling"
    occasion = scaling.ANY_RUNNING

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[Action]:
        return scaling.find_actions(session, now=now)

    def decide(self, snapshot: list[Action], *, now: dt.datetime) -> Sequence[Action]:
        return snapshot

    def apply(self, session: Session, decision: Action, *, lease: Lease, now: dt.datetime) -> None:
        scaling.carry_out(session, decision, now=now)

    def describe(self, decision: Action) -> tuple[Hashable, str]:
        return f"scaling_report:{decision.report_id}", decision.reason
