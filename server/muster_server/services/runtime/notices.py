"""What a user should know about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.wire import NEAR_LIMIT
from muster_server.db.models import EventRow, TrialRow, WorkerRow
from muster_server.domain.lifecycle.outcomes import DOUBTFUL
from muster_server.domain.messages import AnyMessage, Rendered
from muster_server.domain.runtime.notices import ScriptRun, script_notices
from muster_server.domain.states import TERMINAL_TRIAL, TrialState

from . import quiet

NEAR_LIMIT_SHOWN = 5
"""Nodes that are named one by one."""


def notices(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[AnyMessage]:
    """Return the notices to show at the top of a trial, most serious first: limits that it is near to
    while it has not ended, then what its script does otherwise than intended."""
    return [
        *_near_limits(session, trial),
        *([quiet.MESSAGE] if quiet.QUIET in trial.flags else ()),
        *_doubts(trial),
        *_of_script(session, trial, config),
    ]


def _doubts(trial: TrialRow) -> list[AnyMessage]:
    """Return what makes it doubtful that a trial has ended well; [] for nothing."""
    if trial.state != TrialState.COMPLETED or not (trial.reason or "").startswith(DOUBTFUL):
        return []
    return [Rendered(f"{trial.reason[:1].upper()}{trial.reason[1:]}.")]


def _near_limits(session: Session, trial: TrialRow) -> list[AnyMessage]:
    if trial.state in TERMINAL_TRIAL:
        return []
    messages = session.scalars(
        select(EventRow.message)
        .where(
            EventRow.trial_id == trial.id,
            EventRow.attempt_no == trial.attempt_no,
            EventRow.type == NEAR_LIMIT,
        )
        .order_by(EventRow.id)
        .limit(NEAR_LIMIT_SHOWN)
    )
    return [Rendered(message) for message in messages]


def _of_script(session: Session, trial: TrialRow, config: ExperimentConfig) -> Sequence[AnyMessage]:
    """Return what is to be said about a script; [] for built-in programs and for scripts that are not
    measured."""
    if config.built_in_module is not None or not (config.measure.steps and config.measure.scripts):
        return []
    workers = session.execute(
        select(WorkerRow.world_size, WorkerRow.reports, WorkerRow.backend).where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no
        )
    ).all()
    sent = trial.summary.get("comm/bytes")
    return script_notices(
        ScriptRun(
            state=trial.state,
            launcher=config.launcher,
            world_size=max((worker.world_size for worker in workers), default=0),
            num_reporting=sum(worker.reports for worker in workers),
            backends=frozenset(worker.backend for worker in workers),
            step=trial.step,
            metrics=trial.summary.keys(),
            max_comm_bytes=sent["max"] if sent is not None else None,
        )
    )
