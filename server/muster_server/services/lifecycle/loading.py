"""The lifecycle's first end: the present state, out of the tables."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import and_, bindparam, exists, func, or_, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.wire import ExitInfo, NodeFacts, load
from muster_server.db.models import (
    AllocationRow,
    ApiServerRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    PilotRow,
    PreflightRow,
    TrialRow,
)
from muster_server.db.raw import AnyRow
from muster_server.db.rows import from_row
from muster_server.domain.durations import parse_duration
from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    ExperimentView,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    ServerLease,
    TrialView,
)
from muster_server.domain.lifecycle.avoidance import from_plain
from muster_server.domain.lifecycle.outcomes import DOUBTFUL
from muster_server.domain.lifecycle.restarts import RestartPolicy
from muster_server.domain.lifecycle.time_limit import RunTime, ran_for, time_limit_reason
from muster_server.domain.providers import PilotState
from muster_server.domain.scheduling.nodes import could_hold
from muster_server.domain.scheduling.resources import request_for
from muster_server.domain.states import (
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
    AllocationState,
    NodeState,
    Termination,
    TrialState,
    YieldKind,
)
from muster_server.services.core.periods import load_schedule
from muster_server.services.lifecycle.run_times import load_run_times
from muster_server.services.nodes import preflights
from muster_server.services.scheduling.snapshot import load_nodes
from muster_server.services.search import notices

ACTIVE = (TrialState.STARTING, TrialState.RUNNING, TrialState.STOPPING)
LONGEST_BACKOFF = dt.timedelta(seconds=RestartPolicy().backoff_max_s)
WAITING = (TrialState.QUEUED, TrialState.RETRY_WAIT, TrialState.PAUSED)

# Statements are written down once: putting them together takes longer than carrying them out, and
# every pass of the controller asks the same.

_NODES = select(
    NodeRow.id,
    NodeRow.name,
    NodeRow.pool,
    NodeRow.state,
    NodeRow.last_seen_at,
    NodeRow.registered_at,
    NodeRow.lease_expires_at,
    NodeRow.health,
    NodeRow.scheduling,
    NodeRow.heard_by,
    NodeRow.state_parts,
    NodeRow.is_pilot,
    NodeRow.ends_at,
    exists()
    .where(PilotRow.id == NodeRow.name, PilotRow.state == PilotState.ENDED)
    .label("job_has_ended"),
).order_by(NodeRow.name)
_SERVERS = select(ApiServerRow.name, ApiServerRow.stamped_at).order_by(ApiServerRow.name)
_LOST = (
    select(AllocationRow.id, AllocationRow.node_id)
    .where(AllocationRow.observed == AllocationState.LOST)
    .order_by(AllocationRow.id)
)
_DUE = and_(
    TrialRow.state.in_(WAITING),
    or_(
        TrialRow.desired.in_(("stop", "kill", "early")),
        ExperimentRow.desired.in_(("stop", "kill")),
        ExperimentRow.exhausted_reason != "",
        and_(
            TrialRow.state != TrialState.PAUSED,
            or_(ExperimentRow.desired == "pause", TrialRow.desired == "pause"),
        ),
        and_(
            TrialRow.state == TrialState.PAUSED,
            ExperimentRow.desired == "run",
            TrialRow.desired == "run",
        ),
        and_(
            TrialRow.state == TrialState.RETRY_WAIT,
            or_(
                TrialRow.not_before.is_(None),
                TrialRow.not_before <= bindparam("now", type_=TrialRow.not_before.type),
                # The clock was set back: see domain.lifecycle.trials.
                TrialRow.not_before > bindparam("late", type_=TrialRow.not_before.type),
            ),
        ),
    ),
)
_TRIALS = (
    select(
        TrialRow.id,
        TrialRow.no,
        TrialRow.experiment_id,
        TrialRow.state,
        TrialRow.desired,
        TrialRow.not_before,
        TrialRow.failures_user,
        TrialRow.failures_infra,
        TrialRow.no_progress,
        TrialRow.avoided,
        TrialRow.flags,
        TrialRow.guard_reason,
        ExperimentRow.desired.label("experiment_desired"),
        ExperimentRow.exhausted_reason,
        ExperimentRow.stop_reason,
        ExperimentRow.config,
        ExperimentRow.purpose,
        ExperimentRow.reason.label("experiment_reason"),
        CheckpointRow.step.label("checkpoint_step"),
    )
    .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
    .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
    .where(or_(TrialRow.state.in_(ACTIVE), _DUE))
    .order_by(TrialRow.id)
)
_CURRENT = and_(TrialRow.id == AttemptRow.trial_id, TrialRow.attempt_no == AttemptRow.no)
_MEMBERS = (
    select(
        AllocationRow.id,
        AllocationRow.attempt_id,
        AllocationRow.node_id,
        AllocationRow.node_name,
        AllocationRow.node_rank,
        AllocationRow.observed,
        AllocationRow.desired,
        AllocationRow.state_since,
        AllocationRow.message,
        AllocationRow.exit,
        AllocationRow.facts,
        AllocationRow.is_node_at_fault,
        AllocationRow.role,
        AllocationRow.role_index,
    )
    .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
    .join(TrialRow, _CURRENT)
    .where(TrialRow.state.in_(ACTIVE))
    .order_by(AllocationRow.node_rank)
)
_ATTEMPTS = (
    select(
        AttemptRow.trial_id,
        AttemptRow.id,
        AttemptRow.no,
        AttemptRow.state,
        AttemptRow.num_nodes,
        AttemptRow.created_at,
        AttemptRow.started_at,
        AttemptRow.ended_at,
        AttemptRow.resume_step,
        AttemptRow.rendezvous_port,
        AttemptRow.termination,
        AttemptRow.reason,
        AttemptRow.root_rank,
        AttemptRow.yield_kind,
        AttemptRow.yield_reason,
        AttemptRow.yield_slots,
        AttemptRow.yield_at,
        AttemptRow.stuck_reason,
    )
    .join(TrialRow, _CURRENT)
    .where(TrialRow.state.in_(ACTIVE))
)
_PREFLIGHTS = (
    select(PreflightRow)
    .join(
        TrialRow,
        and_(
            TrialRow.id == PreflightRow.trial_id,
            TrialRow.attempt_no == PreflightRow.attempt_no,
        ),
    )
    .where(TrialRow.state.in_(ACTIVE))
)
_IS_OPEN = ExperimentRow.state.not_in(TERMINAL_EXPERIMENT)
_NUM_TRIALS = (
    select(TrialRow.experiment_id, TrialRow.state, func.count())
    .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
    .where(_IS_OPEN)
    .group_by(TrialRow.experiment_id, TrialRow.state)
)
_EXPERIMENTS = (
    select(
        ExperimentRow.id,
        ExperimentRow.state,
        ExperimentRow.desired,
        ExperimentRow.exhausted_reason,
        ExperimentRow.stop_reason,
        ExperimentRow.search_state["finished"].as_boolean().label("finished"),
        ExperimentRow.search_state["finish_reason"].as_string().label("finish_reason"),
        ExperimentRow.search_state["spec"]["trials"].as_integer().label("planned"),
    )
    .where(_IS_OPEN)
    .order_by(ExperimentRow.id)
)


def load_lifecycle_snapshot(
    session: Session, *, leader_since: dt.datetime, now: dt.datetime
) -> LifecycleSnapshot:
    """Return everything the lifecycle decides on. Waiting trials only where something is due."""
    connection = session.connection()
    experiments = _load_experiments(session)
    schedule = load_schedule(session, now=now)
    return LifecycleSnapshot(
        leader_since=leader_since,
        nodes=tuple(
            from_row(
                NodeLease,
                node,
                lease_s=(node.lease_expires_at - node.last_seen_at).total_seconds(),
                stopped_by=schedule.why_stopped(node=node.name, pool=node.pool),
                reason_code=node.state_parts[0]["code"] if node.state_parts else "",
            )
            for node in connection.execute(_NODES)
        ),
        servers=tuple(
            ServerLease(name=row.name, stamped_at=row.stamped_at)
            for row in connection.execute(_SERVERS)
        ),
        trials=tuple(_load_trials(session, now)),
        lost=tuple(
            LostAllocation(id=row.id, node_id=row.node_id) for row in connection.execute(_LOST)
        ),
        experiments=tuple(experiments),
        preflights=preflights.load_open(session),
    )


def _load_trials(session: Session, now: dt.datetime) -> list[TrialView]:
    attempts = _load_attempts(session)
    due = {"now": now, "late": now + LONGEST_BACKOFF}
    rows = session.connection().execute(_TRIALS, due).all()
    limited = [row.id for row in rows if row.config.resources.max_duration]
    ran = load_run_times(session, limited)
    return [
        _with_elsewhere(
            session,
            _trial_view(row, attempts.get(row.id), ran.get(row.id, ()), now=now),
            row.config,
        )
        for row in rows
    ]


def _with_elsewhere(session: Session, view: TrialView, config: ExperimentConfig) -> TrialView:
    """Looks at the nodes' slots only where a node of its attempt lacks what it needs."""
    here = {m.node_name for m in (view.attempt.allocations if view.attempt else ()) if m.lacks}
    if not here:
        return view
    lacking = here | {a.node for a in view.avoided if a.is_lacking}
    others = [node for node in load_nodes(session) if node.name not in lacking]
    there = [node for node in others if node.state not in (NodeState.LOST, NodeState.REMOVED)]
    return replace(view, has_elsewhere=could_hold(request_for(config), there))


