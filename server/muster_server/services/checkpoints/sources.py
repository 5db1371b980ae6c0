"""Where an experiment starts from: the checkpoint its document names, and what it was forked from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.document.searching import FromSection
from muster_server.db.models import CheckpointRow, ExperimentRow, TrialRow
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem

from . import lookup


@dataclass(frozen=True)
class Source:
    """A checkpoint that was found."""

    checkpoint: CheckpointRow
    trial: TrialRow
    experiment: ExperimentRow

    def named(self, section: FromSection) -> FromSection:
        """For the resolved document, whatever of it was written there."""
        return replace(
            section,
            checkpoint=self.checkpoint.id,
            trial=self.trial.address,
            experiment=self.experiment.id,
        )


def find(session: Session, section: FromSection) -> Source | FieldProblem:
    """Return the checkpoint that a document's `from` means, or why there is none."""
    if section.checkpoint is not None:
        return _of_checkpoint(session, section.checkpoint)
    if section.trial is not None:
        return _of_trial(session, section.trial, section.pick)
    assert section.experiment is not None, "checked: one of the three"
    return _of_experiment(session, section.experiment, section.pick)


def misuse(found: Source, config: ExperimentConfig) -> FieldProblem | None:
    """Return why an experiment cannot start from a checkpoint that a script saved; None if it can, and
    for any other checkpoint."""
    if found.checkpoint.kind != lookup.ADOPTED:
        return None
    named = f"step {found.checkpoint.step:,} of trial {found.trial.address}"
    if config.from_ is not None and config.from_.load == "weights":
        return FieldProblem(
            "from.load",
            f"{named} consists of files of its script, whose weights Muster cannot take alone",
            "leave load out: the files are put into the work folder",
        )
    if config.trainer is not None:
        return FieldProblem(
            "from",
            f"{named} consists of files of its script, which the built-in trainer cannot read",
            "use an entrypoint that reads them, or name another checkpoint",
        )
    return None


def describe(
    session: Session, section: FromSection | None, *, parent: ExperimentRow | None
) -> dict[str, Any] | None:
    """Return what to store about the origin of an experiment, so that it stays readable when the
    source is deleted; None if it has no origin.

    section: the resolved document's `from`. parent: the experiment it was forked from.
    """
    found = find(session, section) if section is not None else None
    assert not isinstance(found, FieldProblem), "checked with the submission"
    experiment = parent if parent is not None else found.experiment if found else None
    if experiment is None:
        return None
    kept: dict[str, Any] = {"experiment_id": experiment.id, "experiment_name": experiment.name}
    if found is not None and section is not None:
        kept |= {
            "checkpoint_id": found.checkpoint.id,
            "checkpoint_experiment_id": found.experiment.id,
            "trial_id": found.trial.id,
            "trial_no": found.trial.no,
            "step": found.checkpoint.step,
            "load": section.load,
        }
    return kept


def sentence(source: dict[str, Any] | None) -> str:
    """ ", forked from experiment 12 (digits), with everything of step 40 of trial 1"."""
    if source is None:
        return ""
    words = f", forked from experiment {source['experiment_id']} ({source['experiment_name']})"
    if source.get("checkpoint_id") is None:
        return words
    what = "the weights" if source["load"] == "weights" else "everything"
    trial = f"trial {source['trial_no']}"
    if source["checkpoint_experiment_id"] != source["experiment_id"]:
        trial += f" of experiment {source['checkpoint_experiment_id']}"
    return f"{words}, with {what} of step {source['step']:,} of {trial}"


def _of_checkpoint(session: Session, checkpoint_id: int) -> Source | FieldProblem:
    checkpoint = session.get(CheckpointRow, checkpoint_id)
    trial = session.get(TrialRow, checkpoint.trial_id) if checkpoint is not None else None
    experiment = _experiment(session, trial.experiment_id) if trial is not None else None
    if checkpoint is None or trial is None or experiment is None:
        return FieldProblem(
            "from.checkpoint", Message("field.no_such_checkpoint", id=checkpoint_id)
        )
    if checkpoint.state != "complete":
        return FieldProblem(
            "from.checkpoint", f"checkpoint {checkpoint_id} is {checkpoint.state}", "name another"
        )
    return Source(checkpoint, trial, experiment)


def _of_trial(session: Session, address: str, pick: str) -> Source | FieldProblem:
    path = "from.trial"
    experiment_id, _, no = address.partition(".")
    trials = select(TrialRow).where(TrialRow.experiment_id == int(experiment_id))
    if _experiment(session, int(experiment_id)) is None:
        return FieldProblem(path, Message("field.no_such_trial", trial=address))
    if not no:
        first = session.scalars(trials.order_by(TrialRow.no).limit(2)).all()
        if len(first) > 1:
            return FieldProblem(
                path,
                f"experiment {experiment_id} has several trials",
                f"name one of them, such as {first[0].address}, or use from.experiment for the best",
            )
        trial = first[0] if first else None
    else:
        trial = session.scalar(trials.where(TrialRow.no == int(no)))
    if trial is None:
        return FieldProblem(path, Message("field.no_such_trial", trial=address))
    return _pick(session, trial, pick, path)


def _of_experiment(session: Session, experiment_id: int, pick: str) -> Source | FieldProblem:
    path = "from.experiment"
    experiment = _experiment(session, experiment_id)
    if experiment is None:
        return FieldProblem(path, Message("field.no_such_experiment", id=experiment_id))
    trials = TrialRow.experiment_id == experiment_id
    num = session.scalar(select(func.count()).select_from(TrialRow).where(trials)) or 0
    if num == 1:
        trial = session.scalars(select(TrialRow).where(trials)).one()
    else:
        best = session.get(TrialRow, experiment.best_trial_id or 0)
        if best is None:
            return FieldProblem(
                path,
                f"experiment {experiment_id} has {num} trials and none is the best yet",
                f"name one of them, such as from: {{trial: {experiment_id}.1}}",
            )
        trial = best
    return _pick(session, trial, pick, path)


def trial_with_files(session: Session, trial: TrialRow) -> TrialRow | None:
    """Return the trial that has written the checkpoints of this one: itself, or the one whose result it
    takes; None if the caller does not see that one."""
    return trial if trial.reused_from is None else session.get(TrialRow, trial.reused_from)


def _pick(session: Session, trial: TrialRow, pick: str, path: str) -> Source | FieldProblem:
    address = trial.address
    trial = trial_with_files(session, trial) or trial
    if pick == "best":
        best_id = lookup.best_id(session, trial)
        found = session.get(CheckpointRow, best_id) if best_id is not None else None
        lack = "no checkpoint with a finite value of the search metric or of a loss"
    else:
        found = lookup.newest(session, trial.id)
        lack = "no checkpoint"
    if found is None:
        return FieldProblem(
            path,
            f"trial {address} has {lack}",
        )
    return Source(found, trial, session.get_one(ExperimentRow, trial.experiment_id))


def _experiment(session: Session, experiment_id: int) -> ExperimentRow | None:
    row = session.get(ExperimentRow, experiment_id)
    return row if row is not None and row.deleting_at is None else None
