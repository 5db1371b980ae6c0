"""New versions: from a checkpoint, from outputs of a trial, or from uploaded files.

A version refers to files that exist already and are kept for it; nothing is copied. Files, digest,
lineage, metrics and signature never change afterwards.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, exists, or_, select
from sqlalchemy.orm import Session, undefer

from muster.document.model_config import CONFIG_FILE, ModelConfig
from muster.document.train_config import ConfigError, configure
from muster.wire import encode_number
from muster_models.schemas.registry import VersionIn, VersionPatch
from muster_server.db.engine import touch
from muster_server.db.models import (
    CheckpointRow,
    ExperimentRow,
    ModelAliasRow,
    ModelBlobRow,
    ModelFileRow,
    ModelRow,
    ModelVersionRow,
    ProjectRow,
    TrialRow,
)
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.services.checkpoints import exports
from muster_server.services.core.callers import Caller
from muster_server.services.core.events import add_event
from muster_server.services.core.ownership import require_charge
from muster_server.services.outputs.downloads import StoragePlace, place_of
from muster_server.services.outputs.holding import held_trials
from muster_server.services.outputs.manifests import read_union, rows_of
from muster_server.settings import Settings

from . import aliases, uploads
from .lineage import latest_metrics, lineage_of
from .models import (
    VERSIONS_MAX,
    find_model,
    find_or_create,
    find_version,
    may_change_version,
    record,
    renewed,
    require_project,
)
from .places import (
    MODEL_FILE,
    VersionContents,
    VersionFile,
    checked,
    of_checkpoint,
    of_outputs,
)
from .uses import require_unused


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A version before it has a number."""

    source: str
    contents: VersionContents
    lineage: Mapping[str, Any]
    metrics: Mapping[str, Any]
    signature: Mapping[str, Any] | None = None
    tags: Mapping[str, str]
    notes: str = ""
    source_uri: str = ""
    """Where an MLflow client registered it from, or the folder of outputs that it will consist of."""
    message: str = ""
    """What it waits for."""
    checkpoint_id: int | None = None
    trial_id: int | None = None
    experiment_id: int | None = None
    step: int | None = None


def register(
    session: Session, name: str, body: VersionIn, caller: Caller, *, settings: Settings
) -> tuple[ModelRow, ModelVersionRow, bool]:
    """Register a version; the model is created if there is none. Return the model, the version, and
    whether it is new: the same files of the same origin are one version.

    Raises NotFound, Forbidden, Conflict and InvalidRequest.
    """
    given = [body.checkpoint_id is not None, body.trial_id is not None, bool(body.files)]
    if sum(given) != 1:
        raise InvalidRequest(
            "models.one_source",
            "A version needs one source.",
            fields=[FieldProblem("checkpoint_id", "give this, trial_id or files, and only one")],
        )
    if body.checkpoint_id is not None:
        draft, project = checkpoint_draft(session, body.checkpoint_id, body, caller)
    elif body.trial_id is not None:
        draft, project = _outputs_draft(session, body.trial_id, body, caller)
    else:
        draft, project = _upload_draft(session, body), "default"
    if body.project:
        require_project(session, body.project, caller)
    model = find_or_create(session, name, body.project or project, caller)
    there = same_version(session, model, draft)
    if there is not None:
        return model, there, False
    return model, add_version(session, model, draft, caller, settings=settings), True


def add_version(
    session: Session, model: ModelRow, draft: Draft, caller: Caller, *, settings: Settings
) -> ModelVersionRow:
    """Add a version to a model, which is locked, and let a node make it where it is a checkpoint that
    has no file yet. Raises Conflict."""
    version = number_version(session, model, draft, caller)
    if version.state == "making":
        assert draft.checkpoint_id is not None, "only a checkpoint is made into a file"
        exports.request(session, draft.checkpoint_id, caller, settings=settings)
    return version