def _trial_view(
    trial: AnyRow, attempt: AttemptView | None, ran: Sequence[RunTime], *, now: dt.datetime
) -> TrialView:
    """Return a trial from a row of `_TRIALS`."""
    config = trial.config
    return TrialView(
        id=trial.id,
        no=trial.no,
        experiment_id=trial.experiment_id,
        state=trial.state,
        desired=trial.desired,
        experiment_desired=trial.experiment_desired,
        exhausted_reason=trial.exhausted_reason,
        time_limit_reason=_time_limit_reason(trial, ran, now=now),
        stop_reason=trial.guard_reason or trial.stop_reason,
        early_reason=trial.experiment_reason if trial.purpose and trial.desired == "early" else "",
        not_before=trial.not_before,
        failures_user=trial.failures_user,
        failures_infra=trial.failures_infra,
        no_progress=trial.no_progress,
        avoided=from_plain(trial.avoided),
        budget_user=config.restarts.user,
        budget_infra=config.restarts.infra,
        stop_grace_s=config.stop_grace_s,
        on_disconnect=config.on_disconnect,
        versions=config.preflight.versions,
        preflight_wanted=config.preflight.network,
        checkpoint_step=trial.checkpoint_step,
        roles=config.roles,
        flags=tuple(trial.flags),
        attempt=attempt,
    )


