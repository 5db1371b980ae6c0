"""What a user should know about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import ProcessGroupRow, TrialRow, WorkerRow
from muster_server.domain.messages import Message
from muster_server.domain.runtime.notices import ScriptRun, script_notices


def notices(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[Message]:
    """Return the notices to show at the top of a trial, most serious first; [] for the built-in
    trainer and for scripts that are not measured."""
    if config.trainer is not None or not (config.measure.steps and config.measure.scripts):
        return []
    world_size, num_reporting, num_with_backend = session.execute(
        select(
            func.coalesce(func.max(WorkerRow.world_size), 0),
            func.count().filter(WorkerRow.reports),
            func.count().filter(WorkerRow.backend != ""),
        ).where(WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no)
    ).one()
    group = select(ProcessGroupRow.id).where(
        ProcessGroupRow.trial_id == trial.id,
        ProcessGroupRow.attempt_no == trial.attempt_no,
        ProcessGroupRow.backend != "",
    )
    return script_notices(
        ScriptRun(
            state=trial.state,
            world_size=world_size,
            num_reporting=num_reporting,
            has_process_group=num_with_backend > 0 or session.scalar(group.limit(1)) is not None,
            step=trial.step,
            metrics=trial.summary.keys(),
        )
    )