def number_version(
    session: Session, model: ModelRow, draft: Draft, caller: Caller
) -> ModelVersionRow:
    """Add a version to a model, which is locked, and no more. Raises Conflict."""
    if model.last_number >= VERSIONS_MAX:
        raise Conflict(
            "models.too_many_versions",
            f"Model {model.name} has had {VERSIONS_MAX:,} versions, the maximum.",
            hint="Register further ones as another model.",
        )
    model.last_number += 1
    renewed(model, caller.now)
    version = ModelVersionRow(
        model_id=model.id,
        number=model.last_number,
        state="ready" if draft.contents.files else "making",
        message=draft.message,
        digest=draft.contents.digest,
        source=draft.source,
        source_uri=draft.source_uri,
        checkpoint_id=draft.checkpoint_id,
        trial_id=draft.trial_id,
        experiment_id=draft.experiment_id,
        step=draft.step,
        lineage=dict(draft.lineage),
        metrics=dict(draft.metrics),
        signature=dict(draft.signature) if draft.signature else None,
        tags=dict(draft.tags),
        notes=draft.notes,
        num_files=len(draft.contents.files),
        size_bytes=draft.contents.size_bytes,
        created_at=caller.now,
        created_by=caller.principal.actor,
        updated_at=caller.now,
    )
    session.add(version)
    session.flush()
    session.add_all(draft.contents.rows(version.id))
    session.flush()
    record(
        session,
        caller,
        "models.version_registered",
        model,
        {"version": version.number, "source": draft.source, "digest": version.digest},
    )
    if draft.experiment_id is not None:
        add_event(
            session,
            "model.registered",
            f"{_what(draft)} was registered as version {version.number} of model {model.name} by "
            f"{caller.principal.actor}.",
            now=caller.now,
            experiment_id=draft.experiment_id,
            trial_id=draft.trial_id,
            data={"model": model.name, "version": version.number},
        )
    return version


def update_version(
    session: Session, name: str, number: int, patch: VersionPatch, caller: Caller
) -> tuple[ModelRow, ModelVersionRow]:
    """Change notes and tags. Raises NotFound and Forbidden."""
    model = find_model(session, name, lock=True)
    version = find_version(session, model, number)
    _require_version(session, caller, model, version)
    if patch.tags is not None:
        version.tags = dict(patch.tags)
    if patch.notes is not None:
        version.notes = patch.notes
    version.updated_at = caller.now
    record(session, caller, "models.version_changed", model, {"version": number})
    return model, version


def delete_version(
    session: Session, name: str, number: int, caller: Caller, *, force: bool
) -> None:
    """Delete a version; its number is not given again, and what was kept for it is kept no longer.

    Raises NotFound, Forbidden, and Conflict while an alias names it, unless forced, and while a job
    uses it.
    """
    model = find_model(session, name, lock=True)
    version = find_version(session, model, number)
    _require_version(session, caller, model, version)
    require_unused(session, ModelVersionRow.id == version.id)
    named = session.scalars(
        select(ModelAliasRow.name)
        .where(ModelAliasRow.version_id == version.id)
        .order_by(ModelAliasRow.name)
    ).all()
    if named and not force:
        raise Conflict(
            "models.in_use",
            f"Version {number} of model {name} is used as {', '.join(named)}.",
            hint="Move the alias to another version first, or force it.",
        )
    for alias in named:
        aliases.drop(session, model, alias, caller, reason=f"version {number} was deleted")
    record(
        session,
        caller,
        "models.version_deleted",
        model,
        {"version": number, "digest": version.digest, "aliases": list(named), "force": force},
    )
    session.execute(delete(ModelVersionRow).where(ModelVersionRow.id == version.id))
    renewed(model, caller.now)


