"""The cluster in numbers, for monitoring: cheap enough to be asked every few seconds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import and_, case, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from muster_server.db.engine import Database
from muster_server.db.leases import holds
from muster_server.db.models import ExperimentRow, NodeRow, NodeSlotRow, TrialRow
from muster_server.domain.states import ExperimentState, NodeState, TrialState

from ..core.liveness import CONTROLLER_LEASE, WORKER_LEASE

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
        slots=_slots(session),
        trials=trials,
        experiments=_by(session, ExperimentRow.state, ExperimentState),
        queue_length=num_queued or 0,
        oldest_wait_s=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
        is_led=led,
        controller_epoch=epoch,
        is_worker_alive=alive,
    )


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


def _slots(session: Session) -> dict[tuple[str, str, SlotUse], int]:
    is_usable = (
        (NodeRow.state == NodeState.ONLINE)
        & (NodeRow.scheduling == "open")
        & (NodeRow.health != "quarantined")
    )
    use = case(
        (NodeSlotRow.allocation_id.is_not(None), "used"),
        (is_usable, "free"),
        else_="unavailable",
    )
    rows = session.execute(
        select(NodeRow.pool, NodeSlotRow.slot_type, use, func.count())
        .join(NodeRow, NodeRow.id == NodeSlotRow.node_id)
        .where(NodeRow.state != NodeState.REMOVED)
        .group_by(NodeRow.pool, NodeSlotRow.slot_type, use)
    ).all()
    uses: tuple[SlotUse, ...] = ("used", "free", "unavailable")
    counts = {(pool, kind, u): 0 for pool, kind, _, _ in rows for u in uses}
    counts |= {(pool, kind, used): number for pool, kind, used, number in rows}
    return counts
