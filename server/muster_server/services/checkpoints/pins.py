"""Checkpoints that people want to stay, whatever the policy of their experiment."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import CheckpointRow, ExperimentRow, ProjectRow, TrialRow
from muster_server.errors import Conflict, NotFound
from muster_server.schemas.checkpoints import CheckpointListItem

from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.ownership import require_charge
from . import listing


def pin(session: Session, checkpoint_id: int, caller: Caller) -> CheckpointListItem:
    """Pin it; one that is stays as it is. Raises NotFound, Forbidden, and Conflict when its files
    are gone or going."""
    row, trial, experiment = _find(session, checkpoint_id, caller)
    if row.state != "complete":
        raise Conflict(
            "checkpoints.gone",
            f"The files of checkpoint {row.id} are {row.state}.",
            hint="Pin another one of its trial.",
        )
    if row.pinned_at is None:
        row.pinned_at, row.pinned_by = caller.now, caller.principal.actor
        _tell(session, row, trial, "pinned", caller)
    return _shown(session, row, trial, experiment)


def unpin(session: Session, checkpoint_id: int, caller: Caller) -> CheckpointListItem:
    """Unpin it; one that is not pinned stays as it is. Raises NotFound, Forbidden."""
    row, trial, experiment = _find(session, checkpoint_id, caller)
    if row.pinned_at is not None:
        row.pinned_at, row.pinned_by = None, ""
        _tell(session, row, trial, "unpinned", caller)
    return _shown(session, row, trial, experiment)


def num_pinned(session: Session, experiment_id: int) -> int:
    """Return the number of checkpoints of an experiment that are pinned and still exist."""
    return (
        session.scalar(
            select(func.count())
            .select_from(CheckpointRow)
            .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            .where(
                TrialRow.experiment_id == experiment_id,
                CheckpointRow.pinned_at.is_not(None),
                CheckpointRow.state == "complete",
            )
        )
        or 0
    )


def _find(
    session: Session, checkpoint_id: int, caller: Caller
) -> tuple[CheckpointRow, TrialRow, ExperimentRow]:
    """Return a checkpoint with its trial and experiment.

    Locks the experiment, as cleaning does, so that a checkpoint is not pinned while it is deleted.
    """
    experiment_id = session.scalar(
        select(TrialRow.experiment_id)
        .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .where(CheckpointRow.id == checkpoint_id)
    )
    experiment = (
        session.get(ExperimentRow, experiment_id, with_for_update=True)
        if experiment_id is not None
        else None
    )
    row = session.get(CheckpointRow, checkpoint_id, populate_existing=True)
    if experiment is None or row is None or experiment.deleting_at is not None:
        raise NotFound("checkpoints.not_found", f"There is no checkpoint {checkpoint_id}.")
    require_charge(session, caller.principal, experiment)
    return row, session.get_one(TrialRow, row.trial_id), experiment


def _tell(session: Session, row: CheckpointRow, trial: TrialRow, done: str, caller: Caller) -> None:
    note(session, f"checkpoints.{done}", trial.experiment_id, caller, {"checkpoint_id": row.id})
    add_event(
        session,
        f"checkpoints.{done}",
        f"Checkpoint {row.id} of step {row.step:,} was {done} by {caller.principal.actor}.",
        now=caller.now,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        data={"checkpoint_id": row.id},
    )
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}")


def _shown(
    session: Session, row: CheckpointRow, trial: TrialRow, experiment: ExperimentRow
) -> CheckpointListItem:
    project = session.get_one(ProjectRow, experiment.project_id).name
    return listing.item(row, trial, experiment, project)