def checkpoint_draft(
    session: Session, checkpoint_id: int, body: VersionIn, caller: Caller
) -> tuple[Draft, str]:
    """Return a version of a checkpoint, and the project of its experiment. Raises NotFound, Forbidden,
    Conflict and InvalidRequest.

    Locks the experiment, as cleaning and deletion do: what they look at stays true.
    """
    trial = session.scalar(
        select(TrialRow)
        .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .where(CheckpointRow.id == checkpoint_id)
    )
    experiment = _locked(session, trial, caller)
    if trial is None or experiment is None:
        raise NotFound("checkpoints.not_found", f"There is no checkpoint {checkpoint_id}.")
    checkpoint = session.get_one(
        CheckpointRow,
        checkpoint_id,
        options=[undefer(CheckpointRow.parts)],
        populate_existing=True,
    )
    if checkpoint.state != "complete":
        raise Conflict(
            "checkpoints.gone",
            f"The files of checkpoint {checkpoint_id} are {checkpoint.state}.",
            hint="Register another one of its trial.",
        )
    draft = Draft(
        source="checkpoint",
        contents=of_checkpoint(experiment, trial, checkpoint),
        lineage=lineage_of(
            session, trial, attempt_no=checkpoint.attempt_no, step=checkpoint.step, now=caller.now
        ),
        metrics=checkpoint.metrics,
        signature=_signature(body),
        tags=body.tags,
        notes=body.notes,
        checkpoint_id=checkpoint.id,
        trial_id=trial.id,
        experiment_id=experiment.id,
        step=checkpoint.step,
    )
    return draft, session.get_one(ProjectRow, experiment.project_id).name


def _outputs_draft(
    session: Session, trial_id: int, body: VersionIn, caller: Caller
) -> tuple[Draft, str]:
    trial = session.get(TrialRow, trial_id)
    experiment = _locked(session, trial, caller)
    if trial is None or experiment is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    held = held_trials(session, experiment.id, trial_id=trial.id).get(trial.id, "")
    if trial.state not in TERMINAL_TRIAL or "collected" in held:
        raise Conflict(
            "models.outputs_open",
            f"The outputs of trial {trial.address} may still change: {held}.",
            hint="Register them when it has ended and its last files are collected: `muster outputs "
            "list` says so.",
        )
    draft = Draft(
        source="outputs",
        contents=output_contents(session, trial, body.paths),
        lineage=lineage_of(
            session, trial, attempt_no=trial.attempt_no, step=trial.step, now=caller.now
        ),
        metrics=latest_metrics(trial),
        signature=_signature(body),
        tags=body.tags,
        notes=body.notes,
        trial_id=trial.id,
        experiment_id=experiment.id,
        step=trial.step,
    )
    return draft, session.get_one(ProjectRow, experiment.project_id).name


def output_contents(session: Session, trial: TrialRow, paths: Sequence[str]) -> VersionContents:
    """Return the files of a trial's outputs that paths name. Raises InvalidRequest."""
    rows = [row for row in rows_of(session, trial.id, with_files=True) if row.deleted_at is None]
    entries = {entry.name: entry for entry in read_union(rows)}
    places = {}
    for name, entry in entries.items():
        row = place_of(session, rows, entry)
        places[name] = StoragePlace(row.storage_id, row.storage_url, row.folder, row.node_name)
    listed = {name: entry.file for name, entry in entries.items()}
    return checked(of_outputs(listed, paths, places))


def _upload_draft(session: Session, body: VersionIn) -> Draft:
    digests = {file.sha256 for file in body.files}
    blobs = {
        row.sha256: row
        for row in session.scalars(
            select(ModelBlobRow).where(
                ModelBlobRow.sha256.in_(digests), ModelBlobRow.is_complete.is_(True)
            )
        )
    }
    missing = [file for file in body.files if file.sha256 not in blobs]
    if missing:
        raise InvalidRequest(
            "models.not_uploaded",
            f"{len(missing):,} of {len(body.files):,} files have not arrived.",
            hint="Send them first: PUT /api/v1/model-blobs/{sha256}.",
            fields=[
                FieldProblem(f"files.{file.path[:80]}", "has not arrived") for file in missing[:20]
            ],
        )
    return Draft(
        source="upload",
        contents=checked(
            [
                VersionFile(
                    path=file.path,
                    sha256=file.sha256,
                    size_bytes=blobs[file.sha256].size_bytes,
                    blob_sha256=file.sha256,
                )
                for file in body.files
            ]
        ),
        lineage={},
        metrics={name: encode_number(value) for name, value in body.metrics.items()},
        signature=_signature(body),
        tags=body.tags,
        notes=body.notes,
    )


def _locked(session: Session, trial: TrialRow | None, caller: Caller) -> ExperimentRow | None:
    """Return the experiment of a trial, locked; None if it is gone. Raises Forbidden."""
    if trial is None:
        return None
    experiment = session.get(ExperimentRow, trial.experiment_id, with_for_update=True)
    if experiment is None or experiment.deleting_at is not None:
        return None
    require_charge(session, caller.principal, experiment)
    return experiment


