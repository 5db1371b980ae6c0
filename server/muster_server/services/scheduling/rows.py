"""What the scheduler sees of a row: nodes, trials that wait, trials that run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import NodeRow, PilotRow, PoolRow
from muster_server.domain.lifecycle.avoidance import avoiding, from_plain
from muster_server.domain.nodes.availability import is_blocked_by
from muster_server.domain.nodes.maintenance import NO_MAINTENANCE, NodeMaintenance
from muster_server.domain.nodes.reservations import LEAVE_MARGIN_S, NodeReservation
from muster_server.domain.runtime.progress import (
    STALE_S,
    Progress,
    expected_end,
    planned_length,
    rate,
    remaining_steps,
)
from muster_server.domain.scheduling import QueuedTrial, RunningTrial
from muster_server.domain.scheduling.resources import (
    NodeView,
    Owner,
    PoolImages,
    Request,
    SlotView,
    request_for,
)
from muster_server.domain.states import TERMINAL_ATTEMPT, AttemptState, TrialState

FOREVER = dt.datetime.max.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Wish:
    """What a document says that scheduling needs: read once per experiment."""

    request: Request
    preemptible: bool
    num_steps: int | None
    num_epochs: float | None
    stop_grace_s: float
    keeps_files: bool

    @classmethod
    def of(cls, config: ExperimentConfig, *, reservations: tuple[int, ...] = ()) -> Wish:
        """Return what a document says. reservations: as in Request."""
        num_steps, num_epochs = planned_length(config)
        return cls(
            request=replace(
                request_for(config), grace_s=config.stop_grace_s, reservations=reservations
            ),
            preemptible=config.resources.preemptible,
            num_steps=num_steps,
            num_epochs=num_epochs,
            stop_grace_s=config.stop_grace_s,
            keeps_files=config.outputs is not None,
        )


NODES = (
    select(
        NodeRow.id,
        NodeRow.name,
        NodeRow.pool,
        NodeRow.state,
        NodeRow.scheduling,
        NodeRow.health,
        NodeRow.problems,
        NodeRow.hostname,
        NodeRow.strikes,
        NodeRow.labels,
        NodeRow.ends_at,
        NodeRow.inventory["isolation"].as_string().label("isolation"),
        NodeRow.inventory["container_runtime"].as_string().label("container_runtime"),
        PoolRow.min_isolation.label("pool_isolation"),
        PilotRow.trial_id.label("owner_trial_id"),
        PilotRow.attempt_no.label("owner_attempt_no"),
        PoolRow.requires_containers,
        PoolRow.allowed_images,
        PoolRow.spares,
    )
    .outerjoin(PoolRow, PoolRow.name == NodeRow.pool)
    .outerjoin(PilotRow, PilotRow.id == NodeRow.name)
    .order_by(NodeRow.name)
)
"""What `node_view` is made from, of every node."""


def node_view(
    node: Any,
    slots: Sequence[Any],
    maintenance: NodeMaintenance = NO_MAINTENANCE,
    reservations: tuple[NodeReservation, ...] = (),
) -> NodeView:
    """Return a node's view from its row of `NODES`, its rows of `scheduling.SLOTS`, and the maintenance
    windows and reservations that concern it."""
    return NodeView(
        id=node.id,
        name=node.name,
        pool=node.pool,
        state=node.state,
        scheduling=node.scheduling,
        health=node.health,
        is_blocked=is_blocked_by(node.problems),
        host=node.hostname or node.name,
        strikes=node.strikes,
        labels={str(key): str(value) for key, value in node.labels.items()},
        ends_at=node.ends_at,
        maintenance=maintenance,
        reservations=reservations,
        isolation=node.isolation or "none",
        pool_isolation=node.pool_isolation or "none",
        container_runtime=node.container_runtime or "",
        owner=None if node.owner_trial_id is None else (node.owner_trial_id, node.owner_attempt_no),
        pool_images=PoolImages(
            is_required=bool(node.requires_containers), allowed=tuple(node.allowed_images or ())
        ),
        pool_spares=node.spares or 0,
        slots=tuple(
            SlotView(
                idx=slot.idx,
                slot_type=slot.slot_type,
                allocation_id=slot.allocation_id,
                free_since=slot.free_since,
                problem=slot.problem,
            )
            for slot in slots
        ),
    )


def queued_trial(
    trial: Any,
    experiment: Any,
    past: Any | None,
    wish: Wish,
    now: dt.datetime,
    owner: Owner | None = None,
    files_on: tuple[str, ...] = (),
    lost_slots: int | None = None,
    is_returning: bool = False,
) -> tuple[QueuedTrial, dt.datetime]:
    """Return a queued trial from rows of `scheduling.QUEUED`, `scheduling.OPEN` and
    `scheduling.PAST`, and the time until which it stays valid.

    past: None for a trial that has not run and starts from nothing. owner: its next attempt, if nodes
    belong to that one alone. files_on, lost_slots, is_returning: as in QueuedTrial.
    """
    request, until = avoiding(wish.request, from_plain(trial.avoided), now=now)
    if owner is not None:
        request = replace(request, owner=owner)
    found = QueuedTrial(
        trial_id=trial.id,
        trial_no=trial.no,
        experiment_id=trial.experiment_id,
        project_id=experiment.project_id,
        priority=experiment.priority,
        queued_at=trial.queued_at,
        request=request,
        preemptible=wish.preemptible,
        waiting_since=trial.waiting_since,
        queue_no=trial.queue_no,
        expected_s=None if past is None else _expected_s(past, wish),
        preferred_host=None if past is None else past.hostname,
        files_on=files_on,
        promised_since=trial.promised_since,
        resize_slots=past.yield_slots
        if past is not None and past.attempt_state == AttemptState.RESIZED
        else None,
        lost_slots=lost_slots,
        is_returning=is_returning,
    )
    return found, until or FOREVER


def _expected_s(past: Any, wish: Wish) -> float | None:
    """Return how many seconds a trial would still run at the rate of its last attempt.

    None for a trial that has not run yet, or that may restart with another number of slots.
    """
    if wish.request.elastic or past.started_at is None:
        return None
    last = _progress(past, wish)
    steps_per_s, left = rate(last), remaining_steps(last)
    if steps_per_s is None or left is None:
        return None
    lost = max(0, int(past.step) - int(past.checkpoint_step or 0))
    return (left + lost) / steps_per_s


def running_trial(
    row: Any, wish: Wish, shares: Mapping[str, int], now: dt.datetime
) -> tuple[RunningTrial, dt.datetime]:
    """Return a running trial from a row of `scheduling.RUNNING`, and the time until which it stays
    valid."""
    is_leaving = (
        row.state in TERMINAL_ATTEMPT
        or row.yield_at is not None
        or row.trial_state == TrialState.STOPPING
    )
    end: dt.datetime | None = None
    until = FOREVER
    if is_leaving:
        asked_at = row.yield_at or row.ended_at
        grace = dt.timedelta(seconds=wish.stop_grace_s + LEAVE_MARGIN_S)
        # What is still there after that is on a node that is not heard: nobody knows how long.
        if asked_at is not None and asked_at + grace > now:
            end = until = asked_at + grace
    elif row.started_at is not None:
        progress = _progress(row, wish)
        end = expected_end(progress, now=now)
        if end is not None and progress.reported_at is not None:
            # From then on it is overdue, or may have been silent for too long.
            until = min(end, progress.reported_at + dt.timedelta(seconds=STALE_S))
    started_at = row.started_at or row.created_at
    kept_until = started_at + dt.timedelta(seconds=wish.request.min_runtime_s)
    if now < kept_until:
        until = min(until, kept_until)
    trial = RunningTrial(
        trial_id=row.trial_id,
        trial_no=row.trial_no,
        attempt_no=row.no,
        experiment_id=row.experiment_id,
        project_id=row.project_id,
        priority=row.priority,
        request=wish.request,
        shares=shares,
        started_at=started_at,
        # Nearly done: it is let finish.
        preemptible=wish.preemptible
        and now >= kept_until
        and row.state != AttemptState.WINDING_DOWN,
        queue_no=row.queue_no,
        expected_end_at=end,
        last_checkpoint_at=row.checkpoint_at,
        is_ending=row.state == AttemptState.WINDING_DOWN,
        yielding=is_leaving,
    )
    return trial, until


def _progress(row: Any, wish: Wish) -> Progress:
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
