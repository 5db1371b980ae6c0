"""The lifecycle's other end: decided steps, back into the tables."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import BindParameter, Table, Update, bindparam, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    NodeRow,
    PreflightRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.raw import columns_of
from muster_server.domain.lifecycle import (
    Action,
    AdvancePreflight,
    BeginPreflight,
    DrainNode,
    LifecycleStep,
    RemoveNode,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetExperiment,
    SetFlags,
    SetNode,
    SetTrial,
    SetYield,
    Warn,
)
from muster_server.domain.lifecycle.avoidance import to_plain
from muster_server.domain.messages import to_columns
from muster_server.domain.states import (
    TERMINAL_ATTEMPT,
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
    AllocationState,
    AttemptState,
    ExperimentState,
    NodeState,
    TrialState,
)
from muster_server.services.core.assignments import bump_assignments
from muster_server.services.core.events import Level, add_event
from muster_server.services.core.writes import Outdated, require_one
from muster_server.services.nodes import preflights
from muster_server.services.nodes.leaving import remove_row
from muster_server.services.scheduling.allocations import clean
from muster_server.services.scheduling.preemption import ask_to_yield
from muster_server.services.search import events
from muster_server.services.search.notices import NotedTrial

# Statements are written down once: putting them together takes longer than carrying them out.

_allocations, _attempts = cast(Table, AllocationRow.__table__), cast(Table, AttemptRow.__table__)
_trials, _experiments = cast(Table, TrialRow.__table__), cast(Table, ExperimentRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_LOCK_ALLOCATIONS = (
    select(_allocations.c.id)
    .where(_allocations.c.id.in_(_IDS))
    .order_by(_allocations.c.id)
    .with_for_update()
)
_ATTEMPT = (
    select(_attempts.c.trial_id, _attempts.c.no, _attempts.c.started_at, _trials.c.experiment_id)
    .join(_trials, _trials.c.id == _attempts.c.trial_id)
    .where(_attempts.c.id == bindparam("attempt_id"))
)
_FIRST_WORKER = select(func.min(WorkerRow.started_at)).where(
    WorkerRow.trial_id == bindparam("trial_id"), WorkerRow.attempt_no == bindparam("attempt_no")
)
_BEGIN_EXPERIMENT = (
    update(_experiments)
    .where(_experiments.c.id == bindparam("row_id"), _experiments.c.started_at.is_(None))
    .values(started_at=bindparam("at", type_=_experiments.c.started_at.type))
)
_LAST_END = select(func.max(_trials.c.ended_at)).where(
    _trials.c.experiment_id == bindparam("experiment_id")
)
_TRIAL = select(*columns_of(_trials, NotedTrial)).where(_trials.c.id == bindparam("trial_id"))


@functools.cache
def _change_desired(*names: str) -> Update:
    return (
        update(_allocations)
        .where(_allocations.c.id.in_(_IDS), _allocations.c.desired == bindparam("before"))
        .values({name: bindparam(f"new_{name}", type_=_allocations.c[name].type) for name in names})
    )


@functools.cache
def _change_state(table: Table, *names: str) -> Update:
    """Return an UPDATE of the state of a row and the named columns.

    The name first_started_at sets `started_at` only where it is null.
    """
    values: dict[str, Any] = {
        name: bindparam(f"new_{name}", type_=table.c[name].type)
        for name in names
        if name != "first_started_at"
    }
    if "first_started_at" in names:
        first = bindparam("new_first_started_at", type_=table.c.started_at.type)
        values["started_at"] = func.coalesce(table.c.started_at, first)
    return (
        update(table)
        .where(table.c.id == bindparam("row_id"), table.c.state == bindparam("before"))
        .values(values)
    )


def _change_one(
    session: Session, table: Table, row_id: int, before: str, values: Mapping[str, Any], what: str
) -> None:
    """Raises Outdated, with `what`, when the row is not in the state `before`."""
    session.flush()
    new = {f"new_{name}": value for name, value in values.items()}
    changed_rows = session.connection().execute(
        _change_state(table, *values), {"row_id": row_id, "before": before, **new}
    )
    if changed_rows.rowcount != 1:
        raise Outdated(what)


def apply_step(session: Session, step: LifecycleStep, *, now: dt.datetime) -> None:
    """Write one subject's actions. Raises Outdated, and then nothing must be committed, when
    something else was faster than one of them."""
    _lock_allocations(session, step)
    nodes: set[str] = set()
    freed: set[str] = set()
    for _, actions in itertools.groupby(step.actions, key=_kind):
        alike = list(actions)
        changed = _apply_alike(session, alike, now)
        if isinstance(alike[0], SetAllocation):
            freed |= changed
        else:
            nodes |= changed
    # To forget what has ended is not urgent, and most agents hear of it with their next allocation.
    bump_assignments(session, nodes | freed, asleep=freed - nodes)


def _lock_allocations(session: Session, step: LifecycleStep) -> None:
    ids = [a.allocation_id for a in step.actions if isinstance(a, SetAllocation | SetDesired)]
    if ids and session.get_bind().dialect.name != "sqlite":
        # The order in which records lock, too: allocations before attempts and trials.
        session.connection().execute(_LOCK_ALLOCATIONS, {"ids": ids}).all()


def _kind(action: Action) -> Hashable:
    """Equal for actions that one statement can carry out together."""
    match action:
        case SetAllocation(after=AllocationState.CLEANED):
            return "clean", action.before
        case SetDesired():
            return replace(action, allocation_id="", node_id="")
        case _:
            return id(action)


def _apply_alike(session: Session, actions: Sequence[Action], now: dt.datetime) -> set[str]:
    """Write actions of the same `_kind`; the nodes whose desired set they changed."""
    match actions[0]:
        case SetAllocation(after=AllocationState.CLEANED):
            ids = [a.allocation_id for a in actions if isinstance(a, SetAllocation)]
            return clean(session, ids, before=actions[0].before, now=now)
        case SetDesired():
            alike = [a for a in actions if isinstance(a, SetDesired)]
            _set_desired(session, alike)
            return {action.node_id for action in alike}
    return {node for action in actions for node in _apply(session, action, now)}


def _apply(session: Session, action: Action, now: dt.datetime) -> set[str]:
    """Write one action; the nodes whose desired set it changed."""
    match action:
        case SetNode():
            _set_node(session, action, now)
        case DrainNode():
            _drain_node(session, action, now)
        case RemoveNode():
            _remove_node(session, action, now)
        case SetAllocation():
            _set_allocation(session, action, now)
        case SetYield():
            ask_to_yield(
                session,
                action.attempt_id,
                kind=action.kind,
                reason=action.reason,
                before=(action.before,),
                now=now,
            )
        case SetAttempt():
            _set_attempt(session, action, now)
        case SetTrial():
            _set_trial(session, action, now)
        case SetFlags():
            _set_flags(session, action, now)
        case Warn():
            _warn(session, action, now)
        case BeginPreflight():
            _begin_preflight(session, action, now)
        case AdvancePreflight():
            preflights.carry_out(
                session, action.preflight_id, action.decision, stage=action.stage, now=now
            )
        case SetExperiment():
            _set_experiment(session, action, now)
    return set()


def _set_node(session: Session, action: SetNode, now: dt.datetime) -> None:
    node = session.get(NodeRow, action.node_id)
    # Of an ONLINE node nothing has to be explained.
    reason, parts = to_columns(None if action.after == NodeState.ONLINE else action.reason)
    require_one(
        session,
        update(NodeRow)
        .where(NodeRow.id == action.node_id, NodeRow.state == action.before)
        .values(
            state=action.after,
            state_reason=reason,
            state_parts=parts,
        ),
        f"node {action.node_id} is not {action.before} any more",
    )
    level: Level = "info" if action.after == NodeState.ONLINE else "warning"
    verb = "is still" if action.before == action.after else "is"
    add_event(
        session,
        now=now,
        type="node.state",
        level="error" if action.after == NodeState.LOST else level,
        message=f"{node.name if node else action.node_id} {verb} {action.after}. {action.reason.english}",
        node_id=action.node_id,
        data={"before": action.before, "after": action.after},
    )
    touch(session, "cluster", f"node:{action.node_id}", "loops")


def _drain_node(session: Session, action: DrainNode, now: dt.datetime) -> None:
    require_one(
        session,
        update(NodeRow)
        .where(NodeRow.id == action.node_id, NodeRow.scheduling == action.before)
        .values(scheduling="draining"),
        f"node {action.node_id} is not {action.before} any more",
    )
    node = session.get_one(NodeRow, action.node_id, populate_existing=True)
    add_event(
        session,
        "node.scheduling",
        f"{node.name} is draining. {action.reason.english}",
        now=now,
        node_id=node.id,
    )
    touch(session, "cluster", f"node:{node.id}", "loops")


def _remove_node(session: Session, action: RemoveNode, now: dt.datetime) -> None:
    node = session.get(NodeRow, action.node_id, with_for_update=True, populate_existing=True)
    if node is None or node.state != action.before:
        raise Outdated(f"node {action.node_id} is not {action.before} any more")
    remove_row(session, node, f"{node.name} is REMOVED. {action.reason.english}", now=now)


def _set_allocation(session: Session, action: SetAllocation, now: dt.datetime) -> None:
    conditions = [
        AllocationRow.id == action.allocation_id,
        AllocationRow.observed == action.before,
    ]
    if action.after == AllocationState.LOST:
        # Its agent may have come back and been told to keep it, a moment ago.
        held = select(AllocationRow.node_id).where(AllocationRow.id == action.allocation_id)
        node = select(NodeRow.state).where(NodeRow.id == held.scalar_subquery())
        state = session.scalar(node)
        # A heartbeat makes a SUSPECT one ONLINE, and looks for what is LOST after that.
        if state == NodeState.SUSPECT:
            state = session.scalar(node.with_for_update())
        if state not in (None, NodeState.SUSPECT, NodeState.LOST):
            raise Outdated(f"the node of allocation {action.allocation_id} is {state}")
    require_one(
        session,
        update(AllocationRow)
        .where(*conditions)
        .values(observed=action.after, state_since=now, ended_at=now, message=action.reason),
        f"allocation {action.allocation_id} is not {action.before} any more",
    )
    if action.after == AllocationState.LOST:
        session.execute(
            update(WorkerRow)
            .where(WorkerRow.allocation_id == action.allocation_id, WorkerRow.ended_at.is_(None))
            .values(ended_at=now, exit_message=action.reason)
        )


def _set_desired(session: Session, actions: Sequence[SetDesired]) -> None:
    """They differ in their allocations alone."""
    action = actions[0]
    values: dict[str, Any] = {"desired": action.after}
    if action.after != "start":
        values |= {
            "stop_reason": action.reason,
            "stop_kind": action.kind,
            "stop_grace_s": action.grace_s,
        }
    ids = [a.allocation_id for a in actions]
    found = session.connection().execute(
        _change_desired(*values),
        {"ids": ids, "before": action.before, **{f"new_{k}": v for k, v in values.items()}},
    )
    if found.rowcount != len(ids):
        raise Outdated(f"of {ids} some are not wanted {action.before} any more")


def _set_attempt(session: Session, action: SetAttempt, now: dt.datetime) -> None:
    connection = session.connection()
    attempt = connection.execute(_ATTEMPT, {"attempt_id": action.attempt_id}).one()
    values: dict[str, Any] = {"state": action.after, "reason": action.reason}
    is_new_end = action.after in TERMINAL_ATTEMPT and action.before != action.after
    if action.after == AttemptState.RUNNING or (
        action.after == AttemptState.WINDING_DOWN and not attempt.started_at
    ):
        first_at = _first_worker_at(session, attempt.trial_id, attempt.no, now)
        values["started_at"] = first_at or now
    if is_new_end:
        values["ended_at"] = now
    if action.termination is not None:
        values |= {
            "termination": action.termination.value,
            "root_rank": action.root_rank,
            "root_log_tail": list(action.root_log_tail),
        }
    _change_one(
        session,
        _attempts,
        action.attempt_id,
        action.before,
        values,
        f"attempt {action.attempt_id} is not {action.before} any more",
    )
    level: Level = "warning" if action.after in (AttemptState.FAILED, AttemptState.LOST) else "info"
    verb = "ended" if action.before == action.after else "is"
    add_event(
        session,
        now=now,
        type="attempt.state",
        level=level,
        message=f"Attempt {attempt.no} {verb} {action.after}: {action.reason}.",
        experiment_id=attempt.experiment_id,
        trial_id=attempt.trial_id,
        attempt_no=attempt.no,
        data={"before": action.before, "after": action.after, "root_rank": action.root_rank},
    )
    touch(session, f"trial:{attempt.trial_id}")


def _set_trial(session: Session, action: SetTrial, now: dt.datetime) -> None:
    values: dict[str, Any] = {
        "state": action.after,
        "reason": action.reason,
        "not_before": action.not_before,
        "pending_reason": "",
        "estimated_start_at": None,
        "promised_since": None,
    }
    for counter in ("failures_user", "failures_infra", "no_progress"):
        if (value := getattr(action, counter)) is not None:
            values[counter] = value
    if action.avoided is not None:
        values["avoided"] = to_plain(action.avoided)
    if action.after == TrialState.QUEUED:
        values["waiting_since"] = now
    is_over = action.after in TERMINAL_TRIAL
    if is_over or action.after == TrialState.RUNNING:
        attempt_no = _noted(session, action.trial_id).attempt_no
        started_at = _first_worker_at(session, action.trial_id, attempt_no, now)
        if started_at is not None or action.after in (TrialState.RUNNING, TrialState.COMPLETED):
            values["first_started_at"] = started_at or now
    if is_over:
        values |= {
            "ended_at": now,
            "termination": action.termination.value if action.termination else None,
            "logs_complete": action.logs_complete,
            "flags": [],
        }
    _change_one(
        session,
        _trials,
        action.trial_id,
        action.before,
        values,
        f"trial {action.trial_id} is not {action.before} any more",
    )
    trial = _noted(session, action.trial_id)
    if "first_started_at" in values:
        # An experiment has run since its first trial has, so that both say the same time.
        session.connection().execute(
            _BEGIN_EXPERIMENT, {"row_id": trial.experiment_id, "at": values["first_started_at"]}
        )
    levels: dict[str, Level] = {TrialState.FAILED: "error", TrialState.RETRY_WAIT: "warning"}
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
        events.on_trial_terminal(session, trial, now)
    elif action.after == TrialState.PAUSED:
        events.on_trial_paused(session, trial, now)
    touch(
        session,
        "cluster",
        "experiments",
        "loops",
        f"experiment:{trial.experiment_id}",
        f"trial:{trial.id}",
    )


def _noted(session: Session, trial_id: int) -> NotedTrial:
    """Return a trial as its search takes note of it."""
    return NotedTrial(*session.connection().execute(_TRIAL, {"trial_id": trial_id}).one())


def _first_worker_at(
    session: Session, trial_id: int, attempt_no: int, now: dt.datetime
) -> dt.datetime | None:
    """Return when the first worker of an attempt reported, which may be several passes ago; None if
    none has."""
    at: dt.datetime | None = session.connection().scalar(
        _FIRST_WORKER, {"trial_id": trial_id, "attempt_no": attempt_no}
    )
    return None if at is None else min(at, now)


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


def _warn(session: Session, action: Warn, now: dt.datetime) -> None:
    trial = session.get_one(TrialRow, action.trial_id)
    add_event(
        session,
        "attempt.warning",
        action.reason,
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=action.attempt_no,
    )


def _begin_preflight(session: Session, action: BeginPreflight, now: dt.datetime) -> None:
    attempt = session.get_one(AttemptRow, action.attempt_id, with_for_update=True)
    is_begun = session.scalar(
        select(PreflightRow.id).where(
            PreflightRow.trial_id == attempt.trial_id, PreflightRow.attempt_no == attempt.no
        )
    )
    if attempt.state != action.before or is_begun is not None:
        raise Outdated(f"attempt {attempt.id} is {attempt.state}, or has its preflight already")
    members = session.scalars(
        select(AllocationRow)
        .where(AllocationRow.attempt_id == attempt.id)
        .order_by(AllocationRow.node_rank)
    ).all()
    preflights.begin(
        session,
        [
            (
                m.node_id,
                m.node_name,
                _devices_to_try(m) if action.before == AttemptState.PREPARING else [],
            )
            for m in members
        ],
        requested_by="the controller",
        python=members[0].spec.get("python"),
        trial_id=attempt.trial_id,
        attempt_no=attempt.no,
        now=now,
    )
    if action.before == AttemptState.STARTING:
        trial = session.get_one(TrialRow, attempt.trial_id)
        add_event(
            session,
            "attempt.preflight",
            f"{action.reason}.",
            now=now,
            level="warning",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=attempt.no,
        )


def _devices_to_try(member: AllocationRow) -> list[int]:
    """Its own, before its workers start: afterwards they belong to the workers."""
    return list(member.slots) if member.spec.get("slot_type") == "cuda" else []


def _set_experiment(session: Session, action: SetExperiment, now: dt.datetime) -> None:
    values: dict[str, Any] = {"state": action.after, "reason": action.reason}
    if action.after in TERMINAL_EXPERIMENT:
        last = session.connection().scalar(_LAST_END, {"experiment_id": action.experiment_id})
        values |= {
            "ended_at": now if last is None else last,
            "termination": action.termination.value if action.termination else None,
        }
    _change_one(
        session,
        _experiments,
        action.experiment_id,
        action.before,
        values,
        f"experiment {action.experiment_id} is not {action.before} any more",
    )
    add_event(
        session,
        now=now,
        type="experiment.state",
        level="error" if action.after == ExperimentState.FAILED else "info",
        message=f"The experiment is {action.after}: {action.reason}.",
        experiment_id=action.experiment_id,
        data={"before": action.before, "after": action.after},
    )
    touch(session, "cluster", "experiments", "loops", f"experiment:{action.experiment_id}")