def same_version(session: Session, model: ModelRow, draft: Draft) -> ModelVersionRow | None:
    """Return the newest version with the same origin and files that has not failed; None for none."""
    query = select(ModelVersionRow).where(
        ModelVersionRow.model_id == model.id,
        ModelVersionRow.state != "failed",
        ModelVersionRow.source == draft.source,
        ModelVersionRow.checkpoint_id.is_not_distinct_from(draft.checkpoint_id),
        ModelVersionRow.trial_id.is_not_distinct_from(draft.trial_id),
    )
    if draft.contents.files:
        query = query.where(ModelVersionRow.digest == draft.contents.digest)
    elif draft.source == "outputs":
        query = query.where(ModelVersionRow.source_uri == draft.source_uri)
    else:
        # Versions of earlier releases lack what rebuilds the module: registered again, they have it.
        has_config = exists().where(
            ModelFileRow.version_id == ModelVersionRow.id, ModelFileRow.path == CONFIG_FILE
        )
        query = query.where(or_(ModelVersionRow.state == "making", has_config))
    return session.scalar(query.order_by(ModelVersionRow.number.desc()).limit(1))


def _require_version(
    session: Session, caller: Caller, model: ModelRow, version: ModelVersionRow
) -> None:
    if not may_change_version(caller.principal, model, version):
        raise Forbidden(
            "models.not_yours",
            f"Version {version.number} of model {model.name} was registered by "
            f"{version.created_by}; they, the model's owner and administrators may change it.",
        )


def _signature(body: VersionIn) -> dict[str, Any] | None:
    return body.signature.model_dump() if body.signature is not None else None


def _what(draft: Draft) -> str:
    if draft.source == "checkpoint":
        return f"The checkpoint of step {draft.step:,}"
    if draft.source_uri:
        return "A logged model"
    return "Outputs"


def settle_model(
    session: Session,
    version: ModelVersionRow,
    *,
    sha256: str,
    size_bytes: int,
    path: str,
    now: dt.datetime,
) -> None:
    """The file of a version that was being made is known now; what rebuilds the module goes with it."""
    files = [VersionFile(path=path, sha256=sha256, size_bytes=size_bytes, place={"kind": "model"})]
    description = _description(session, version)
    if description is not None and path == MODEL_FILE:
        digest = uploads.add_small(session, description, now)
        files.append(
            VersionFile(
                path=CONFIG_FILE,
                sha256=digest,
                size_bytes=len(description),
                blob_sha256=digest,
            )
        )
    settle_contents(session, version, checked(files), now=now)


def settle_contents(
    session: Session, version: ModelVersionRow, contents: VersionContents, *, now: dt.datetime
) -> None:
    """Give a version that was being made its files: it is ready."""
    session.add_all(contents.rows(version.id))
    version.state, version.message, version.digest = "ready", "", contents.digest
    version.num_files, version.size_bytes = len(contents.files), contents.size_bytes
    version.updated_at = now


def fail_version(
    session: Session, model: ModelRow, version: ModelVersionRow, message: str, *, now: dt.datetime
) -> None:
    """A version cannot be made, which the events of its trial say."""
    version.state, version.message, version.updated_at = "failed", message, now
    add_event(
        session,
        "model.version_failed",
        f"Version {version.number} of model {model.name} could not be made: {message}.",
        now=now,
        level="warning",
        experiment_id=version.experiment_id,
        trial_id=version.trial_id,
        data={"model": model.name, "version": version.number},
    )
    touch(session, "models", f"model:{model.name}", "loops")


def _description(session: Session, version: ModelVersionRow) -> bytes | None:
    """Return the `config.json` of what the built-in trainer has trained; None where its settings make
    no sense to this version of Muster any more."""
    experiment = session.get(ExperimentRow, version.experiment_id or 0)
    trial = session.get(TrialRow, version.trial_id or 0)
    if experiment is None or trial is None or experiment.config.trainer is None:
        return None
    try:
        settings = configure(experiment.config, trial.hparams, slots=None)
    except ConfigError:
        return None
    return ModelConfig.of(settings).text().encode()
