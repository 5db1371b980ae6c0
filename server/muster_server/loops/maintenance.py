"""The loops that tell of maintenance windows and reservations that begin, and close those whose time is
over.

What starts and who gives up slots does not wait for them: that follows from the times alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.nodes.maintenance import Window
from muster_server.domain.nodes.periods import PeriodTurn, due_turns
from muster_server.domain.nodes.reservations import NodeReservation
from muster_server.services.core.periods import open_reservations, open_windows, window_of
from muster_server.services.nodes import reservations
from muster_server.services.nodes.maintenance import ANY_WINDOW, apply_turn

from .base import Loop


class MaintenanceLoop(Loop[list[tuple[Window, bool]], PeriodTurn]):
    name = "maintenance"
    occasion = ANY_WINDOW

    def load(
        self, session: Session, *, lease: Lease, now: dt.datetime
    ) -> list[tuple[Window, bool]]:
        return [(window_of(row), row.announced) for row in open_windows(session)]

    def decide(
        self, snapshot: list[tuple[Window, bool]], *, now: dt.datetime
    ) -> Sequence[PeriodTurn]:
        return due_turns(snapshot, now)

    def apply(
        self, session: Session, decision: PeriodTurn, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_turn(session, decision, now=now)

    def describe(self, decision: PeriodTurn) -> tuple[Hashable, str]:
        return f"maintenance:{decision.period_id}:{decision.event}", decision.reason


class ReservationLoop(Loop[list[tuple[NodeReservation, bool]], PeriodTurn]):
    name = "reservations"
    occasion = reservations.ANY_RESERVATION

    def load(
        self, session: Session, *, lease: Lease, now: dt.datetime
    ) -> list[tuple[NodeReservation, bool]]:
        return [(one, row.announced) for row, one in open_reservations(session)]

    def decide(
        self, snapshot: list[tuple[NodeReservation, bool]], *, now: dt.datetime
    ) -> Sequence[PeriodTurn]:
        return due_turns(snapshot, now)

    def apply(
        self, session: Session, decision: PeriodTurn, *, lease: Lease, now: dt.datetime
    ) -> None:
        reservations.apply_turn(session, decision, now=now)

    def describe(self, decision: PeriodTurn) -> tuple[Hashable, str]:
        return f"reservation:{decision.period_id}:{decision.event}", decision.reason
