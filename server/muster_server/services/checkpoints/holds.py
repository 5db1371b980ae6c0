"""Checkpoints and outputs that versions of models consist of: no policy deletes them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from muster_server.db.models import ModelRow, ModelVersionRow, TrialRow
from muster_server.db.sight import SEES_ALL, is_hidden
from muster_server.errors import Conflict


def held_checkpoints(session: Session, experiment_id: int) -> Mapping[int, str]:
    """Return the checkpoints of an experiment that versions of models use, each with its user."""
    return _users(session, TrialRow.experiment_id == experiment_id, ModelVersionRow.checkpoint_id)


def held_outputs(session: Session, where: ColumnElement[bool]) -> Mapping[int, str]:
    """Return the trials whose outputs versions of models use, each with its user.

    where: condition of the trials."""
    of_outputs = where & (ModelVersionRow.source == "outputs")
    return _users(session, of_outputs, ModelVersionRow.trial_id)


def require_no_version(session: Session, experiment_id: int) -> None:
    """Raise Conflict if a version of a model uses files of this experiment."""
    users = _users(session, TrialRow.experiment_id == experiment_id, ModelVersionRow.id)
    if users:
        raise Conflict(
            "experiments.used_by_model",
            f"Files of experiment {experiment_id} are used by {_listed(users)}.",
            hint="Delete that version first: `muster model delete NAME:VERSION`.",
        )


def require_outputs_unused(session: Session, experiment_id: int) -> None:
    """Raise Conflict if a version of a model consists of outputs, which a trial that runs on would
    replace."""
    users = held_outputs(session, TrialRow.experiment_id == experiment_id)
    if users:
        raise Conflict(
            "experiments.used_by_model",
            f"{_listed(users)} consists of outputs of experiment {experiment_id}, which its trials "
            "would replace.",
            hint="Fork the experiment instead, or delete that version.",
        )


def _users(session: Session, where: ColumnElement[bool], key: object) -> dict[int, str]:
    rows = session.execute(
        select(key, ModelRow.name, ModelVersionRow.number, ModelRow.project_id)  # type: ignore[call-overload]
        .select_from(ModelVersionRow)
        .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
        .join(TrialRow, TrialRow.id == ModelVersionRow.trial_id)
        .where(where, key.is_not(None))  # type: ignore[attr-defined]
        .order_by(ModelVersionRow.id),
        execution_options=SEES_ALL,
    )
    found: dict[int, str] = {}
    for used, name, number, project_id in rows:
        what = "a model that you do not see" if is_hidden(project_id) else f"model {name}"
        found.setdefault(used, f"version {number} of {what}")
    return found


def _listed(users: Mapping[int, str]) -> str:
    names = list(dict.fromkeys(users.values()))
    more = f" and {len(names) - 3} more" if names[3:] else ""
    return ", ".join(names[:3]) + more
