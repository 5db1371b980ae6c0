"""Nodes as people see and steer them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from muster import __version__
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    EventRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.lifecycle import moment
from muster_server.domain.messages import AnyMessage, Message, from_columns
from muster_server.domain.nodes.maintenance import Schedule
from muster_server.domain.states import (
    NODE_TRANSITIONS,
    AllocationState,
    ExperimentState,
    NodeState,
    TrialState,
    is_legal,
)
from muster_server.errors import Conflict, NotFound
from muster_server.schemas.base import Page, parts_out
from muster_server.schemas.cluster import (
    ClusterOut,
    EventOut,
    NodeAllocationOut,
    NodeOut,
    RunningWarningOut,
    SlotOut,
)
from muster_server.security.principal import Principal

from ..core import audit, liveness
from ..core.event_views import list_events
from ..core.events import add_event
from ..core.paging import read_page
from ..core.periods import closed_to, load_schedule
from ..runtime.progress import list_stuck
from ..scheduling.unsatisfiable import find_impossible
from . import health
from .counts import (
    count_pools,
    count_slots,
    joined_at,
    recent_failures,
    state_at,
    training_now,
    unavailable_because,
)
from .leaving import remove_row

REMOVABLE_AFTER = dt.timedelta(seconds=60)
"""Silence beyond its lease after which a node can be removed. The only node of a cluster never
becomes LOST."""


def get_cluster(
    session: Session,
    principal: Principal,
    *,
    warnings: tuple[list[RunningWarningOut], int],
    now: dt.datetime,
) -> ClusterOut:
    """Return the cluster in a handful of numbers.

    warnings: as `services.experiments.views.running_warnings` returns them.
    """
    nodes = dict(session.execute(select(NodeRow.state, func.count()).group_by(NodeRow.state)).all())
    is_led = liveness.is_led(session, now=now)
    if not is_led:
        is_silent = (NodeRow.state == NodeState.ONLINE) & (NodeRow.lease_expires_at < now)
        num_silent = session.scalar(select(func.count()).select_from(NodeRow).where(is_silent)) or 0
        nodes[NodeState.ONLINE] = nodes.get(NodeState.ONLINE, 0) - num_silent
        nodes[NodeState.SUSPECT] = nodes.get(NodeState.SUSPECT, 0) + num_silent
    uses = count_slots(
        session,
        load_schedule(session, now=now),
        now=None if is_led else now,
        closed=closed_to(session, principal, now=now),
    )
    pools = count_pools(session, uses)
    trials = dict(
        session.execute(
            select(TrialRow.state, func.count())
            .where(
                TrialRow.state.in_(
                    (
                        TrialState.QUEUED,
                        TrialState.STARTING,
                        TrialState.RUNNING,
                        TrialState.STOPPING,
                    )
                ),
                TrialRow.is_external.is_(False),
            )
            .group_by(TrialRow.state)
        ).all()
    )
    training = training_now(session)
    impossible, num_impossible = find_impossible(session)
    failures, num_failures = recent_failures(session, now=now)
    stuck, num_stuck = list_stuck(session)
    return ClusterOut(
        failures=failures,
        num_failures=num_failures,
        impossible=impossible,
        num_impossible=num_impossible,
        stuck=stuck,
        num_stuck=num_stuck,
        warnings=warnings[0],
        num_warnings=warnings[1],
        num_nodes=sum(nodes.values()),
        num_nodes_online=nodes.get(NodeState.ONLINE, 0),
        pools=pools,
        num_slots=sum(pool.num_slots for pool in pools),
        num_slots_used=sum(pool.num_slots_used for pool in pools),
        num_slots_free=sum(num for (*_, use), num in uses.items() if use == "free"),
        num_experiments_running=session.scalar(
            select(func.count())
            .select_from(ExperimentRow)
            .where(ExperimentRow.state == ExperimentState.RUNNING)
        )
        or 0,
        num_trials_running=sum(n for s, n in trials.items() if s != TrialState.QUEUED),
        num_trials_queued=trials.get(TrialState.QUEUED, 0),
        oldest_queued_at=session.scalar(
            select(TrialRow.queued_at)
            .where(TrialRow.state == TrialState.QUEUED, TrialRow.is_external.is_(False))
            .order_by(TrialRow.queued_at)
            .limit(1)
        ),
        samples_per_s=training.samples_per_s,
        num_trials_throughput=training.num_trials_throughput,
        comm_overhead_ratio=training.comm_ratio,
        num_trials_comm=training.num_trials_comm,
        num_workers_comm=training.num_workers_comm,
        server_version=__version__,
        now=now,
    )


def list_nodes(
    session: Session, principal: Principal, *, cursor: str | None, limit: int, now: dt.datetime
) -> Page[NodeOut]:
    """Return the nodes by name, as the caller may use them. `now`: see `get_node`."""
    rows, following = read_page(session, select(NodeRow), NodeRow.name, cursor=cursor, limit=limit)
    slots = _load_slots(session, [row.id for row in rows])
    is_led = liveness.is_led(session, now=now)
    joined = joined_at(session, [row.id for row in rows])
    schedule = load_schedule(session, now=now)
    closed = closed_to(session, principal, now=now)
    at = None if is_led else now
    items = [
        _node_out(row, slots[row.id], joined[row.id], schedule, now=at, closed=closed)
        for row in rows
    ]
    return Page(items=items, next=following)


def get_node(
    session: Session, node_id: str, principal: Principal | None = None, *, now: dt.datetime
) -> NodeOut:
    """Return a node by its ID or name, as the caller may use it; None: as whoever it is reserved for. Raises
    NotFound.

    The state is the controller's. While no controller leads, the node's silence at `now` is judged
    by its lease.
    """
    row = get_row(session, node_id)
    is_led = liveness.is_led(session, now=now)
    slots = _load_slots(session, [row.id])[row.id]
    joined = joined_at(session, [row.id])[row.id]
    schedule = load_schedule(session, now=now)
    closed = closed_to(session, principal, now=now) if principal else ()
    at = None if is_led else now
    return _node_out(row, slots, joined, schedule, now=at, closed=closed)


def set_scheduling(
    session: Session, node_id: str, scheduling: str, *, actor: str, now: dt.datetime
) -> NodeOut:
    """Open a node for placements, or keep new ones off it (cordoned, draining).

    Opening also lifts a quarantine: somebody has looked at it.
    """
    row = get_row(session, node_id)
    if row.scheduling != scheduling:
        audit.record(
            session,
            "node.scheduling",
            f"node:{row.name}",
            audit.Author(actor, now),
            {"before": row.scheduling, "after": scheduling},
        )
        row.scheduling = scheduling
        add_event(
            session,
            "node.scheduling",
            f"{row.name} is {scheduling}, set by {actor}.",
            now=now,
            node_id=row.id,
        )
    if scheduling == "open":
        health.release(session, row.id, actor=actor, now=now)
    session.flush()
    touch(session, "cluster", f"node:{row.id}", "loops")
    return get_node(session, row.id, now=now)


def release_node(session: Session, node_id: str, *, actor: str, now: dt.datetime) -> NodeOut:
    """Lift its quarantine, and forget the failures to prepare that led to it. Whether it is open
    stays as it is. Without any, nothing changes. Raises NotFound."""
    row = get_row(session, node_id)
    health.release(session, row.id, actor=actor, now=now)
    return get_node(session, row.id, now=now)


def remove_node(session: Session, node_id: str, *, actor: str, now: dt.datetime) -> None:
    """Take a node out of the cluster; its credential is void from now on.

    Only when it is LOST, has been silent for REMOVABLE_AFTER past its lease, or is cordoned with
    nothing running. Allocations on a silent node end for good, so that their slots are accounted for.
    """
    row = get_row(session, node_id)
    num_held = session.scalar(
        select(func.count())
        .select_from(NodeSlotRow)
        .where(NodeSlotRow.node_id == row.id, NodeSlotRow.allocation_id.is_not(None))
    )
    is_silent = row.state == NodeState.SUSPECT and row.lease_expires_at + REMOVABLE_AFTER < now
    if row.state != NodeState.LOST and not is_silent and (row.scheduling == "open" or num_held):
        raise Conflict(
            "nodes.in_use",
            f"{row.name} is {row.state} and {row.scheduling}, with {num_held} slots in use.",
            hint="Cordon it and wait until nothing runs there, or until it has been silent for a minute.",
        )
    if not is_legal(NODE_TRANSITIONS, row.state, NodeState.REMOVED):
        raise Conflict("nodes.in_use", f"{row.name} is {row.state}.", hint="Try again in a moment.")
    audit.record(session, "node.remove", f"node:{row.name}", audit.Author(actor, now))
    remove_row(session, row, f"{row.name} is REMOVED: removed by {actor}.", now=now)


def list_node_events(
    session: Session, node_id: str, *, cursor: str | None, limit: int
) -> Page[EventOut]:
    """Newest first. A removed node keeps its events, under its id."""
    node_id = _id_of(session, node_id)
    page = list_events(session, EventRow.node_id == node_id, cursor=cursor, limit=limit)
    if not page.items and cursor is None:
        get_row(session, node_id)
    return page


def list_node_allocations(
    session: Session, node_id: str, *, before: tuple[dt.datetime, str] | None, limit: int
) -> list[NodeAllocationOut]:
    """Newest first, those created before (created_at, id). A removed node keeps its history, under
    its id."""
    node_id = _id_of(session, node_id)
    query = (
        select(AllocationRow, TrialRow.no, ExperimentRow.id, ExperimentRow.name)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(AllocationRow.node_id == node_id, ExperimentRow.deleting_at.is_(None))
        .order_by(AllocationRow.created_at.desc(), AllocationRow.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(tuple_(AllocationRow.created_at, AllocationRow.id) < tuple_(*before))
    rows = session.execute(query).all()
    if not rows and before is None:
        get_row(session, node_id)
    return [
        NodeAllocationOut.from_row(
            row,
            experiment_id=experiment_id,
            experiment_name=experiment_name,
            trial_no=trial_no,
            num_slots=len(row.slots),
            state=row.observed,
            message=row.message or str((row.exit or {}).get("message", "")),
            ended_at=row.ended_at if row.observed == AllocationState.CLEANED else None,
        )
        for row, trial_no, experiment_id, experiment_name in rows
    ]


def _find_row(session: Session, node: str) -> NodeRow | None:
    by_name = select(NodeRow).where(NodeRow.name == node)
    return session.get(NodeRow, node) or session.scalar(by_name)


def get_row(session: Session, node: str) -> NodeRow:
    """Return the node of this id, else of this name. Raises NotFound."""
    row = _find_row(session, node)
    if row is None:
        raise NotFound("nodes.not_found", f"There is no node {node[:128]!r}.")
    return row


def _id_of(session: Session, node: str) -> str:
    """Return the ID of a node; a name or ID that matches no node, perhaps a removed one, is
    returned as it is."""
    row = _find_row(session, node)
    return node if row is None else row.id


def _load_slots(session: Session, node_ids: Sequence[str]) -> dict[str, list[SlotOut]]:
    slots: dict[str, list[SlotOut]] = defaultdict(list)
    rows = session.execute(
        select(NodeSlotRow, AllocationRow, ExperimentRow.id, ExperimentRow.name)
        .outerjoin(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .outerjoin(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .outerjoin(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(NodeSlotRow.node_id.in_(node_ids))
        .order_by(NodeSlotRow.node_id, NodeSlotRow.idx)
    ).all()
    held = {allocation.id for _, allocation, _, _ in rows if allocation is not None}
    ranks = {
        (worker.allocation_id, worker.slot): worker.rank
        for worker in session.execute(
            select(WorkerRow.allocation_id, WorkerRow.slot, WorkerRow.rank).where(
                WorkerRow.allocation_id.in_(held)
            )
        )
    }
    for slot, allocation, experiment_id, experiment_name in rows:
        slots[slot.node_id].append(
            SlotOut(
                index=slot.idx,
                slot_type=slot.slot_type,
                name=str(slot.device.get("name", "")),
                memory_bytes=int(slot.device.get("memory_bytes", 0)),
                allocation_id=slot.allocation_id,
                experiment_id=experiment_id,
                experiment_name=experiment_name,
                trial_id=allocation.trial_id if allocation is not None else None,
                rank=ranks.get((slot.allocation_id or "", slot.idx)),
                problem=slot.problem,
            )
        )
    return slots


def _state_of(row: NodeRow, now: dt.datetime | None) -> tuple[str, AnyMessage | None]:
    """Return the state to show for a node, and the reason for it. `now`: see `state_at`."""
    state = state_at(row, now)
    if state == row.state:
        return state, from_columns(row.state_reason, row.state_parts)
    return state, Message("node.no_controller", at=moment(row.last_seen_at))


def _node_out(
    row: NodeRow,
    slots: list[SlotOut],
    joined: dt.datetime,
    schedule: Schedule,
    *,
    now: dt.datetime | None,
    closed: Collection[str],
) -> NodeOut:
    inventory = row.inventory
    state, reason = _state_of(row, now)
    unavailable = unavailable_because(row, schedule, now=now, closed=closed)
    num_used = sum(slot.allocation_id is not None for slot in slots)
    num_free = sum(slot.allocation_id is None and not slot.problem for slot in slots)
    return NodeOut.from_row(
        row,
        state=state,
        state_reason=reason.english if reason is not None else "",
        state_parts=parts_out(reason),
        python_version=inventory.get("python_version", ""),
        torch_version=inventory.get("torch_version", ""),
        cuda_version=inventory.get("cuda_version", ""),
        driver_version=inventory.get("driver_version", ""),
        isolation=inventory.get("isolation", "none"),
        isolation_reason=inventory.get("isolation_reason", ""),
        container_runtime=inventory.get("container_runtime", ""),
        container_version=inventory.get("container_version", ""),
        container_reason=inventory.get("container_reason", ""),
        num_cpus=inventory.get("num_cpus", 0),
        memory_bytes=inventory.get("memory_bytes", 0),
        joined_at=joined,
        num_slots=len(slots),
        num_slots_used=num_used,
        num_slots_free=0 if unavailable else num_free,
        unavailable=unavailable,
        slots=slots,
    )
