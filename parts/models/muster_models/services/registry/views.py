"""Models and versions as REST shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_models.domain.registry.card import CardFacts, model_card
from muster_models.domain.registry.contents import warning_of
from muster_models.schemas.registry import (
    ModelAliasOut,
    ModelFileOut,
    ModelItem,
    ModelVersionItem,
    ModelVersionOut,
)
from muster_server.db.models import (
    ModelAliasRow,
    ModelFileRow,
    ModelRow,
    ModelVersionRow,
    ProjectRow,
    UserRow,
)
from muster_server.schemas.base import Page
from muster_server.security.principal import Principal
from muster_server.services.core.paging import read_page

from . import evaluations
from .fetching import num_parts
from .models import find_model, may_change, may_change_version

SOURCES = {
    "checkpoint": "a checkpoint",
    "outputs": "outputs of a trial",
    "upload": "uploaded files",
    "mlflow": "an MLflow client",
}


def list_models(
    session: Session,
    principal: Principal,
    *,
    project: str | None,
    text: str | None,
    cursor: str | None,
    limit: int,
) -> Page[ModelItem]:
    """Return one page of models by name.

    text: part of the name or the description, in any case; None for all."""
    query = select(ModelRow)
    if project is not None:
        query = query.join(ProjectRow, ProjectRow.id == ModelRow.project_id).where(
            ProjectRow.name == project
        )
    if text:
        query = query.where(
            or_(
                ModelRow.name.icontains(text, autoescape=True),
                ModelRow.description.icontains(text, autoescape=True),
            )
        )
    rows, following = read_page(session, query, ModelRow.name, cursor=cursor, limit=limit)
    return Page(items=_items(session, principal, rows), next=following)


def model_item(session: Session, principal: Principal, model: ModelRow) -> ModelItem:
    return _items(session, principal, [model])[0]


def _items(session: Session, principal: Principal, rows: Sequence[ModelRow]) -> list[ModelItem]:
    ids = [row.id for row in rows]
    counts = {
        model_id: (num, newest)
        for model_id, num, newest in session.execute(
            select(ModelVersionRow.model_id, func.count(), func.max(ModelVersionRow.number))
            .where(ModelVersionRow.model_id.in_(ids))
            .group_by(ModelVersionRow.model_id)
        )
    }
    aliases: dict[int, list[ModelAliasOut]] = defaultdict(list)
    for alias, number in session.execute(
        select(ModelAliasRow, ModelVersionRow.number)
        .join(ModelVersionRow, ModelVersionRow.id == ModelAliasRow.version_id)
        .where(ModelAliasRow.model_id.in_(ids))
        .order_by(ModelAliasRow.name)
    ):
        aliases[alias.model_id].append(ModelAliasOut.from_row(alias, version=number))
    projects = dict(
        session.execute(
            select(ProjectRow.id, ProjectRow.name).where(
                ProjectRow.id.in_({row.project_id for row in rows})
            )
        ).all()
    )
    owners = dict(
        session.execute(
            select(UserRow.id, UserRow.username).where(
                UserRow.id.in_({row.owner_id for row in rows if row.owner_id})
            )
        ).all()
    )
    return [
        ModelItem.from_row(
            row,
            project=projects[row.project_id],
            owner=owners.get(row.owner_id or 0),
            num_versions=counts.get(row.id, (0, None))[0],
            latest_version=counts.get(row.id, (0, None))[1],
            aliases=aliases[row.id],
            may_change=may_change(principal, row),
        )
        for row in rows
    ]


def list_versions(
    session: Session, name: str, *, cursor: str | None, limit: int
) -> Page[ModelVersionItem]:
    """Return one page of a model's versions, newest first. Raises NotFound."""
    model = find_model(session, name)
    query = select(ModelVersionRow).where(ModelVersionRow.model_id == model.id)
    rows, following = read_page(
        session, query, ModelVersionRow.number, cursor=cursor, limit=limit, newest_first=True
    )
    return Page(items=_version_items(session, rows, {model.id: model.name}), next=following)


def versions_of_experiment(
    session: Session, experiment_id: int, *, cursor: str | None, limit: int
) -> Page[ModelVersionItem]:
    """Return one page of the versions that an experiment produced, newest first."""
    query = select(ModelVersionRow).where(ModelVersionRow.experiment_id == experiment_id)
    rows, following = read_page(
        session, query, ModelVersionRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    ids = {row.model_id for row in rows}
    found = session.execute(select(ModelRow.id, ModelRow.name).where(ModelRow.id.in_(ids)))
    return Page(items=_version_items(session, rows, dict(found.all())), next=following)


def _version_items(
    session: Session, rows: Sequence[ModelVersionRow], models: dict[int, str]
) -> list[ModelVersionItem]:
    ids = [row.id for row in rows]
    aliases: dict[int, list[str]] = defaultdict(list)
    for version_id, name in session.execute(
        select(ModelAliasRow.version_id, ModelAliasRow.name)
        .where(ModelAliasRow.version_id.in_(ids))
        .order_by(ModelAliasRow.name)
    ):
        aliases[version_id].append(name)
    unsafe = {
        version_id
        for version_id, path in session.execute(
            select(ModelFileRow.version_id, ModelFileRow.path).where(
                ModelFileRow.version_id.in_(ids)
            )
        )
        if warning_of(path)
    }
    return [
        ModelVersionItem.from_row(
            row,
            model=models[row.model_id],
            aliases=aliases[row.id],
            metrics={name: decode_number(value) for name, value in row.metrics.items()},
            is_unsafe=row.id in unsafe,
        )
        for row in rows
    ]


def version_out(
    session: Session,
    principal: Principal,
    model: ModelRow,
    version: ModelVersionRow,
    *,
    is_new: bool = False,
) -> ModelVersionOut:
    """Return a version with its files and card."""
    (item,) = _version_items(session, [version], {model.id: model.name})
    rows = session.scalars(
        select(ModelFileRow)
        .where(ModelFileRow.version_id == version.id)
        .order_by(ModelFileRow.path)
    ).all()
    files = [
        ModelFileOut.from_row(
            row,
            num_parts=num_parts(row),
            is_at_server=row.place is None,
            warning=warning_of(row.path),
        )
        for row in rows
    ]
    card = model_card(
        CardFacts(
            model=model.name,
            number=version.number,
            digest=version.digest,
            created_at=version.created_at.strftime("%Y-%m-%d %H:%M UTC"),
            created_by=version.created_by,
            description=model.description,
            source=SOURCES[version.source],
            lineage=version.lineage,
            metrics=version.metrics,
            signature=version.signature,
            files=[(file.path, file.size_bytes, file.warning) for file in files],
            aliases=item.aliases,
            notes=version.notes,
            evaluations=evaluations.of_version(session, version.id),
        )
    )
    return ModelVersionOut(
        **{name: getattr(item, name) for name in ModelVersionItem.model_fields},
        is_new=is_new,
        may_change=may_change_version(principal, model, version),
        lineage=version.lineage,
        signature=version.signature,
        notes=version.notes,
        files=files,
        card=card,
    )
