"""Sessions that have not ended, and when they end if nobody uses them."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import JSON, select, type_coerce
from sqlalchemy.orm import Session

from muster.durations import duration_s
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.messages import from_columns
from muster_server.domain.states import TERMINAL_EXPERIMENT, TrialState
from muster_server.schemas.base import parts_out
from muster_server.schemas.tunnels import InteractiveSessionListOut, InteractiveSessionOut

from ..core.callers import Caller
from ..core.ownership import is_in_charge

SESSIONS_MAX = 500
"""Sessions that are listed, the newest first."""
_SECTION = type_coerce(ExperimentRow.config, JSON)["session"]


def list_sessions(session: Session, caller: Caller) -> InteractiveSessionListOut:
    """Return the newest sessions that have not ended, of those that the caller sees."""
    node = (
        select(AllocationRow.node_name)
        .where(
            AllocationRow.trial_id == TrialRow.id, AllocationRow.attempt_no == TrialRow.attempt_no
        )
        .limit(1)
        .scalar_subquery()
    )
    rows = session.execute(
        select(
            ExperimentRow, TrialRow, ProjectRow.name, UserRow.username, node, AttemptRow.started_at
        )
        .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
        .outerjoin(
            AttemptRow,
            (AttemptRow.trial_id == TrialRow.id) & (AttemptRow.no == TrialRow.attempt_no),
        )
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(
            ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
            ExperimentRow.deleting_at.is_(None),
            _SECTION.as_string().is_not(None),
        )
        .order_by(ExperimentRow.id.desc())
        .limit(SESSIONS_MAX)
    ).all()
    return InteractiveSessionListOut(items=[_out(*row, caller=caller) for row in rows])


def _out(
    experiment: ExperimentRow,
    trial: TrialRow,
    project: str,
    owner: str | None,
    node: str | None,
    started_at: dt.datetime | None,
    *,
    caller: Caller,
) -> InteractiveSessionOut:
    section = experiment.config.session
    assert section is not None, "selected by it"
    limit_s = duration_s(section.idle) or 0.0
    is_running = trial.state == TrialState.RUNNING
    is_in_use, ends_at = None, None
    in_use, idle_s = (_last(trial, f"session/{name}") for name in ("in_use", "idle_s"))
    at = trial.progress_at
    # What an earlier attempt has reported says nothing of the server that runs now.
    if is_running and at is not None and started_at is not None and at >= started_at:
        is_in_use = bool(in_use)
        if not is_in_use:
            ends_at = at + dt.timedelta(seconds=limit_s - (idle_s or 0.0))
    return InteractiveSessionOut(
        experiment_id=experiment.id,
        name=experiment.name,
        kind=section.kind,
        project=project,
        owner=owner,
        state=trial.state,
        reason=trial.pending_reason,
        reason_parts=parts_out(from_columns(trial.pending_reason, trial.pending_parts)),
        node=node if is_running else None,
        slots=experiment.slots_per_trial,
        slot_type=experiment.config.resources.slot_type,
        idle=section.idle,
        is_in_use=is_in_use,
        ends_at=ends_at,
        may_enter=is_in_charge(caller.principal, experiment.owner_id),
        created_at=experiment.created_at,
    )


def _last(trial: TrialRow, name: str) -> float | None:
    value = (trial.summary.get(name) or {}).get("last")
    return float(value) if isinstance(value, int | float) else None
