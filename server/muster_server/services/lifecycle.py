"""The lifecycle's two ends: the present state out of the tables, decided steps back into them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from muster.wire import ExitInfo, load
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.lifecycle import (
    Action,
    AllocationView,
    AttemptView,
    ExperimentView,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    QuarantineNode,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetExperiment,
    SetFlags,
    SetNode,
    SetTrial,
    Step,
    TrialView,
)
from muster_server.domain.states import (
    TERMINAL_ATTEMPT,
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
)
from muster_server.services import search

from .allocations import bump_assignments, clean, require_one
from .events import Level, add_event

ACTIVE = ("STARTING", "RUNNING", "STOPPING")
WAITING = ("QUEUED", "RETRY_WAIT", "PAUSED")

# ---------------------------------------------------------------- out of the tables


def load_lifecycle_snapshot(
    session: Session, *, leader_since: dt.datetime, now: dt.datetime
) -> LifecycleSnapshot:
    """Everything the lifecycle decides on. Waiting trials only where something is due."""
    experiments = _load_experiments(session)
    return LifecycleSnapshot(
        leader_since=leader_since,
        nodes=tuple(
            NodeLease(
                id=node.id,
                name=node.name,
                state=node.state,
                last_seen_at=node.last_seen_at,
                registered_at=node.registered_at,
                health=node.health,
            )
            for node in session.execute(
                select(
                    NodeRow.id,
                    NodeRow.name,
                    NodeRow.state,
                    NodeRow.last_seen_at,
                    NodeRow.registered_at,
                    NodeRow.health,
                ).order_by(NodeRow.name)
            )
        ),
        trials=tuple(_load_trials(session, now)),
        lost=tuple(
            LostAllocation(id=row.id, node_id=row.node_id)
            for row in session.execute(
                select(AllocationRow.id, AllocationRow.node_id)
                .where(AllocationRow.observed == "LOST")
                .order_by(AllocationRow.id)
            )
        ),
        experiments=tuple(experiments),
    )


def _load_trials(session: Session, now: dt.datetime) -> list[TrialView]:
    attempts = _load_attempts(session)
    due = and_(
        TrialRow.state.in_(WAITING),
        or_(
            TrialRow.desired != "run",
            ExperimentRow.desired == "stop",
            and_(
                TrialRow.state == "RETRY_WAIT",
                or_(TrialRow.not_before.is_(None), TrialRow.not_before <= now),
            ),
        ),
    )
    rows = session.execute(
        select(TrialRow, ExperimentRow, CheckpointRow.step)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
        .where(or_(TrialRow.state.in_(ACTIVE), due))
        .order_by(TrialRow.id)
    )
    return [
        _trial_view(trial, experiment, checkpoint_step, attempts.get(trial.id))
        for trial, experiment, checkpoint_step in rows
    ]


def _trial_view(
    trial: TrialRow,
    experiment: ExperimentRow,
    checkpoint_step: int | None,
    attempt: AttemptView | None,
) -> TrialView:
    restarts = experiment.config.get("restarts") or {}
    return TrialView(
        id=trial.id,
        no=trial.no,
        experiment_id=trial.experiment_id,
        state=trial.state,
        desired=trial.desired,
        experiment_desired=experiment.desired,
        not_before=trial.not_before,
        failures_user=trial.failures_user,
        failures_infra=trial.failures_infra,
        no_progress=trial.no_progress,
        budget_user=int(restarts.get("user", 0)),
        budget_infra=int(restarts.get("infra", 3)),
        stop_grace_s=float(experiment.config.get("stop_grace_s", 30.0)),
        on_disconnect=experiment.config.get("on_disconnect") or "continue",
        checkpoint_step=checkpoint_step,
        flags=tuple(trial.flags),
        attempt=attempt,
    )


def _load_attempts(session: Session) -> dict[int, AttemptView]:
    """Trial id → its current attempt, of trials that have one under way."""
    members: dict[int, list[AllocationView]] = defaultdict(list)
    current = and_(TrialRow.id == AttemptRow.trial_id, TrialRow.attempt_no == AttemptRow.no)
    allocations = session.scalars(
        select(AllocationRow)
        .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
        .join(TrialRow, current)
        .where(TrialRow.state.in_(ACTIVE))
        .order_by(AllocationRow.node_rank)
    )
    for row in allocations:
        members[row.attempt_id].append(
            AllocationView(
                id=row.id,
                node_id=row.node_id,
                node_name=row.node_name,
                node_rank=row.node_rank,
                observed=row.observed,
                desired=row.desired,
                state_since=row.state_since,
                message=row.message,
                exit=load(ExitInfo, row.exit) if row.exit is not None else None,
            )
        )
    attempts = session.scalars(
        select(AttemptRow).join(TrialRow, current).where(TrialRow.state.in_(ACTIVE))
    )
    return {
        row.trial_id: AttemptView(
            id=row.id,
            no=row.no,
            state=row.state,
            num_nodes=row.num_nodes,
            created_at=row.created_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
            resume_step=row.resume_step,
            has_rendezvous=row.rendezvous_port is not None,
            termination=row.termination,
            reason=row.reason,
            root_rank=row.root_rank,
            allocations=tuple(members[row.id]),
        )
        for row in attempts
    }


def _load_experiments(session: Session) -> list[ExperimentView]:
    is_open = ExperimentRow.state.not_in(TERMINAL_EXPERIMENT)
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    grouped = session.execute(
        select(TrialRow.experiment_id, TrialRow.state, func.count())
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(is_open)
        .group_by(TrialRow.experiment_id, TrialRow.state)
    )
    for experiment_id, state, num in grouped:
        counts[experiment_id][state] = num
    rows = session.execute(
        select(
            ExperimentRow.id,
            ExperimentRow.state,
            ExperimentRow.desired,
            ExperimentRow.search_state["finished"].as_boolean().label("finished"),
        )
        .where(is_open)
        .order_by(ExperimentRow.id)
    ).all()
    return [
        ExperimentView(
            id=row.id,
            state=row.state,
            desired=row.desired,
            search_finished=bool(row.finished),
            num_by_state=counts[row.id],
            failure=_first_failure(session, row.id) if counts[row.id].get("FAILED") else "",
        )
        for row in rows
    ]


def _first_failure(session: Session, experiment_id: int) -> str:
    row = session.execute(
        select(TrialRow.no, TrialRow.reason)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.state == "FAILED")
        .order_by(TrialRow.no)
        .limit(1)
    ).one_or_none()
    return f"trial {row.no}: {row.reason}" if row is not None else ""


# ---------------------------------------------------------------- back into the tables


def apply_step(session: Session, step: Step, *, now: dt.datetime) -> None:
    """Write one subject's actions. Raises Outdated, and then nothing must be committed, when
    something else was faster than one of them."""
    ids = [a.allocation_id for a in step.actions if isinstance(a, SetAllocation | SetDesired)]
    if ids:
        # The order in which records lock, too: allocations before attempts and trials.
        session.execute(
            select(AllocationRow.id)
            .where(AllocationRow.id.in_(ids))
            .order_by(AllocationRow.id)
            .with_for_update()
        ).all()
    nodes: set[str] = set()
    for action in step.actions:
        nodes |= _apply(session, action, now)
    bump_assignments(session, nodes)


def _apply(session: Session, action: Action, now: dt.datetime) -> set[str]:
    """Write one action; the nodes whose desired set it changed."""
    match action:
        case SetNode():
            _set_node(session, action, now)
        case QuarantineNode():
            session.execute(
                update(NodeRow)
                .where(NodeRow.id == action.node_id)
                .values(health="quarantined", health_reason=action.reason)
            )
            add_event(
                session, now=now, type="node.quarantined", level="error", node_id=action.node_id,
                message=f"Quarantined: {action.reason}.",
            )  # fmt: skip
            touch(session, "cluster", f"node:{action.node_id}")
        case SetAllocation():
            return _set_allocation(session, action, now)
        case SetDesired():
            require_one(
                session,
                update(AllocationRow)
                .where(
                    AllocationRow.id == action.allocation_id,
                    AllocationRow.desired == action.before,
                )
                .values(
                    desired=action.after,
                    **({} if action.after == "start" else {"stop_reason": action.reason}),
                ),
                f"allocation {action.allocation_id} is not wanted {action.before} any more",
            )
            return {action.node_id}
        case SetAttempt():
            _set_attempt(session, action, now)
        case SetTrial():
            _set_trial(session, action, now)
        case SetFlags():
            _set_flags(session, action, now)
        case SetExperiment():
            _set_experiment(session, action, now)
    return set()


def _set_node(session: Session, action: SetNode, now: dt.datetime) -> None:
    node = session.get(NodeRow, action.node_id)
    require_one(
        session,
        update(NodeRow)
        .where(NodeRow.id == action.node_id, NodeRow.state == action.before)
        .values(state=action.after),
        f"node {action.node_id} is not {action.before} any more",
    )
    level: Level = "info" if action.after == "ONLINE" else "warning"
    add_event(
        session,
        now=now,
        type="node.state",
        level="error" if action.after == "LOST" else level,
        message=f"{node.name if node else action.node_id} is {action.after}: {action.reason}.",
        node_id=action.node_id,
        data={"before": action.before, "after": action.after},
    )
    touch(session, "cluster", f"node:{action.node_id}", "loops")


def _set_allocation(session: Session, action: SetAllocation, now: dt.datetime) -> set[str]:
    if action.after == "CLEANED":
        return {clean(session, action.allocation_id, before=action.before, now=now)}
    conditions = [
        AllocationRow.id == action.allocation_id,
        AllocationRow.observed == action.before,
    ]
    if action.after == "LOST":
        # Its agent may have come back and been told to keep it, a moment ago.
        here = select(NodeRow.id).where(
            NodeRow.id == AllocationRow.node_id, NodeRow.state != "LOST"
        )
        conditions.append(~here.exists())
    require_one(
        session,
        update(AllocationRow)
        .where(*conditions)
        .values(observed=action.after, state_since=now, ended_at=now, message=action.reason),
        f"allocation {action.allocation_id} is not {action.before} any more",
    )
    if action.after == "LOST":
        session.execute(
            update(WorkerRow)
            .where(WorkerRow.allocation_id == action.allocation_id, WorkerRow.ended_at.is_(None))
            .values(ended_at=now, exit_message=action.reason)
        )
    return set()


def _set_attempt(session: Session, action: SetAttempt, now: dt.datetime) -> None:
    attempt = session.get_one(AttemptRow, action.attempt_id)
    values: dict[str, Any] = {"state": action.after, "reason": action.reason}
    is_new_end = action.after in TERMINAL_ATTEMPT and action.before != action.after
    if action.after == "RUNNING" or (action.after == "WINDING_DOWN" and not attempt.started_at):
        values["started_at"] = now
    if is_new_end:
        values["ended_at"] = now
    if action.termination is not None:
        values |= {
            "termination": action.termination.value,
            "root_rank": action.root_rank,
            "root_log_tail": list(action.root_log_tail),
        }
    require_one(
        session,
        update(AttemptRow)
        .where(AttemptRow.id == action.attempt_id, AttemptRow.state == action.before)
        .values(**values),
        f"attempt {action.attempt_id} is not {action.before} any more",
    )
    trial = session.get_one(TrialRow, attempt.trial_id)
    level: Level = "warning" if action.after in ("FAILED", "LOST") else "info"
    verb = "ended" if action.before == action.after else "is"
    add_event(
        session,
        now=now,
        type="attempt.state",
        level=level,
        message=f"Attempt {attempt.no} {verb} {action.after}: {action.reason}.",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=attempt.no,
        data={"before": action.before, "after": action.after, "root_rank": action.root_rank},
    )
    touch(session, f"trial:{trial.id}")


def _set_trial(session: Session, action: SetTrial, now: dt.datetime) -> None:
    values: dict[str, Any] = {
        "state": action.after,
        "reason": action.reason,
        "not_before": action.not_before,
        "pending_reason": "",
    }
    for counter in ("failures_user", "failures_infra", "no_progress"):
        if (value := getattr(action, counter)) is not None:
            values[counter] = value
    is_over = action.after in TERMINAL_TRIAL
    if action.after == "RUNNING" or (action.after == "COMPLETED"):
        values["started_at"] = func.coalesce(TrialRow.started_at, now)
    if is_over:
        values |= {
            "ended_at": now,
            "termination": action.termination.value if action.termination else None,
            "logs_complete": action.logs_complete,
            "flags": [],
        }
    require_one(
        session,
        update(TrialRow)
        .where(TrialRow.id == action.trial_id, TrialRow.state == action.before)
        .values(**values)
        .execution_options(synchronize_session=False),
        f"trial {action.trial_id} is not {action.before} any more",
    )
    trial = session.get_one(TrialRow, action.trial_id, populate_existing=True)
    levels: dict[str, Level] = {"FAILED": "error", "RETRY_WAIT": "warning"}
    add_event(
        session,
        now=now,
        type="trial.state",
        level=levels.get(action.after, "info"),
        message=f"Trial {trial.no} is {action.after}: {action.reason}.",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no or None,
        data={"before": action.before, "after": action.after},
    )
    if is_over:
        search.on_trial_terminal(session, trial, now)
    touch(
        session,
        "cluster",
        "experiments",
        "loops",
        f"experiment:{trial.experiment_id}",
        f"trial:{trial.id}",
    )


def _set_flags(session: Session, action: SetFlags, now: dt.datetime) -> None:
    trial = session.get_one(TrialRow, action.trial_id)
    trial.flags = list(action.flags)
    add_event(
        session,
        now=now,
        type="trial.flags",
        level="warning" if action.flags else "info",
        message=f"Trial {trial.no}: {action.reason}.",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no,
        data={"flags": list(action.flags)},
    )
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}")


def _set_experiment(session: Session, action: SetExperiment, now: dt.datetime) -> None:
    values: dict[str, Any] = {"state": action.after, "reason": action.reason}
    if action.after == "RUNNING":
        values["started_at"] = func.coalesce(ExperimentRow.started_at, now)
    if action.after in TERMINAL_EXPERIMENT:
        values["ended_at"] = now
    require_one(
        session,
        update(ExperimentRow)
        .where(ExperimentRow.id == action.experiment_id, ExperimentRow.state == action.before)
        .values(**values)
        .execution_options(synchronize_session=False),
        f"experiment {action.experiment_id} is not {action.before} any more",
    )
    add_event(
        session,
        now=now,
        type="experiment.state",
        level="error" if action.after == "FAILED" else "info",
        message=f"The experiment is {action.after}: {action.reason}.",
        experiment_id=action.experiment_id,
        data={"before": action.before, "after": action.after},
    )
    touch(session, "cluster", "experiments", "loops", f"experiment:{action.experiment_id}")
