"""The loop that deletes checkpoints and outputs which the policies of their experiments do not keep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.services.checkpoints import cleaning
from muster_server.services.checkpoints.cleaning import Change, Cleaning
from muster_server.services.outputs import retention
from muster_server.services.outputs.retention import OutputsCleaning

from .base import Loop

EVERY = dt.timedelta(seconds=15)
ALL_EVERY = dt.timedelta(minutes=10)
"""How often also experiments without a new checkpoint are looked at: forks may have let go. And how often
outputs are looked at, which grow old without a change."""
POLICY = "the experiment's policy"
"""Who requests what this loop deletes, in events and in the list of deletions."""


class CleaningLoop(Loop[list[Cleaning | OutputsCleaning], Cleaning | OutputsCleaning]):
    name = "cleaning"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._seen: dict[int, Change] = {}
        self._next_at: dt.datetime | None = None
        self._all_at: dt.datetime | None = None
        self._outputs_at: dt.datetime | None = None
        self._outputs_after_id = 0
        self._has_found_outputs = False

    def load(
        self, session: Session, *, lease: Lease, now: dt.datetime
    ) -> list[Cleaning | OutputsCleaning]:
        if self._next_at is not None and now < self._next_at:
            return []
        self._next_at = now + EVERY
        if self._all_at is None or now >= self._all_at:
            self._seen.clear()
            self._all_at = now + ALL_EVERY
        return [*cleaning.due(session, self._seen), *self._due_outputs(session, now)]

    def _due_outputs(self, session: Session, now: dt.datetime) -> Sequence[OutputsCleaning]:
        """Return what is due of outputs. After a round over all experiments that has found something the
        next one follows soon: a pass is bounded, and may have left some."""
        if self._outputs_at is not None and now < self._outputs_at:
            return ()
        found, self._outputs_after_id = retention.due(
            session, after_id=self._outputs_after_id, now=now
        )
        self._has_found_outputs = self._has_found_outputs or bool(found)
        is_soon = self._has_found_outputs or self._outputs_after_id > 0
        self._outputs_at = now + (EVERY if is_soon else ALL_EVERY)
        if not self._outputs_after_id:
            self._has_found_outputs = False
        return found

    def decide(
        self, snapshot: list[Cleaning | OutputsCleaning], *, now: dt.datetime
    ) -> Sequence[Cleaning | OutputsCleaning]:
        return snapshot

    def apply(
        self,
        session: Session,
        decision: Cleaning | OutputsCleaning,
        *,
        lease: Lease,
        now: dt.datetime,
    ) -> None:
        if isinstance(decision, OutputsCleaning):
            retention.clean(session, decision, by=POLICY, now=now)
        else:
            cleaning.clean(session, decision, by=POLICY, now=now)

    def describe(self, decision: Cleaning | OutputsCleaning) -> tuple[Hashable, str]:
        of = "outputs of experiment" if isinstance(decision, OutputsCleaning) else "experiment"
        return f"{of}:{decision.experiment_id}", decision.reason
