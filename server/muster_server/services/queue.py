"""The queue: what the scheduler looks at, the list people see, and the plan of a preview."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.resources import (
    NodeView,
    Request,
    SlotView,
    preemptible_from_config,
    request_from_config,
)
from muster_server.domain.scheduler import (
    ProjectView,
    QueuedTrial,
    RunningTrial,
    SchedulerSnapshot,
    plan,
    queue_order,
)
from muster_server.schemas.cluster import QueueItem
from muster_server.schemas.experiments import PlannedNode


def load_scheduler_snapshot(session: Session) -> SchedulerSnapshot:
    """Nodes with their slots, the trials that hold them, and every trial that may be placed now."""
    return SchedulerSnapshot(
        nodes=load_nodes(session),
        queue=tuple(load_queue(session)),
        running=load_running(session),
        projects=tuple(
            ProjectView(id=row.id, name=row.name)
            for row in session.execute(select(ProjectRow.id, ProjectRow.name))
        ),
    )


def load_nodes(session: Session) -> tuple[NodeView, ...]:
    slots: dict[str, list[SlotView]] = defaultdict(list)
    rows = session.execute(
        select(
            NodeSlotRow.node_id,
            NodeSlotRow.idx,
            NodeSlotRow.slot_type,
            NodeSlotRow.allocation_id,
            TrialRow.experiment_id,
        )
        .outerjoin(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .outerjoin(TrialRow, TrialRow.id == AllocationRow.trial_id)
    )
    for node_id, idx, slot_type, allocation_id, experiment_id in rows:
        slots[node_id].append(
            SlotView(
                idx=idx,
                slot_type=slot_type,
                allocation_id=allocation_id,
                experiment_id=experiment_id,
            )
        )
    nodes = session.execute(
        select(
            NodeRow.id,
            NodeRow.name,
            NodeRow.pool,
            NodeRow.state,
            NodeRow.scheduling,
            NodeRow.health,
            NodeRow.hostname,
            NodeRow.strikes,
            NodeRow.labels,
        ).order_by(NodeRow.name)
    )
    return tuple(
        NodeView(
            id=node.id,
            name=node.name,
            pool=node.pool,
            state=node.state,
            scheduling=node.scheduling,
            health=node.health,
            host=node.hostname or node.name,
            strikes=node.strikes,
            labels={str(key): str(value) for key, value in node.labels.items()},
            slots=tuple(slots[node.id]),
        )
        for node in nodes
    )


def load_running(session: Session) -> tuple[RunningTrial, ...]:
    """Every trial whose current attempt holds slots."""
    shares: dict[int, dict[str, int]] = defaultdict(dict)
    for attempt_id, node_id, num_slots in session.execute(
        select(AllocationRow.attempt_id, NodeSlotRow.node_id, func.count())
        .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .group_by(AllocationRow.attempt_id, NodeSlotRow.node_id)
    ):
        shares[attempt_id][node_id] = num_slots
    rows = session.execute(
        select(
            AttemptRow.id,
            AttemptRow.no,
            AttemptRow.created_at,
            AttemptRow.started_at,
            TrialRow.id.label("trial_id"),
            TrialRow.no.label("trial_no"),
            TrialRow.experiment_id,
            ExperimentRow.project_id,
            ExperimentRow.priority,
            ExperimentRow.config,
            CheckpointRow.created_at.label("checkpoint_at"),
        )
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
        .where(
            exists().where(
                AllocationRow.attempt_id == AttemptRow.id,
                NodeSlotRow.allocation_id == AllocationRow.id,
            )
        )
        .order_by(AttemptRow.id)
    )
    return tuple(
        RunningTrial(
            trial_id=row.trial_id,
            trial_no=row.trial_no,
            attempt_no=row.no,
            experiment_id=row.experiment_id,
            project_id=row.project_id,
            priority=row.priority,
            request=request_from_config(row.config),
            shares=shares[row.id],
            started_at=row.started_at or row.created_at,
            preemptible=preemptible_from_config(row.config),
            last_checkpoint_at=row.checkpoint_at,
        )
        for row in rows
    )


def load_queue(session: Session) -> list[QueuedTrial]:
    """Trials that wait for slots, in queue order."""
    configs: dict[int, dict[str, Any]] = {}
    requests: dict[int, Request] = {}
    queue: list[QueuedTrial] = []
    rows = session.execute(
        select(
            TrialRow.id,
            TrialRow.no,
            TrialRow.experiment_id,
            TrialRow.queued_at,
            ExperimentRow.project_id,
            ExperimentRow.priority,
            NodeRow.hostname,
        )
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
        .outerjoin(NodeRow, NodeRow.name == CheckpointRow.node_name)
        .where(
            TrialRow.state == "QUEUED",
            TrialRow.desired == "run",
            ExperimentRow.desired == "run",
            ExperimentRow.state.in_(("QUEUED", "RUNNING")),
        )
    ).all()
    wanted = {row.experiment_id for row in rows}
    for experiment_id in wanted:
        configs[experiment_id] = (
            session.scalar(select(ExperimentRow.config).where(ExperimentRow.id == experiment_id))
            or {}
        )
        requests[experiment_id] = request_from_config(configs[experiment_id])
    for row in rows:
        queue.append(
            QueuedTrial(
                trial_id=row.id,
                trial_no=row.no,
                experiment_id=row.experiment_id,
                project_id=row.project_id,
                priority=row.priority,
                preemptible=preemptible_from_config(configs[row.experiment_id]),
                queued_at=row.queued_at,
                request=requests[row.experiment_id],
                preferred_host=row.hostname,
            )
        )
    queue.sort(key=queue_order)
    return queue


def list_queue(session: Session, *, cursor: int, limit: int) -> tuple[list[QueueItem], int | None]:
    """Waiting trials by position (from `cursor`, 0 is the first), and where the next page starts.

    Trials that wait to restart come after those that could run now, soonest first.
    """
    queue = load_queue(session)
    requests = {trial.trial_id: trial.request for trial in queue}
    order = [trial.trial_id for trial in queue]
    waiting = session.scalars(
        select(TrialRow.id)
        .where(TrialRow.state == "RETRY_WAIT")
        .order_by(TrialRow.not_before, TrialRow.id)
    )
    order += list(waiting)
    window = order[cursor : cursor + limit]
    rows = session.execute(
        select(TrialRow, ExperimentRow, UserRow.username)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(TrialRow.id.in_(window))
    )
    positions = {trial_id: cursor + i + 1 for i, trial_id in enumerate(window)}
    items: dict[int, QueueItem] = {}
    for trial, experiment, owner in rows:
        request = requests.get(trial.id) or request_from_config(experiment.config)
        items[trial.id] = QueueItem(
            position=positions[trial.id],
            trial_id=trial.id,
            trial_no=trial.no,
            experiment_id=experiment.id,
            experiment_name=experiment.name,
            owner=owner,
            priority=experiment.priority,
            num_slots=request.slots,
            slot_type=request.slot_type,
            pool=request.pool,
            state=trial.state,
            queued_at=trial.queued_at,
            pending_reason=_pending_reason(trial),
        )
    following = cursor + limit
    return [items[i] for i in window if i in items], following if following < len(order) else None


def plan_one(session: Session, config: dict[str, Any]) -> tuple[list[PlannedNode], bool, str]:
    """Where one trial of this document would run if it were first in the queue now.

    Returns the nodes (empty when it would wait), whether it fits now, and why or why not.
    """
    shares, reason = plan(request_from_config(config), load_nodes(session))
    trainer = config.get("trainer") is not None
    entrypoint = ["-m", "muster.training"] if trainer else list(config.get("entrypoint") or [])
    direct = config.get("launcher") == "direct"
    nodes = [
        PlannedNode(
            node_name=share.node_name,
            num_slots=len(share.slots),
            command=["python", *entrypoint]
            if direct
            else [
                "torchrun",
                f"--nnodes={len(shares)}",
                f"--nproc-per-node={len(share.slots)}",
                *entrypoint,
            ],
        )
        for share in shares
    ]
    return nodes, bool(shares), reason


def _pending_reason(trial: TrialRow) -> str:
    if trial.state == "RETRY_WAIT" and trial.not_before is not None:
        at = trial.not_before.astimezone(dt.UTC)
        return f"restarts at {at:%H:%M:%S} UTC: {trial.reason}"
    return trial.pending_reason or "the scheduler has not looked at it yet"
