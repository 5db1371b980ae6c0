"""The lifecycle loop: leases, barriers, ends, restarts, stops."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import structlog
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.domain.lifecycle import LifecyclePolicy, LifecycleSnapshot, LifecycleStep, decide
from muster_server.domain.messages import english
from muster_server.services.lifecycle import apply_step, load_lifecycle_snapshot
from muster_server.settings import Settings

from .base import Loop
from .heartbeats import Sightings

log = structlog.get_logger(__name__)


def lifecycle_policy(settings: Settings) -> LifecyclePolicy:
    return LifecyclePolicy(
        heartbeat_s=settings.heartbeat_s,
        suspect_missed=settings.node_suspect_missed,
        node_lost_s=settings.node_lost_s,
        takeover_grace_s=settings.takeover_grace_s,
        server_away_s=settings.server_away_s,
        prepare_timeout_s=settings.prepare_timeout_s,
        start_timeout_s=settings.start_timeout_s,
        start_preflight_s=settings.start_preflight_s,
        wind_down_s=settings.wind_down_s,
    )


class LifecycleLoop(Loop[LifecycleSnapshot, LifecycleStep]):
    name = "lifecycle"

    def __init__(
        self, database: Database, policy: LifecyclePolicy, sightings: Sightings | None = None
    ) -> None:
        super().__init__(database)
        self.policy = policy
        self._sightings = sightings or Sightings()

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> LifecycleSnapshot:
        since = self._sightings.leading_since(lease.epoch, now)
        snapshot = load_lifecycle_snapshot(session, leader_since=since, now=now)
        return self._sightings.put_on_our_clock(
            snapshot, now, away_after_s=self.policy.away_after_s
        )

    def decide(self, snapshot: LifecycleSnapshot, *, now: dt.datetime) -> Sequence[LifecycleStep]:
        try:
            return decide(snapshot, now=now, policy=self.policy)
        except ValueError:
            # A state we believed impossible. It is for us to mend, not for everybody to wait.
            return [step for part in _parts(snapshot) for step in self._decide_part(part, now)]

    def _decide_part(self, part: LifecycleSnapshot, now: dt.datetime) -> list[LifecycleStep]:
        try:
            return decide(part, now=now, policy=self.policy)
        except ValueError:
            subjects = [f"trial:{t.id}" for t in part.trials]
            subjects += [f"experiment:{e.id}" for e in part.experiments]
            log.exception("undecidable", loop=self.name, subject=subjects)
            return []

    def apply(
        self, session: Session, decision: LifecycleStep, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_step(session, decision, now=now)

    def describe(self, decision: LifecycleStep) -> tuple[Hashable, str]:
        return decision.subject, "; ".join(
            dict.fromkeys(english(action.reason) for action in decision.actions)
        )


def _parts(snapshot: LifecycleSnapshot) -> Iterator[LifecycleSnapshot]:
    """Yield the parts of the snapshot that can be decided alone: nodes first, then each trial, and
    so on."""
    yield replace(snapshot, trials=(), experiments=())
    for trial in snapshot.trials:
        # Nodes were decided already; the same decision once more is refused when applied.
        yield replace(snapshot, lost=(), trials=(trial,), experiments=(), preflights=())
    for experiment in snapshot.experiments:
        yield LifecycleSnapshot(leader_since=snapshot.leader_since, experiments=(experiment,))
