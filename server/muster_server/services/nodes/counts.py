"""The cluster in numbers, for monitoring: cheap enough to be asked every few seconds."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import and_, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from muster_server.db.engine import Database
from muster_server.db.leases import holds
from muster_server.db.models import (
    EventRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.nodes.availability import is_blocked_by, why_unavailable
from muster_server.domain.nodes.maintenance import Schedule
from muster_server.domain.states import ExperimentState, NodeState, TrialState
from muster_server.schemas.cluster import FailuresOut, PoolSlotsOut

from ..core.liveness import CONTROLLER_LEASE, WORKER_LEASE
from ..core.periods import load_schedule

SCHEDULING = ("open", "cordoned", "draining")
HEALTH = ("ok", "degraded", "quarantined")
SlotUse = Literal["used", "free", "unavailable"]


@dataclass(frozen=True, kw_only=True)
class ClusterCounts:
    """Every state is there, with 0 where nothing is in it."""

    nodes: Mapping[str, int]
    """Number of nodes by state, without the removed ones."""
    nodes_scheduling: Mapping[str, int]
    nodes_health: Mapping[str, int]
    slots: Mapping[tuple[str, str, SlotUse], int]
    """(pool, slot type, use); every use of every pool and type that has slots."""
    trials: Mapping[str, int]
    experiments: Mapping[str, int]
    queue_length: int
    oldest_wait_s: float
    """0 for an empty queue."""
    is_led: bool
    controller_epoch: int
    """0: there was never a controller."""
    is_worker_alive: bool


# Those that are run outside wait for nothing of the cluster.
_IS_QUEUED = and_(TrialRow.state == TrialState.QUEUED, TrialRow.is_external.is_(False))


def count_cluster(session: Session, *, now: dt.datetime) -> ClusterCounts:
    oldest = session.scalar(select(func.min(TrialRow.waiting_since)).where(_IS_QUEUED))
    num_queued = session.scalar(select(func.count()).select_from(TrialRow).where(_IS_QUEUED))
    trials = _by(session, TrialRow.state, TrialState)
    led, epoch = holds(session, CONTROLLER_LEASE, now=now)
    alive, _ = holds(session, WORKER_LEASE, now=now)
    return ClusterCounts(
        nodes={
            k: n
            for k, n in _by(session, NodeRow.state, NodeState).items()
            if k != NodeState.REMOVED
        },
        nodes_scheduling=_by(session, NodeRow.scheduling, SCHEDULING, of_nodes=True),
        nodes_health=_by(session, NodeRow.health, HEALTH, of_nodes=True),
        slots=count_slots(session, load_schedule(session, now=now), now=None if led else now),
        trials=trials,
        experiments=_by(session, ExperimentRow.state, ExperimentState),
        queue_length=num_queued or 0,
        oldest_wait_s=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
        is_led=led,
        controller_epoch=epoch,
        is_worker_alive=alive,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingNow:
    """How fast the running trials are, by what was measured last."""

    samples_per_s: float | None
    """Sum of their last throughput/samples_per_s; None where none reports it."""
    num_trials_throughput: int
    comm_ratio: float | None
    """Exposed communication of the newest row of every worker, over the time of their steps."""
    num_trials_comm: int
    num_workers_comm: int


def training_now(session: Session) -> TrainingNow:
    """Return how fast the running trials are."""
    running = TrialRow.state == TrialState.RUNNING
    last = session.scalars(
        select(TrialRow.summary["throughput/samples_per_s"]["last"]).where(running)
    )
    rates = [rate for rate in last if _is_number(rate)]
    rows = session.execute(
        select(
            WorkerRow.trial_id,
            WorkerRow.latest["comm/exposed_ms"],
            WorkerRow.latest["time/step_ms"],
        )
        .join(
            TrialRow,
            and_(TrialRow.id == WorkerRow.trial_id, TrialRow.attempt_no == WorkerRow.attempt_no),
        )
        .where(running)
    )
    measured = [row for row in rows if _is_number(row[1]) and _is_number(row[2])]
    step_ms = math.fsum(step for _, _, step in measured)
    return TrainingNow(
        samples_per_s=math.fsum(rates) if rates else None,
        num_trials_throughput=len(rates),
        comm_ratio=math.fsum(exposed for _, exposed, _ in measured) / step_ms if step_ms else None,
        num_trials_comm=len({trial_id for trial_id, _, _ in measured}),
        num_workers_comm=len(measured),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


FAILED_WITHIN = dt.timedelta(hours=24)
FAILURES_SHOWN = 20


def recent_failures(session: Session, *, now: dt.datetime) -> tuple[list[FailuresOut], int]:
    """Return what failed within FAILED_WITHIN by reason, the latest FAILURES_SHOWN reasons first,
    and how many experiments failed in all."""
    recent = and_(
        ExperimentRow.state == ExperimentState.FAILED,
        ExperimentRow.ended_at > now - FAILED_WITHIN,
        ExperimentRow.archived_at.is_(None),
        ExperimentRow.deleting_at.is_(None),
    )
    last = func.max(ExperimentRow.ended_at)
    groups = session.execute(
        select(ExperimentRow.reason, func.count(), last, func.max(ExperimentRow.id))
        .where(recent)
        .group_by(ExperimentRow.reason)
        .order_by(last.desc())
    ).all()
    shown = groups[:FAILURES_SHOWN]
    named = select(ExperimentRow.id, ExperimentRow.name)
    names = dict(
        session.execute(named.where(ExperimentRow.id.in_([newest for *_, newest in shown]))).all()
    )
    failures = [
        FailuresOut(
            reason=reason,
            count=count,
            experiment_id=newest,
            experiment_name=names[newest],
            ended_at=ended_at,
        )
        for reason, count, ended_at, newest in shown
        if ended_at is not None
    ]
    return failures, sum(count for _, count, *_ in groups)


def size_bytes(database: Database, session: Session) -> int:
    """Return the size of the database in bytes: of its files for SQLite, as PostgreSQL reports it
    otherwise."""
    if not database.is_sqlite:
        return session.scalar(text("SELECT pg_database_size(current_database())")) or 0
    path = Path(database.url.database or "")
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _by(
    session: Session,
    column: InstrumentedAttribute[str],
    values: Iterable[str],
    *,
    of_nodes: bool = False,
) -> dict[str, int]:
    """Return the number of rows with each of the values. Other values, which a newer version may
    write, are left out."""
    query = select(column, func.count()).group_by(column)
    if of_nodes:
        query = query.where(NodeRow.state != NodeState.REMOVED)
    found = dict(session.execute(query).all())
    return {str(value): found.get(str(value), 0) for value in values}


def count_slots(
    session: Session,
    schedule: Schedule,
    *,
    now: dt.datetime | None,
    closed: Collection[str] = (),
) -> Counter[tuple[str, str, SlotUse]]:
    """Return the number of slots by (pool, slot type, use); every use of every pool and type that
    has slots. `now` and `closed`: see `unavailable_because`."""
    nodes = {
        node.id: (node.pool, unavailable_because(node, schedule, now=now, closed=closed))
        for node in session.execute(
            select(
                NodeRow.id,
                NodeRow.name,
                NodeRow.pool,
                NodeRow.state,
                NodeRow.lease_expires_at,
                NodeRow.scheduling,
                NodeRow.health,
                NodeRow.problems,
            ).where(NodeRow.state != NodeState.REMOVED)
        )
    }
    counts: Counter[tuple[str, str, SlotUse]] = Counter()
    is_held_back = and_(NodeSlotRow.allocation_id.is_(None), NodeSlotRow.problem != "")
    for node_id, kind, num, num_used, num_held_back in session.execute(
        select(
            NodeSlotRow.node_id,
            NodeSlotRow.slot_type,
            func.count(),
            func.count(NodeSlotRow.allocation_id),
            func.count().filter(is_held_back),
        ).group_by(NodeSlotRow.node_id, NodeSlotRow.slot_type)
    ):
        if node_id not in nodes:
            continue
        pool, why = nodes[node_id]
        counts[pool, kind, "used"] += num_used
        num_free = num - num_used - num_held_back if why is None else 0
        counts[pool, kind, "free"] += num_free
        counts[pool, kind, "unavailable"] += num - num_used - num_free
    return counts


def joined_at(session: Session, node_ids: Collection[str] | None = None) -> dict[str, dt.datetime]:
    """Return when each of these nodes, or of all, joined the cluster. Its latest registration may be much later:
    an agent registers again with every start, its own or the server's."""
    first = (
        select(EventRow.at)
        .where(EventRow.node_id == NodeRow.id)
        .order_by(EventRow.id)
        .limit(1)
        .scalar_subquery()
    )
    query = select(NodeRow.id, first, NodeRow.registered_at)
    rows = session.execute(query if node_ids is None else query.where(NodeRow.id.in_(node_ids)))
    return {
        node_id: registered if event is None else min(event, registered)
        for node_id, event, registered in rows
    }


