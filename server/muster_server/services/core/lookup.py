"""Find the experiment, trial or project that a request names, or refuse the request."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, ProjectRow, TrialRow
from muster_server.errors import NotFound


def get_experiment(session: Session, experiment_id: int, *, lock: bool = False) -> ExperimentRow:
    """Return the experiment, locked until the end of the transaction if asked.

    Raises NotFound, also for one that is being deleted.
    """
    row = session.get(ExperimentRow, experiment_id, with_for_update=True if lock else None)
    if row is None or row.deleting_at is not None:
        raise NotFound("experiments.not_found", f"There is no experiment {experiment_id}.")
    return row


def get_trial(session: Session, trial_id: int, *, lock: bool = False) -> TrialRow:
    """Return the trial, locked until the end of the transaction if asked.

    Raises NotFound, also for a trial of an experiment that is being deleted.
    """
    row = session.get(TrialRow, trial_id, with_for_update=True if lock else None)
    if row is None or session.get_one(ExperimentRow, row.experiment_id).deleting_at is not None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return row


def get_project(session: Session, name: str, *, lock: bool = False) -> ProjectRow:
    """Return the project, locked until the end of the transaction if asked. Raises NotFound."""
    query = select(ProjectRow).where(ProjectRow.name == name)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound("projects.not_found", f"There is no project {name[:128]!r}.")
    return row
