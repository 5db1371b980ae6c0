"""The maintenance loop: tells of windows that begin, and closes those whose time is over.

What starts and who gives up slots does not wait for it: that follows from the times of the windows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.nodes.maintenance import Window, WindowTurn, due_turns
from muster_server.services.core.maintenance import open_rows, window_of
from muster_server.services.nodes.maintenance import ANY_WINDOW, apply_turn

from .base import Loop


class MaintenanceLoop(Loop[list[tuple[Window, bool]], WindowTurn]):
    name = "maintenance"
    occasion = ANY_WINDOW

    def load(
        self, session: Session, *, lease: Lease, now: dt.datetime
    ) -> list[tuple[Window, bool]]:
        return [(window_of(row), row.announced) for row in open_rows(session)]

    def decide(
        self, snapshot: list[tuple[Window, bool]], *, now: dt.datetime
    ) -> Sequence[WindowTurn]:
        return due_turns(snapshot, now)

    def apply(
        self, session: Session, decision: WindowTurn, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_turn(session, decision, now=now)

    def describe(self, decision: WindowTurn) -> tuple[Hashable, str]:
        return f"maintenance:{decision.window_id}:{decision.event}", decision.reason