def count_pools(
    session: Session, uses: Mapping[tuple[str, str, SlotUse], int]
) -> list[PoolSlotsOut]:
    """Return the slots of each pool and type on ONLINE nodes, how many are in use, and how many are free as
    `count_slots` has it; pools whose nodes are all away have none."""
    is_online = NodeRow.state == NodeState.ONLINE
    rows = session.execute(
        select(
            NodeRow.pool,
            NodeSlotRow.slot_type,
            func.count().filter(is_online),
            func.count(NodeSlotRow.allocation_id).filter(is_online),
        )
        .join(NodeRow, NodeRow.id == NodeSlotRow.node_id)
        .group_by(NodeRow.pool, NodeSlotRow.slot_type)
        .order_by(NodeRow.pool, NodeSlotRow.slot_type)
    )
    return [
        PoolSlotsOut(
            pool=pool,
            slot_type=kind,
            num_slots=num,
            num_slots_used=num_used,
            num_slots_free=uses.get((pool, kind, "free"), 0),
        )
        for pool, kind, num, num_used in rows
    ]


def state_at(node: Any, now: dt.datetime | None) -> NodeState:
    """Return the state to show for a node, from its row: the controller's.

    now: judge the node by its lease, because no controller does; None while a controller leads.
    """
    if now is None or node.state != NodeState.ONLINE or node.lease_expires_at >= now:
        return NodeState(node.state)
    return NodeState.SUSPECT


def unavailable_because(
    node: Any, schedule: Schedule, *, now: dt.datetime | None, closed: Collection[str] = ()
) -> str | None:
    """Return why nothing is placed on a node now, from its row and the maintenance windows; None when
    it takes work.

    now: see `state_at`. closed: names of the nodes that are reserved for others than who asks.
    """
    return why_unavailable(
        state=state_at(node, now),
        scheduling=node.scheduling,
        health=node.health,
        is_blocked=is_blocked_by(node.problems),
        in_maintenance=schedule.of_node(node=node.name, pool=node.pool).active is not None,
        is_reserved=node.name in closed,
    )
