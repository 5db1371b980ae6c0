"""Which checkpoint of a trial is meant: the newest, the best, or one that another trial starts from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.wire import decode_number
from muster_server.db.models import CheckpointRow, ClusterIdentityRow, ExperimentRow, TrialRow
from muster_server.domain.metrics import headline_name


@dataclass(frozen=True)
class StartCheckpoint:
    """Where an attempt begins."""

    checkpoint: CheckpointRow
    path: str
    """Relative to the agents' storage folder, or a URL."""
    is_own: bool
    """Whether the checkpoint belongs to the trial itself rather than to the trial it was forked
    from."""
    trial: str = ""
    """The trial that it belongs to, as people name it ("36.2"), unless that is the trial itself."""
    weights_only: bool = False
    """Only the model's weights are taken over: the attempt begins at step 0."""

    @property
    def step(self) -> int:
        return 0 if self.weights_only else self.checkpoint.step


def trial_folder(experiment_id: int, trial_no: int) -> str:
    """Return a trial's folder under the agents' storage: the same for all its attempts and
    nodes."""
    return f"{experiment_folder(experiment_id)}/trial-{trial_no}"


def experiment_folder(experiment_id: int) -> str:
    return f"experiment-{experiment_id}"


OBJECT_STORE = "object-store"
"""The storage id of what lies in the object store that the experiment's document names."""


def store_of(config: ExperimentConfig) -> str:
    """Return the object store that a document names; "" when checkpoints stay with the agents."""
    storage = config.checkpoints.storage
    return storage.rstrip("/") if "://" in storage else ""


def url_of(config: ExperimentConfig, cluster_id: str, path: str) -> str:
    """Return the URL of a path of an experiment's folder in its object store; "" if it has none.

    Each server has its own folder in the store, because all servers number their experiments from
    1.
    """
    store = store_of(config)
    return f"{store}/muster-{cluster_id}/{path}" if store else ""


def _place(session: Session, config: ExperimentConfig, path: str) -> str:
    if not store_of(config):
        return path
    return url_of(config, session.scalars(select(ClusterIdentityRow.id)).one(), path)


ADOPTED = "adopted"
"""Kind of a checkpoint that the script saved under a name of its own. Its files are for the script, in
its work folder: the SDK never resumes from one."""

_NEWEST = (
    select(CheckpointRow)
    .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
    .where(
        CheckpointRow.trial_id == bindparam("of"),
        CheckpointRow.state == "complete",
        # Not those that a guard has gone back from: TrialRow.is_abandoned.
        or_(
            CheckpointRow.attempt_no > TrialRow.rolled_back_attempt,
            CheckpointRow.step <= TrialRow.rolled_back_step,
        ),
    )
    .order_by(CheckpointRow.step.desc(), CheckpointRow.attempt_no.desc())
    .limit(1)
)
_NEWEST_SAVED = _NEWEST.where(CheckpointRow.kind != ADOPTED)
_NEWEST_BEFORE = _NEWEST_SAVED.where(CheckpointRow.step < bindparam("before"))


def newest(session: Session, trial_id: int) -> CheckpointRow | None:
    """Return the checkpoint of the highest step, of equal ones that of the latest attempt, that no
    guard has gone back from."""
    return session.scalar(_NEWEST, {"of": trial_id})


def newest_before(session: Session, trial_id: int, step: int) -> CheckpointRow | None:
    """Return the newest checkpoint below a step that an attempt can start from."""
    return session.scalar(_NEWEST_BEFORE, {"of": trial_id, "before": step})


def best_id(session: Session, trial: TrialRow) -> int | None:
    """Return the complete checkpoint with the best finite value of the search metric; ties: the
    latest.

    Without a search metric the least value of the loss or error counts that stands for a training
    (domain.metrics.headline_name). None if no checkpoint has such a value.
    """
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    found = session.execute(
        select(CheckpointRow.id, CheckpointRow.metrics).where(
            CheckpointRow.trial_id == trial.id, CheckpointRow.state == "complete"
        )
    ).all()
    name = experiment.metric_name
    if name is None:
        name = headline_name({name for _, metrics in found for name in metrics})
    sign = -1 if experiment.metric_goal == "max" else 1
    ranked = [
        (sign * value, -row_id)
        for row_id, metrics in found
        if name in metrics and math.isfinite(value := decode_number(metrics[name]))
    ]
    return -min(ranked)[1] if ranked else None


@dataclass(frozen=True)
class StartingTrial:
    """The columns of a trial that `start_of` reads."""

    id: int
    no: int
    source_checkpoint_id: int | None


@dataclass(frozen=True)
class StartingExperiment:
    """The columns of an experiment that `start_of` reads."""

    id: int
    config: ExperimentConfig


def start_of(
    session: Session, experiment: StartingExperiment, trial: StartingTrial
) -> StartCheckpoint | None:
    """Return the checkpoint that the next attempt of a trial starts from; None to start from
    nothing.

    This is the trial's own newest checkpoint, or else the one the trial was forked from. Adopted ones
    are none: their files are in the work folder (services.outputs.sources). Raises
    LookupError if that one is gone; an experiment cannot be deleted while a fork needs its
    checkpoint.
    """
    own = session.scalar(_NEWEST_SAVED, {"of": trial.id})
    if own is not None:
        path = f"{trial_folder(experiment.id, trial.no)}/{own.path}"
        return StartCheckpoint(own, _place(session, experiment.config, path), is_own=True)
    if trial.source_checkpoint_id is None:
        return None
    found = session.execute(
        select(CheckpointRow, ExperimentRow, TrialRow.no)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(CheckpointRow.id == trial.source_checkpoint_id, CheckpointRow.state == "complete")
    ).one_or_none()
    if found is None:
        raise LookupError(f"checkpoint {trial.source_checkpoint_id} to start from is gone")
    checkpoint, source, trial_no = found
    if checkpoint.kind == ADOPTED:
        return None
    return StartCheckpoint(
        checkpoint,
        _place(session, source.config, f"{trial_folder(source.id, trial_no)}/{checkpoint.path}"),
        is_own=False,
        trial=f"{source.id}.{trial_no}",
        weights_only=experiment.config.from_ is not None
        and experiment.config.from_.load == "weights",
    )
