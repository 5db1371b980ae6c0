"""What a user should know about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import TrialRow, WorkerRow
from muster_server.domain.messages import Message
from muster_server.domain.runtime.notices import ScriptRun, script_notices


def notices(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[Message]:
    """Return the notices to show at the top of a trial, most serious first; [] for the built-in
    trainer and for scripts that are not measured."""
    if config.trainer is not None or not (config.measure.steps and config.measure.scripts):
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
            world_size=max((worker.world_size for worker in workers), default=0),
            num_reporting=sum(worker.reports for worker in workers),
            backends=frozenset(worker.backend for worker in workers),
            step=trial.step,
            metrics=trial.summary.keys(),
            max_comm_bytes=sent["max"] if sent is not None else None,
        )
    )
