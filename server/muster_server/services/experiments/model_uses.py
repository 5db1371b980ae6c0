"""Versions of models that an experiment reads: found when it is submitted, and kept for it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.document.inference import JOB_MODEL, PROGRAMS, UsedModel, UseKind
from muster_server.db.models import (
    ExperimentRow,
    ModelAliasRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
)
from muster_server.errors import FieldProblem
from muster_server.parts import NO_REGISTRY, has_part

from ..core.events import add_event


def resolve_models(
    session: Session, config: ExperimentConfig
) -> tuple[ExperimentConfig, list[FieldProblem]]:
    """Return the configuration with a version for every model that it names, and what is wrong with
    the names."""
    found: dict[str, UsedModel | str] = {}
    problems: list[FieldProblem] = []
    references = _references(config)
    if references and not has_part("models"):
        path, _ = next(iter(references.values()))
        return config, [FieldProblem(path, NO_REGISTRY)]
    for name, (path, reference) in references.items():
        version = find_used(session, path, reference)
        if isinstance(version, FieldProblem):
            problems.append(version)
        else:
            found[name] = version
    return (config if problems else replace(config, models=found)), problems


def _references(config: ExperimentConfig) -> dict[str, tuple[str, str | UsedModel]]:
    """Return path in the document and reference of each model, by name."""
    found = {name: (f"models.{name}", reference) for name, reference in config.models.items()}
    kind = config.job_kind
    if kind is not None and config.reads_a_model:
        found[JOB_MODEL] = (f"{kind}.model", getattr(config, kind).model)
    return found


def find_used(session: Session, path: str, reference: str | UsedModel) -> UsedModel | FieldProblem:
    """Return the version that a reference means now, or what is wrong with it.

    path: where the reference stands in the document.
    """
    number: int | None
    if isinstance(reference, UsedModel):
        name, number, alias = reference.model, reference.version, ""
    else:
        name, _, alias = reference.partition("@")
        name, _, text = name.partition(":")
        number = int(text) if text else None
    model = session.scalar(select(ModelRow).where(ModelRow.name == name))
    if model is None:
        return FieldProblem(path, f"there is no model {name}", "`muster model list` shows all")
    if alias:
        version = session.scalar(
            select(ModelVersionRow)
            .join(ModelAliasRow, ModelAliasRow.version_id == ModelVersionRow.id)
            .where(ModelAliasRow.model_id == model.id, ModelAliasRow.name == alias)
        )
        lack = f"model {name} has no alias {alias}"
    else:
        newest = select(func.max(ModelVersionRow.number)).where(
            ModelVersionRow.model_id == model.id
        )
        version = session.scalar(
            select(ModelVersionRow).where(
                ModelVersionRow.model_id == model.id,
                ModelVersionRow.number == (newest.scalar_subquery() if number is None else number),
            )
        )
        lack = f"model {name} has no version {number}" if number else f"model {name} has no version"
    if version is None:
        return FieldProblem(path, lack, f"`muster model show {name}` lists its versions")
    if version.state != "ready":
        state = "is still being made" if version.state == "making" else "could not be made"
        return FieldProblem(
            path,
            f"version {version.number} of model {name} {state}",
            "wait until it is ready" if version.state == "making" else "name another version",
        )
    if isinstance(reference, UsedModel) and reference.digest not in (None, version.digest):
        return FieldProblem(
            path,
            f"version {version.number} of model {name} has the digest {version.digest}",
            "leave digest out, or correct it",
        )
    return UsedModel(model=name, version=version.number, digest=version.digest)


def add_uses(session: Session, experiment: ExperimentRow, user_name: str, now: dt.datetime) -> None:
    """Keep the versions that a new experiment reads, until it has ended."""
    config = experiment.config
    kind = config.job_kind
    for name, used in config.models.items():
        assert isinstance(used, UsedModel), "resolved with the submission"
        _, version = session.execute(
            select(ModelRow.id, ModelVersionRow)
            .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
            .where(ModelRow.name == used.model, ModelVersionRow.number == used.version)
            # Whoever deletes a version locks its model: it is there, or it is not.
            .with_for_update(of=ModelRow)
        ).one()
        of_job = kind is not None and name == JOB_MODEL
        use: UseKind = (PROGRAMS[kind].use if kind is not None and of_job else None) or "input"
        session.add(
            ModelUseRow(
                version_id=version.id,
                experiment_id=experiment.id,
                kind=use,
                name=name,
                created_at=now,
            )
        )
        if version.experiment_id is not None:
            add_event(
                session,
                "model.used",
                f"{user_name} submitted experiment {experiment.id} ({experiment.name}), which reads "
                f"version {used.version} of model {used.model}.",
                now=now,
                experiment_id=version.experiment_id,
                data={"experiment_id": experiment.id, "model": used.model, "version": used.version},
            )
    session.flush()


def kept_models(before: ExperimentConfig, now: ExperimentConfig) -> ExperimentConfig:
    """Return a configuration that goes on with the versions that an experiment began with: an alias
    may name another one by now."""
    same = before.models.keys() == now.models.keys()
    return replace(now, models=before.models) if same else now
