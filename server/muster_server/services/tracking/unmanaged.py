"""Unmanaged experiments: one trial, which a client outside the cluster trains and reports.

To the lifecycle it is an external trial, like those of a search that is run from outside: it has no
attempts and takes no slots. Only its client ends it, or a user who closes it. However long it is silent,
it stays RUNNING, because nothing here can tell a pause from an end.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, TrackedRunRow, TrialRow
from muster_server.domain.lifecycle import LifecycleStep, SetExperiment
from muster_server.domain.search import Searcher
from muster_server.domain.states import (
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
    ExperimentState,
    Termination,
    TrialState,
)
from muster_server.errors import Conflict
from muster_server.schemas.experiments import ExperimentIn

from ..core.callers import Caller, note
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from ..documents import search_spec
from ..experiments.ask_tell import set_state
from ..experiments.submission import create_experiment
from ..lifecycle import apply_step
from ..search import decide as search

ENDS: Mapping[str, tuple[TrialState, Termination, str]] = {
    "FINISHED": (TrialState.COMPLETED, Termination.SUCCESS, "reported as finished by its client"),
    "FAILED": (TrialState.FAILED, Termination.USER_ERROR, "reported as failed by its client"),
    "KILLED": (TrialState.CANCELED, Termination.CANCELED, "reported as killed by its client"),
}
"""Ends that a client can report, by MLflow's status."""


def create(
    session: Session,
    *,
    name: str,
    project: str,
    labels: Mapping[str, str],
    notes: str,
    client: str,
    caller: Caller,
) -> TrialRow:
    """Create an unmanaged experiment whose trial is running. Raises InvalidRequest and Forbidden."""
    document: dict[str, Any] = {
        "name": name,
        "project": project,
        "labels": dict(labels),
        "notes": notes,
        "search": {"runner": "external"},
    }
    who = caller.principal
    body = ExperimentIn(document=json.dumps(document))
    made = create_experiment(
        session, body, user_id=who.user_id, user_name=who.name, role=who.role, now=caller.now
    )
    experiment = session.get_one(ExperimentRow, made.experiment_id)
    experiment.unmanaged = client
    trial = session.scalars(select(TrialRow).where(TrialRow.experiment_id == experiment.id)).one()
    trial.heard_at = caller.now
    _run(session, experiment, trial, f"started by {client}", caller.now)
    return trial


def end(session: Session, trial: TrialRow, status: str, now: dt.datetime) -> None:
    """End a trial, which is locked, as its client reports it. Raises search.Raced and Outdated."""
    _end(session, trial, *ENDS[status], now)


def reopen(session: Session, trial: TrialRow, now: dt.datetime) -> None:
    """Let an ended trial, which is locked, run on, as its client does. Raises search.Raced."""
    session.flush()
    search.run_search(session, trial.experiment_id, now)
    experiment = session.get_one(
        ExperimentRow,
        trial.experiment_id,
        populate_existing=True,
        options=[undefer(ExperimentRow.search_state)],
    )
    searcher = Searcher.from_state(experiment.search_state or {})
    actions = searcher.reopen(search_spec(experiment.config), [trial.no])
    experiment.search_state = searcher.state()
    if experiment.state in TERMINAL_EXPERIMENT:
        experiment.state = ExperimentState.QUEUED
    experiment.desired, experiment.stop_reason, experiment.termination = "run", "", None
    experiment.ended_at = None
    experiment.num_continued += 1
    session.flush()
    search.carry_out(session, experiment, actions, now)
    session.flush()
    session.refresh(trial)
    _run(session, experiment, trial, "resumed by its client", now)


def close(session: Session, experiment_id: int, caller: Caller) -> None:
    """End a run whose client will not. Closing it again changes nothing.

    Raises NotFound, Forbidden, Conflict and search.Raced.
    """
    experiment = get_experiment(session, experiment_id)
    require_charge(session, caller.principal, experiment)
    if experiment.unmanaged is None:
        raise Conflict(
            "experiments.managed",
            f"Experiment {experiment_id} runs on the cluster.",
            hint="Stop it instead.",
        )
    trial = session.scalars(
        select(TrialRow)
        .where(TrialRow.experiment_id == experiment_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()
    if trial.state in TERMINAL_TRIAL:
        return
    run = session.scalars(select(TrackedRunRow).where(TrackedRunRow.trial_id == trial.id)).one()
    run.status, run.ended_at = "KILLED", caller.now
    reason = f"closed by {caller.principal.name}"
    _end(session, trial, TrialState.CANCELED, Termination.CANCELED, reason, caller.now)
    note(session, "experiments.closed", experiment_id, caller)
    touch(session, "experiments", f"experiment:{experiment_id}")


def _run(
    session: Session, experiment: ExperimentRow, trial: TrialRow, reason: str, now: dt.datetime
) -> None:
    set_state(session, trial, TrialState.RUNNING, reason, None, now)
    if experiment.state == ExperimentState.QUEUED:
        start = SetExperiment(
            experiment_id=experiment.id,
            before=ExperimentState.QUEUED,
            after=ExperimentState.RUNNING,
            reason=reason,
        )
        subject = f"experiment:{experiment.id}"
        apply_step(session, LifecycleStep(subject=subject, actions=(start,)), now=now)
        session.refresh(experiment)


def _end(
    session: Session,
    trial: TrialRow,
    after: TrialState,
    termination: Termination,
    reason: str,
    now: dt.datetime,
) -> None:
    if after == TrialState.CANCELED:
        set_state(session, trial, TrialState.STOPPING, reason, None, now)
    set_state(session, trial, after, reason, termination, now)
    session.flush()
    search.run_search(session, trial.experiment_id, now)
