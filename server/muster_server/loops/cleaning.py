"""The loop that deletes checkpoints which the policies of their experiments do not keep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.services.checkpoints import cleaning
from muster_server.services.checkpoints.cleaning import Change, Cleaning

from .base import Loop

EVERY = dt.timedelta(seconds=15)
ALL_EVERY = dt.timedelta(minutes=10)
"""How often also experiments without a new checkpoint are looked at: forks may have let go."""


class CleaningLoop(Loop[list[Cleaning], Cleaning]):
    name = "cleaning"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._seen: dict[int, Change] = {}
        self._next_at: dt.datetime | None = None
        self._all_at: dt.datetime | None = None

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[Cleaning]:
        if self._next_at is not None and now < self._next_at:
            return []
        self._next_at = now + EVERY
        if self._all_at is None or now >= self._all_at:
            self._seen.clear()
            self._all_at = now + ALL_EVERY
        return cleaning.due(session, self._seen)

    def decide(self, snapshot: list[Cleaning], *, now: dt.datetime) -> Sequence[Cleaning]:
        return snapshot

    def apply(
        self, session: Session, decision: Cleaning, *, lease: Lease, now: dt.datetime
    ) -> None:
        cleaning.clean(session, decision, by="the experiment's policy", now=now)

    def describe(self, decision: Cleaning) -> tuple[Hashable, str]:
        return f"experiment:{decision.experiment_id}", decision.reason
