"""What experiments do with versions, and what that keeps from being deleted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from muster_models.schemas.registry import ModelLineageOut, ModelUseOut, ProducedVersionOut
from muster_server.db.models import (
    DeploymentReplicaRow,
    DeploymentRow,
    ExperimentRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
)
from muster_server.db.sight import SEES_ALL, is_hidden
from muster_server.domain.states import TERMINAL_EXPERIMENT
from muster_server.errors import Conflict
from muster_server.schemas.base import Page
from muster_server.services.core.lookup import get_experiment
from muster_server.services.core.paging import read_page

from . import exports

LINEAGE_MAX = 200
"""Uses, and versions produced, that a lineage names."""
KINDS = {
    "input": "reads it",
    "export": "exports it",
    "evaluation": "evaluates it",
    "prediction": "predicts with it",
    "deployment": "serves it",
}


def require_unused(session: Session, versions: ColumnElement[bool]) -> None:
    """Raise Conflict if an experiment that has not ended uses a version, or exports of one exist.

    versions: condition of the versions that are to be deleted.
    """
    rows = session.execute(
        select(
            ModelUseRow,
            ExperimentRow.name,
            ExperimentRow.state,
            ModelVersionRow.number,
            ModelRow.name,
            ExperimentRow.project_id,
        )
        .join(ModelVersionRow, ModelVersionRow.id == ModelUseRow.version_id)
        .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
        .join(ExperimentRow, ExperimentRow.id == ModelUseRow.experiment_id)
        .where(
            versions,
            or_(
                ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
                (ModelUseRow.kind == "export") & ModelUseRow.result.is_not(None),
            ),
            ExperimentRow.deleting_at.is_(None),
        )
        .order_by(ModelUseRow.id),
        execution_options=SEES_ALL,
    )
    uses = (
        row for row in rows if row[2] not in TERMINAL_EXPERIMENT or exports.has_made_some(row[0])
    )
    if (row := next(uses, None)) is None:
        return
    use, experiment, state, number, model, project_id = row
    if is_hidden(project_id):
        raise Conflict(
            "models.used",
            f"Version {number} of model {model} is used in a project that you do not see.",
            hint="Ask an administrator to end its use.",
        )
    what = (
        f"Version {number} of model {model} is used: experiment {use.experiment_id} ({experiment})"
    )
    if state in TERMINAL_EXPERIMENT:
        raise Conflict(
            "models.used",
            f"{what} has exported it.",
            hint=f"Delete that experiment first: `muster delete {use.experiment_id}`.",
        )
    deployment = session.scalar(
        select(DeploymentRow.name)
        .join(DeploymentReplicaRow, DeploymentReplicaRow.deployment_id == DeploymentRow.id)
        .where(DeploymentReplicaRow.experiment_id == use.experiment_id)
    )
    if deployment is not None:
        raise Conflict(
            "models.used",
            f"Version {number} of model {model} is used: deployment {deployment} serves it.",
            hint=f"Let it serve another version, or stop it: `muster deploy stop {deployment}`.",
        )
    raise Conflict(
        "models.used",
        f"{what} {KINDS[use.kind]} and has not ended.",
        hint=f"Wait for it, or stop it: `muster stop {use.experiment_id}`.",
    )


def of_version(
    session: Session, version: ModelVersionRow, *, cursor: str | None, limit: int
) -> Page[ModelUseOut]:
    """Return one page of the uses of a version, newest first."""
    return _page(session, ModelUseRow.version_id == version.id, cursor, limit)


def of_experiment(
    session: Session, experiment_id: int, *, cursor: str | None, limit: int
) -> Page[ModelUseOut]:
    """Return one page of the versions that an experiment uses. Raises NotFound."""
    get_experiment(session, experiment_id)
    return _page(session, ModelUseRow.experiment_id == experiment_id, cursor, limit)


def lineage_both_ways(
    session: Session, model: ModelRow, version: ModelVersionRow
) -> ModelLineageOut:
    """Return what a version comes from, and what was done with it."""
    read: Sequence[ModelUseRow] = ()
    if version.experiment_id is not None:
        read = session.scalars(
            select(ModelUseRow)
            .where(ModelUseRow.experiment_id == version.experiment_id)
            .order_by(ModelUseRow.name)
        ).all()
    of_it = ModelUseRow.version_id == version.id
    uses = session.scalars(
        select(ModelUseRow).where(of_it).order_by(ModelUseRow.id.desc()).limit(LINEAGE_MAX)
    ).all()
    num_uses = session.scalar(select(func.count()).select_from(ModelUseRow).where(of_it))
    produced = session.execute(
        select(ModelRow.name, ModelVersionRow.number, ModelVersionRow.experiment_id)
        .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
        .where(ModelVersionRow.experiment_id.in_({use.experiment_id for use in uses}))
        .order_by(ModelVersionRow.id.desc())
        .limit(LINEAGE_MAX)
    )
    return ModelLineageOut(
        model=model.name,
        version=version.number,
        sources=version.lineage,
        checkpoint_id=version.checkpoint_id,
        step=version.step,
        read=_out(session, read),
        uses=_out(session, uses),
        num_uses=num_uses or 0,
        produced=[
            ProducedVersionOut(model=name, version=number, experiment_id=experiment_id)
            for name, number, experiment_id in produced
            if experiment_id is not None
        ],
    )


def _page(
    session: Session, where: ColumnElement[bool], cursor: str | None, limit: int
) -> Page[ModelUseOut]:
    rows, following = read_page(
        session,
        select(ModelUseRow).where(where),
        ModelUseRow.id,
        cursor=cursor,
        limit=limit,
        newest_first=True,
    )
    return Page(items=_out(session, rows), next=following)


def _out(session: Session, rows: Sequence[ModelUseRow]) -> list[ModelUseOut]:
    versions = {
        version_id: (name, number)
        for version_id, name, number in session.execute(
            select(ModelVersionRow.id, ModelRow.name, ModelVersionRow.number)
            .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
            .where(ModelVersionRow.id.in_({row.version_id for row in rows}))
        )
    }
    experiments = {
        row.id: row
        for row in session.execute(
            select(ExperimentRow.id, ExperimentRow.name, ExperimentRow.state).where(
                ExperimentRow.id.in_({row.experiment_id for row in rows})
            )
        )
    }
    return [
        ModelUseOut.from_row(
            row,
            model=versions[row.version_id][0],
            version=versions[row.version_id][1],
            experiment_name=experiments[row.experiment_id].name,
            experiment_state=experiments[row.experiment_id].state,
        )
        for row in rows
    ]
