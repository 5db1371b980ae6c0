"""The loop that judges a diagnosis when the last of its probes has ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.services.insight import diagnoses
from muster_server.services.insight.diagnoses import Due

from .base import Loop


class DiagnosisLoop(Loop[list[Due], Due]):
    name = "diagnoses"
    occasion = diagnoses.ANY_RUNNING

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[Due]:
        return diagnoses.due(session)

    def decide(self, snapshot: list[Due], *, now: dt.datetime) -> Sequence[Due]:
        return snapshot

    def apply(self, session: Session, decision: Due, *, lease: Lease, now: dt.datetime) -> None:
        diagnoses.finish(session, decision, now=now)

    def describe(self, decision: Due) -> tuple[Hashable, str]:
        return f"diagnosis:{decision.diagnosis_id}", decision.reason
