"""What a restored database believes of the nodes was true when its backup was made, and is not now."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, NodeRow, TrialRow
from muster_server.domain.lifecycle import LifecyclePolicy, LifecycleSnapshot, LifecycleStep, decide
from muster_server.domain.states import AllocationState, NodeState

from . import apply_step, load_lifecycle_snapshot
from .loading import ACTIVE

log = structlog.get_logger(__name__)

EPOCH_LEAP = 1_000_000
"""More sessions than a node can have begun since any backup: none of them is taken for a new one."""


def settle(session: Session, *, policy: LifecyclePolicy, now: dt.datetime) -> int:
    """Count every node as LOST until its agent registers again; how many running trials that ends.

    Agents have moved on since the backup: they ended what it still shows as running, delivered
    what it does not hold, and deleted what they delivered. Nothing of that can be picked up, so
    what ran is lost as with its node, and goes on from its latest checkpoint in a new attempt.
    """
    running = select(func.count()).select_from(TrialRow).where(TrialRow.state.in_(ACTIVE))
    num_before = session.scalar(running) or 0
    lost_before = set(
        session.scalars(
            select(AllocationRow.id).where(AllocationRow.observed == AllocationState.LOST)
        )
    )
    heard_at = dict(session.execute(select(NodeRow.id, NodeRow.last_seen_at)).all())
    session.execute(
        update(NodeRow)
        .where(NodeRow.state != NodeState.REMOVED)
        .values(
            state=NodeState.LOST,
            session_epoch=NodeRow.session_epoch + EPOCH_LEAP,
            # The server that was backed up may have heard it until a moment ago, and a trial with
            # `on_disconnect: stop` may run for as long as that lets it.
            last_seen_at=now,
        )
    )
    snapshot = load_lifecycle_snapshot(session, leader_since=now, now=now)
    for step in _steps(replace(snapshot, experiments=(), lost=()), policy, now):
        apply_step(session, step, now=now)
    session.flush()
    # Nobody held slots between the backup and now, so nobody pays for them.
    for allocation in session.scalars(
        select(AllocationRow).where(AllocationRow.observed == AllocationState.LOST)
    ):
        if allocation.id not in lost_before:
            seen = heard_at.get(allocation.node_id, now)
            allocation.ended_at = max(allocation.created_at, seen)
    return num_before - (session.scalar(running) or 0)


def _steps(
    snapshot: LifecycleSnapshot, policy: LifecyclePolicy, now: dt.datetime
) -> list[LifecycleStep]:
    try:
        return list(decide(snapshot, now=now, policy=policy))
    except ValueError:
        # A trial in a state we believed impossible. The controller will stumble over it, too; all
        # the others are to be restored.
        if len(snapshot.trials) == 1:
            log.exception("undecidable", subject=f"trial:{snapshot.trials[0].id}")
            return []
        parts = (replace(snapshot, trials=(trial,)) for trial in snapshot.trials)
        return [step for part in parts for step in _steps(part, policy, now)]