def _time_limit_reason(trial: AnyRow, ran: Sequence[RunTime], *, now: dt.datetime) -> str:
    written = trial.config.resources.max_duration
    if written is None or trial.state not in ACTIVE:
        return ""
    limit = parse_duration(written)
    return time_limit_reason(
        limit, written, ran_for(ran, now=now), experiment_id=trial.experiment_id
    )


def _load_attempts(session: Session) -> dict[int, AttemptView]:
    """Return the current attempt by trial ID, for trials that have one under way."""
    members: dict[int, list[AllocationView]] = defaultdict(list)
    for row in session.connection().execute(_MEMBERS):
        members[row.attempt_id].append(
            from_row(
                AllocationView,
                row,
                exit=load(ExitInfo, row.exit) if row.exit is not None else None,
                facts=load(NodeFacts, row.facts) if row.facts is not None else None,
            )
        )
    tried = {row.trial_id: preflights.outcome_of(row) for row in session.scalars(_PREFLIGHTS)}
    return {
        row.trial_id: from_row(
            AttemptView,
            row,
            has_rendezvous=row.rendezvous_port is not None,
            yield_kind=YieldKind(row.yield_kind) if row.yield_kind is not None else None,
            preflight=tried.get(row.trial_id),
            allocations=tuple(members[row.id]),
        )
        for row in session.connection().execute(_ATTEMPTS)
    }


def _load_experiments(session: Session) -> list[ExperimentView]:
    connection = session.connection()
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    grouped = connection.execute(_NUM_TRIALS)
    for experiment_id, state, num in grouped:
        counts[experiment_id][state] = num
    rows = connection.execute(_EXPERIMENTS)
    return [
        from_row(
            ExperimentView,
            row,
            search_finished=bool(row.finished),
            num_planned=row.planned,
            num_by_state=counts[row.id],
            failure=_first_failure(session, row.id)
            if counts[row.id].get(TrialState.FAILED)
            else "",
            time_limit=_first_out_of_time(session, row.id)
            if counts[row.id].get(TrialState.CANCELED)
            else "",
            doubt=_first_doubt(session, row.id)
            if row.finished and TERMINAL_TRIAL.issuperset(counts[row.id])
            else "",
            is_array=_is_array(session, row.id)
            if row.finished and TERMINAL_TRIAL.issuperset(counts[row.id])
            else False,
            unjudged=notices.unjudged(session, row.id, row.finish_reason or "")
            if row.finished and TERMINAL_TRIAL.issuperset(counts[row.id])
            else "",
        )
        for row in rows
    ]


def _is_array(session: Session, experiment_id: int) -> bool:
    config = session.scalar(select(ExperimentRow.config).where(ExperimentRow.id == experiment_id))
    return config is not None and bool(config.array)


def _first_out_of_time(session: Session, experiment_id: int) -> str:
    found = session.scalar(
        select(TrialRow.reason)
        .where(
            TrialRow.experiment_id == experiment_id,
            TrialRow.state == TrialState.CANCELED,
            TrialRow.termination == Termination.TIME_LIMIT,
        )
        .order_by(TrialRow.no)
        .limit(1)
    )
    return found or ""


def _first_doubt(session: Session, experiment_id: int) -> str:
    row = session.execute(
        select(TrialRow.no, TrialRow.reason)
        .where(
            TrialRow.experiment_id == experiment_id,
            TrialRow.state == TrialState.COMPLETED,
            TrialRow.reason.startswith(DOUBTFUL),
        )
        .order_by(TrialRow.no)
        .limit(1)
    ).one_or_none()
    return f"trial {row.no}: {row.reason}" if row is not None else ""


def _first_failure(session: Session, experiment_id: int) -> str:
    row = session.execute(
        select(TrialRow.no, TrialRow.reason)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.state == TrialState.FAILED)
        .order_by(TrialRow.no)
        .limit(1)
    ).one_or_none()
    return f"trial {row.no}: {row.reason}" if row is not None else ""
