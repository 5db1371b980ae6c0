"""The scheduler loop: place what fits, make room where it should, and note what the others wait
for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from muster_server import longlived
from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.db.models import TrialRow
from muster_server.domain.messages import Message
from muster_server.domain.scheduling import (
    Decided,
    Placement,
    Preempt,
    QueuedTrial,
    Resize,
    Scheduler,
    SchedulerPolicy,
    SchedulerSnapshot,
    Wait,
)
from muster_server.services.scheduling.placement import note_waits, place, preempt, resize
from muster_server.services.scheduling.snapshot import IDS_PER_QUERY, SnapshotLoader

from .base import Loop

NOTED_IN_FRONT = 800
NOTED_BEHIND = 200
"""Waiting trials per queue and pass whose reasons are worked out and stored where they changed: the
front each time, and so many of those behind in turn."""
ESTIMATE_TOLERANCE_S = 30.0
ESTIMATE_TOLERANCE = 0.1
"""An estimated start is written anew when it moved by more than this share of what is left, and by
more than ESTIMATE_TOLERANCE_S: it moves a little with every report of a running trial."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Reasons of all waiting trials, written in one transaction: they are for reading only."""

    waits: tuple[Wait, ...]


SETTLED_FROM = 10_000
"""Number of nodes and trials below which a collection takes no time worth saving."""
_NOTED = select(
    TrialRow.id, TrialRow.pending_reason, TrialRow.estimated_start_at, TrialRow.promised_since
).where(TrialRow.id.in_(bindparam("ids", expanding=True)))

Applied = Placement | Preempt | Resize | Waits
Noted = tuple[str, dt.datetime | None, bool]
"""(reason, estimated start, whether slots are promised) as stored."""


class SchedulerLoop(Loop[SchedulerSnapshot, Applied]):
    """Remembers what it has read and worked out, so that a pass costs what has changed; a new
    leader begins without and decides the same."""

    name = "scheduler"

    def __init__(
        self,
        database: Database,
        policy: SchedulerPolicy,
        supplies: Callable[[], Mapping[int, Message]] = dict,
    ) -> None:
        """Create the loop; `supplies` returns what providers do for trials, by trial."""
        super().__init__(database)
        self.policy = policy
        self._supplies = supplies
        self.waiting: tuple[QueuedTrial, ...] = ()
        """Trials that the last pass left waiting."""
        self._num_remembered = self._num_settled = 0
        self._forget()

    def settle(self) -> None:
        """Keep the garbage collector from looking through what is remembered, when that has doubled.
        Looking through a hundred thousand trials takes longer than a pass, and would happen in one."""
        if self._num_remembered > 2 * self._num_settled + SETTLED_FROM:
            self._num_settled = self._num_remembered
            longlived.settle()

    def _forget(self) -> None:
        self._loader = SnapshotLoader()
        self._scheduler = Scheduler()
        self._behind = NOTED_IN_FRONT
        """Position in the queues from which on trials behind are noted next."""

    def prepare(self, session: Session, *, now: dt.datetime) -> None:
        """Read what the first pass compares with what it finds."""
        self._loader.load(session, now=now)

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> SchedulerSnapshot:
        snapshot = self._loader.load(session, now=now)
        self._num_remembered = len(snapshot.nodes) + len(snapshot.queue) + len(snapshot.running)
        return replace(snapshot, supplies=self._supplies())

    def decide(self, snapshot: SchedulerSnapshot, *, now: dt.datetime) -> Sequence[Applied]:
        try:
            decided = self._scheduler.run(snapshot, now=now, policy=self.policy)
            waits = self._to_note(decided)
        except Exception:
            self._forget()  # half-way through
            raise
        changes: list[Applied] = [*decided.actions]
        placed = {action.trial_id for action in changes if isinstance(action, Placement)}
        self.waiting = tuple(trial for trial in snapshot.queue if trial.trial_id not in placed)
        noted = self._noted([wait.trial_id for wait in waits])
        news = tuple(wait for wait in waits if is_news(wait, noted, now=now))
        return [*changes, Waits(waits=news)] if news else changes

    def _to_note(self, decided: Decided) -> list[Wait]:
        """Return the trials whose reasons to update: the front of each queue, and in turn those
        behind."""
        waits = list(decided.waits(most=NOTED_IN_FRONT))
        behind = list(decided.waits(first=self._behind, most=NOTED_BEHIND))
        if not behind and self._behind > NOTED_IN_FRONT:
            self._behind = NOTED_IN_FRONT
            behind = list(decided.waits(first=self._behind, most=NOTED_BEHIND))
        self._behind += NOTED_BEHIND if behind else 0
        return waits + behind

    def _noted(self, trial_ids: Sequence[int]) -> dict[int, Noted]:
        """Return what is stored about them. Read after deciding, because only then are the trials
        known."""
        noted: dict[int, Noted] = {}
        with self.database.read() as session:
            for first in range(0, len(trial_ids), IDS_PER_QUERY):
                ids = trial_ids[first : first + IDS_PER_QUERY]
                rows = session.connection().execute(_NOTED, {"ids": ids})
                for row in rows:
                    noted[row.id] = (
                        row.pending_reason,
                        row.estimated_start_at,
                        row.promised_since is not None,
                    )
        return noted

    def apply(self, session: Session, decision: Applied, *, lease: Lease, now: dt.datetime) -> None:
        match decision:
            case Placement():
                place(session, decision, controller_epoch=lease.epoch, now=now)
            case Preempt():
                preempt(session, decision, now=now)
            case Resize():
                resize(session, decision, now=now)
            case Waits():
                note_waits(session, decision.waits, now=now)

    def describe(self, decision: Applied) -> tuple[Hashable, str]:
        if isinstance(decision, Waits):
            return "queue", decision.waits[0].reason.english
        return f"trial:{decision.trial_id}", decision.reason.english


def is_news(wait: Wait, noted: dict[int, Noted], *, now: dt.datetime) -> bool:
    """Return whether what is stored about a waiting trial has become wrong."""
    reason, estimate, is_promised = noted.get(wait.trial_id, ("", None, False))
    if (
        wait.reason.english != reason
        or wait.is_promised != is_promised
        or (wait.estimated_start_at is None) != (estimate is None)
    ):
        return True
    if estimate is None or wait.estimated_start_at is None:
        return False
    moved_s = abs((wait.estimated_start_at - estimate).total_seconds())
    left_s = max(0.0, (wait.estimated_start_at - now).total_seconds())
    return moved_s > max(ESTIMATE_TOLERANCE_S, ESTIMATE_TOLERANCE * left_s)
