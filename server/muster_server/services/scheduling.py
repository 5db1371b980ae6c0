"""What the scheduler looks at, out of the tables: nodes, trials that run, trials that wait."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    ProjectRow,
    TrialRow,
)
from muster_server.domain.progress import (
    Progress,
    expected_end,
    planned_length,
    rate,
    remaining_steps,
)
from muster_server.domain.resources import (
    NodeView,
    Request,
    SlotView,
    preemptible_from_config,
    request_from_config,
)
from muster_server.domain.scheduler import (
    QueuedTrial,
    RunningTrial,
    SchedulerPolicy,
    SchedulerSnapshot,
)
from muster_server.domain.states import TERMINAL_ATTEMPT, AttemptState
from muster_server.settings import Settings

from .projects import load_projects

OPEN_ATTEMPT = tuple(s.value for s in AttemptState if s.value not in TERMINAL_ATTEMPT)
KILL_MARGIN_S = 10.0
"""Past its grace a trial that must leave is gone after about this long."""


def scheduler_policy(settings: Settings) -> SchedulerPolicy:
    """The rules by which the controller places trials, and by which others foresee it."""
    return SchedulerPolicy(
        preempt=settings.scheduler_preempt, grow_after_s=settings.scheduler_grow_after_s
    )


@dataclass(frozen=True)
class Wish:
    """What a document says that scheduling needs: read once per experiment."""

    request: Request
    preemptible: bool
    num_steps: int | None
    num_epochs: float | None
    stop_grace_s: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Wish:
        num_steps, num_epochs = planned_length(config)
        return cls(
            request=request_from_config(config),
            preemptible=preemptible_from_config(config),
            num_steps=num_steps,
            num_epochs=num_epochs,
            stop_grace_s=float(config.get("stop_grace_s", 30.0)),
        )


def load_scheduler_snapshot(session: Session, *, now: dt.datetime) -> SchedulerSnapshot:
    """Nodes with their slots, the trials that hold them, every trial that may be placed now, and
    whose they are."""
    queued = _queued_rows(session)
    running = _running_rows(session)
    wishes = _load_wishes(session, {row.experiment_id for row in (*queued, *running)})
    return SchedulerSnapshot(
        nodes=load_nodes(session),
        queue=tuple(_queued_trial(row, wishes[row.experiment_id]) for row in queued),
        running=_running_trials(session, running, wishes, now),
        projects=load_projects(session),
    )


def load_nodes(session: Session) -> tuple[NodeView, ...]:
    """Every node with its slots, by name."""
    slots: dict[str, list[SlotView]] = defaultdict(list)
    for node_id, idx, slot_type, allocation_id, free_since in session.execute(
        select(
            NodeSlotRow.node_id,
            NodeSlotRow.idx,
            NodeSlotRow.slot_type,
            NodeSlotRow.allocation_id,
            NodeSlotRow.free_since,
        )
    ):
        slots[node_id].append(
            SlotView(
                idx=idx, slot_type=slot_type, allocation_id=allocation_id, free_since=free_since
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


def _load_wishes(session: Session, experiment_ids: Collection[int]) -> dict[int, Wish]:
    # One by one: a list of thousands of ids is more than some databases take in a statement.
    return {
        experiment_id: Wish.of(
            session.scalar(select(ExperimentRow.config).where(ExperimentRow.id == experiment_id))
            or {}
        )
        for experiment_id in experiment_ids
    }


# ---------------------------------------------------------------- trials that wait


def _queued_rows(session: Session) -> list[Row[Any]]:
    """Those that may be placed: not those of a project whose budget is used up, they wait for it."""
    lies = aliased(CheckpointRow)  # where its next attempt starts from, of its own or its source
    last = and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no)
    return list(
        session.execute(
            select(
                TrialRow.id,
                TrialRow.no,
                TrialRow.experiment_id,
                TrialRow.queued_at,
                TrialRow.queue_no,
                TrialRow.waiting_since,
                TrialRow.promised_since,
                TrialRow.num_steps_planned,
                TrialRow.epoch,
                TrialRow.step,
                TrialRow.progress_at,
                ExperimentRow.project_id,
                ExperimentRow.priority,
                NodeRow.hostname,
                CheckpointRow.step.label("checkpoint_step"),
                AttemptRow.state.label("attempt_state"),
                AttemptRow.yield_slots,
                AttemptRow.started_at,
                AttemptRow.resume_step,
            )
            .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
            .outerjoin(AttemptRow, last)
            .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
            .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
            .outerjoin(
                lies,
                lies.id
                == func.coalesce(TrialRow.latest_checkpoint_id, TrialRow.source_checkpoint_id),
            )
            .outerjoin(NodeRow, NodeRow.name == lies.node_name)
            .where(
                TrialRow.state == "QUEUED",
                TrialRow.desired == "run",
                ExperimentRow.desired == "run",
                ExperimentRow.exhausted_reason == "",
                ProjectRow.exhausted_reason == "",
                ExperimentRow.state.in_(("QUEUED", "RUNNING")),
            )
        )
    )


def _queued_trial(row: Row[Any], wish: Wish) -> QueuedTrial:
    return QueuedTrial(
        trial_id=row.id,
        trial_no=row.no,
        experiment_id=row.experiment_id,
        project_id=row.project_id,
        priority=row.priority,
        queued_at=row.queued_at,
        request=wish.request,
        preemptible=wish.preemptible,
        waiting_since=row.waiting_since,
        queue_no=row.queue_no,
        expected_s=_expected_s(row, wish),
        preferred_host=row.hostname,
        promised_since=row.promised_since,
        resize_slots=row.yield_slots if row.attempt_state == "RESIZED" else None,
    )


def _expected_s(row: Row[Any], wish: Wish) -> float | None:
    """How long it would still run, at the rate of its last attempt; None for one that has not run
    yet, or that may come back with another number of slots."""
    if wish.request.elastic or row.started_at is None:
        return None
    last = _progress(row, wish)
    steps_per_s, left = rate(last), remaining_steps(last)
    if steps_per_s is None or left is None:
        return None
    lost = max(0, int(row.step) - int(row.checkpoint_step or 0))
    return (left + lost) / steps_per_s


# ---------------------------------------------------------------- trials that run


def _running_rows(session: Session) -> list[Row[Any]]:
    """Attempts that hold slots."""
    return list(
        session.execute(
            select(
                AttemptRow.id,
                AttemptRow.no,
                AttemptRow.state,
                AttemptRow.created_at,
                AttemptRow.started_at,
                AttemptRow.ended_at,
                AttemptRow.resume_step,
                AttemptRow.yield_at,
                TrialRow.id.label("trial_id"),
                TrialRow.no.label("trial_no"),
                TrialRow.state.label("trial_state"),
                TrialRow.experiment_id,
                TrialRow.queue_no,
                TrialRow.step,
                TrialRow.epoch,
                TrialRow.num_steps_planned,
                TrialRow.progress_at,
                ExperimentRow.project_id,
                ExperimentRow.priority,
                CheckpointRow.created_at.label("checkpoint_at"),
            )
            .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
            .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
            .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
            .where(
                or_(
                    AttemptRow.state.in_(OPEN_ATTEMPT),
                    AttemptRow.id.in_(
                        select(AllocationRow.attempt_id).where(AllocationRow.observed != "CLEANED")
                    ),
                )
            )
            .order_by(AttemptRow.id)
        )
    )


def _running_trials(
    session: Session, rows: list[Row[Any]], wishes: Mapping[int, Wish], now: dt.datetime
) -> tuple[RunningTrial, ...]:
    shares: dict[int, dict[str, int]] = defaultdict(dict)
    for attempt_id, node_id, num_slots in session.execute(
        select(AllocationRow.attempt_id, NodeSlotRow.node_id, func.count())
        .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .group_by(AllocationRow.attempt_id, NodeSlotRow.node_id)
    ):
        shares[attempt_id][node_id] = num_slots
    return tuple(
        _running_trial(row, wishes[row.experiment_id], shares[row.id], now)
        for row in rows
        if shares[row.id]
    )


def _running_trial(
    row: Row[Any], wish: Wish, shares: Mapping[str, int], now: dt.datetime
) -> RunningTrial:
    is_over = row.state in TERMINAL_ATTEMPT
    is_leaving = is_over or row.yield_at is not None or row.trial_state == "STOPPING"
    end: dt.datetime | None = None
    if is_leaving:
        asked_at = row.yield_at or row.ended_at
        grace = dt.timedelta(seconds=wish.stop_grace_s + KILL_MARGIN_S)
        # What is still there after that is on a node that is not heard: nobody knows how long.
        if asked_at is not None and asked_at + grace > now:
            end = asked_at + grace
    elif row.started_at is not None:
        end = expected_end(_progress(row, wish), now=now)
    return RunningTrial(
        trial_id=row.trial_id,
        trial_no=row.trial_no,
        attempt_no=row.no,
        experiment_id=row.experiment_id,
        project_id=row.project_id,
        priority=row.priority,
        request=wish.request,
        shares=shares,
        started_at=row.started_at or row.created_at,
        # Nearly done: it is let finish.
        preemptible=wish.preemptible and row.state != "WINDING_DOWN",
        queue_no=row.queue_no,
        expected_end_at=end,
        last_checkpoint_at=row.checkpoint_at,
        yielding=is_leaving,
    )


def _progress(row: Row[Any], wish: Wish) -> Progress:
    reported_at = row.progress_at
    if reported_at is not None and reported_at < row.started_at:
        reported_at = None  # of an earlier attempt
    return Progress(
        started_at=row.started_at,
        reported_at=reported_at,
        step=row.step,
        first_step=row.resume_step,
        num_steps_planned=row.num_steps_planned or wish.num_steps,
        epoch=row.epoch,
        num_epochs_planned=wish.num_epochs,
    )
