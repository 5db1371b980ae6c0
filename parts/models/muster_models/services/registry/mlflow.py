"""The model registry as MLflow's clients see it: the models of this package under MLflow's names.

Stages are refused: aliases take their place. The source of a version must be artifacts of a run or
logged model of this server; no other address is ever read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.tracking import TrackingError, artifact_path, invalid, missing, registry_call
from muster.tracking.registry import NO_PROMPT, RegistryItem, pairs, searched
from muster.tracking.values import items_of, key_of, listed, pair_of, text_of
from muster_models.domain.registry.contents import ALIAS_NAME, ALIAS_NAME_RULE, FILES_MAX
from muster_models.schemas.registry import (
    MAX_TAGS,
    MAX_TEXT_CHARS,
    ModelIn,
    ModelPatch,
    VersionPatch,
)
from muster_server.db.engine import Database
from muster_server.db.models import (
    ExperimentRow,
    ModelAliasRow,
    ModelRow,
    ModelVersionRow,
    ProjectRow,
    RunArtifactChunkRow,
    RunArtifactRow,
    TrialRow,
    UnmanagedRunRow,
)
from muster_server.errors import Conflict
from muster_server.services.core.callers import Caller
from muster_server.services.tracking.artifacts import REGISTRY, place, version_at
from muster_server.settings import Settings

from . import aliases, fetching, mlmodel, models, registration
from .lineage import latest_metrics, lineage_of
from .places import VersionFile, checked

SEARCHED_MAX = 10_000
"""Most models, and versions, that one search looks at."""
_STAGES = (
    "Muster has no stages: let an alias such as production name the version instead "
    "(set_registered_model_alias)"
)

Body = Mapping[str, Any]


class MlflowRegistry:
    """The registry for one request, within the caller's transaction."""

    def __init__(self, session: Session, caller: Caller, settings: Settings) -> None:
        self._session = session
        self._caller = caller
        self._settings = settings

    def answer(self, method: str, path: str, body: Body) -> dict[str, Any]:
        """Return the answer to a request. Raises TrackingError and MusterError."""
        do = _ENDPOINTS.get((method, *(registry_call(path) or ("", ""))))
        if do is None:
            raise TrackingError(
                404, "ENDPOINT_NOT_FOUND", f"Muster does not offer {method} {path[:200]}."
            )
        return do(self, body)

    # ------------------------------------------------------------ models

    def create_model(self, body: Body) -> dict[str, Any]:
        given = ModelIn.model_construct(
            name=text_of(body, "name"),
            project="default",
            description=_description(body) or "",
            tags=_tags(body),
        )
        try:
            row = models.create_model(self._session, given, self._caller)
        except Conflict as error:
            raise TrackingError(400, "RESOURCE_ALREADY_EXISTS", error.message) from None
        return {"registered_model": self._model(row)}

    def get_model(self, body: Body) -> dict[str, Any]:
        return {"registered_model": self._model(self._find(body))}

    def update_model(self, body: Body) -> dict[str, Any]:
        return self._patched(body, ModelPatch.model_construct(description=_description(body)))

    def rename_model(self, body: Body) -> dict[str, Any]:
        models.require_name(text_of(body, "new_name"))
        return self._patched(body, ModelPatch.model_construct(name=text_of(body, "new_name")))

    def _patched(self, body: Body, patch: ModelPatch) -> dict[str, Any]:
        row = models.update_model(self._session, text_of(body, "name"), patch, self._caller)
        return {"registered_model": self._model(row)}

    def delete_model(self, body: Body) -> dict[str, Any]:
        models.delete_model(self._session, text_of(body, "name"), self._caller, force=False)
        return {}

    def search_models(self, body: Body) -> dict[str, Any]:
        rows = self._session.scalars(
            select(ModelRow).order_by(ModelRow.name).limit(SEARCHED_MAX)
        ).all()
        found = [
            RegistryItem(
                row,
                NO_PROMPT | row.tags,
                {"name": row.name, "timestamp": _ms(row.updated_at)},
            )
            for row in rows
        ]
        page, token = searched(found, body)
        answer: dict[str, Any] = {"registered_models": [self._model(item.row) for item in page]}
        return {**answer, "next_page_token": token} if token else answer

    def latest_versions(self, body: Body) -> dict[str, Any]:
        if listed(body.get("stages")) not in ([], ["None"]):
            raise invalid(_STAGES)
        model = self._find(body)
        newest = self._session.scalar(
            select(ModelVersionRow)
            .where(ModelVersionRow.model_id == model.id)
            .order_by(ModelVersionRow.number.desc())
            .limit(1)
        )
        return {"model_versions": [self._version(model, newest)] if newest else []}

    def set_model_tag(self, body: Body) -> dict[str, Any]:
        key, value = pair_of(body, "tag")
        return self._model_tags(body, lambda tags: {**tags, key: value})

    def delete_model_tag(self, body: Body) -> dict[str, Any]:
        key = key_of(body, "tag")
        return self._model_tags(body, lambda tags: {k: v for k, v in tags.items() if k != key})

    def _model_tags(
        self, body: Body, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> dict[str, Any]:
        tags = _bounded(change(dict(self._find(body).tags)))
        self._patched(body, ModelPatch.model_construct(tags=tags))
        return {}

    # ------------------------------------------------------------ aliases

    def set_alias(self, body: Body) -> dict[str, Any]:
        alias = text_of(body, "alias")
        if not re.fullmatch(ALIAS_NAME, alias):
            raise invalid(f"{alias[:64]!r} cannot be an alias: one {ALIAS_NAME_RULE}")
        aliases.set_alias(
            self._session,
            text_of(body, "name"),
            alias,
            _number(body),
            self._caller,
            reason="set with MLflow's client",
        )
        return {}

    def get_alias(self, body: Body) -> dict[str, Any]:
        name, alias = text_of(body, "name"), text_of(body, "alias")
        model, version = aliases.version_of(self._session, name, alias)
        return {"model_version": self._version(model, version)}

    def delete_alias(self, body: Body) -> dict[str, Any]:
        aliases.remove_alias(
            self._session,
            text_of(body, "name"),
            text_of(body, "alias"),
            self._caller,
            reason="deleted with MLflow's client",
        )
        return {}

    # ------------------------------------------------------------ versions

    def create_version(self, body: Body) -> dict[str, Any]:
        source = text_of(body, "source", max_chars=1000)
        trial_id, folder = self._folder(source)
        trial = self._session.get_one(TrialRow, trial_id)
        experiment = self._session.get_one(ExperimentRow, trial.experiment_id)
        files = self._files(trial_id, folder, source)
        draft = registration.Draft(
            source="mlflow",
            source_uri=source,
            contents=checked(files),
            lineage=lineage_of(self._session, trial, attempt_no=0, step=None, now=self._caller.now),
            metrics=latest_metrics(trial),
            signature=self._signature(files),
            tags=_tags(body),
            notes=_description(body) or "",
            trial_id=trial_id,
            experiment_id=trial.experiment_id,
        )
        project = self._session.get_one(ProjectRow, experiment.project_id).name
        name = text_of(body, "name")
        model = models.find_or_create(self._session, name, project, self._caller)
        version = registration.add_version(
            self._session, model, draft, self._caller, settings=self._settings
        )
        return {"model_version": self._version(model, version)}

    def get_version(self, body: Body) -> dict[str, Any]:
        model = self._find(body)
        found = models.find_version(self._session, model, _number(body))
        return {"model_version": self._version(model, found)}

    def update_version(self, body: Body) -> dict[str, Any]:
        patch = VersionPatch.model_construct(notes=_description(body))
        model, version = registration.update_version(
            self._session, text_of(body, "name"), _number(body), patch, self._caller
        )
        return {"model_version": self._version(model, version)}

    def delete_version(self, body: Body) -> dict[str, Any]:
        registration.delete_version(
            self._session, text_of(body, "name"), _number(body), self._caller, force=False
        )
        return {}

    def search_versions(self, body: Body) -> dict[str, Any]:
        rows = self._session.execute(
            select(ModelVersionRow, ModelRow)
            .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
            .order_by(ModelRow.name, ModelVersionRow.number.desc())
            .limit(SEARCHED_MAX)
        ).all()
        found = [
            RegistryItem(
                (model, row),
                NO_PROMPT | row.tags,
                {
                    "name": model.name,
                    "version_number": row.number,
                    "run_id": self._run_id(row),
                    "source_path": row.source_uri,
                    "creation_timestamp": _ms(row.created_at),
                    "last_updated_timestamp": _ms(row.updated_at),
                },
            )
            for row, model in rows
        ]
        page, token = searched(found, body)
        answer: dict[str, Any] = {"model_versions": [self._version(*item.row) for item in page]}
        return {**answer, "next_page_token": token} if token else answer

    def download_uri(self, body: Body) -> dict[str, Any]:
        found = models.find_version(self._session, self._find(body), _number(body))
        return {"artifact_uri": f"mlflow-artifacts:/{REGISTRY}/{found.id}"}

    def set_version_tag(self, body: Body) -> dict[str, Any]:
        key, value = pair_of(body, "tag")
        return self._version_tags(body, lambda tags: {**tags, key: value})

    def delete_version_tag(self, body: Body) -> dict[str, Any]:
        key = key_of(body, "tag")
        return self._version_tags(body, lambda tags: {k: v for k, v in tags.items() if k != key})

    def _version_tags(
        self, body: Body, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> dict[str, Any]:
        model = self._find(body)
        number = _number(body)
        before = models.find_version(self._session, model, number)
        patch = VersionPatch.model_construct(tags=_bounded(change(dict(before.tags))))
        registration.update_version(self._session, model.name, number, patch, self._caller)
        return {}

    def refuse_stage(self, body: Body) -> dict[str, Any]:
        raise invalid(_STAGES)

    # ------------------------------------------------------------ sources

    def _folder(self, source: str) -> tuple[int, str]:
        """Return the trial and the folder of artifacts that a source means. Raises TrackingError, and
        Forbidden for those of another."""
        path = artifact_path(source)
        if not path:
            raise invalid(
                f"Invalid source {source[:200]!r}: a version is made of artifacts of a run or logged "
                "model of this server, such as runs:/<run_id>/model. Files from elsewhere: "
                "`muster model upload`"
            )
        return place(self._session, self._caller, path, writes=True)

    def _files(self, trial_id: int, folder: str, source: str) -> list[VersionFile]:
        # Locks the experiment against deletion, as other registrations do.
        experiment_id = self._session.get_one(TrialRow, trial_id).experiment_id
        self._session.get(ExperimentRow, experiment_id, with_for_update=True)
        rows = self._session.scalars(
            select(RunArtifactRow)
            .where(
                RunArtifactRow.trial_id == trial_id,
                (RunArtifactRow.path == folder)
                | RunArtifactRow.path.startswith(f"{folder}/", autoescape=True),
            )
            .order_by(RunArtifactRow.path)
            .limit(FILES_MAX + 1)
        ).all()
        if not rows:
            raise missing(f"There are no artifacts under {source[:200]!r}: log the model first.")
        if any(not row.sha256 for row in rows):
            raise invalid(
                "These artifacts were logged with an earlier version of Muster, which kept no digests: "
                "log the model once more"
            )
        inner = len(folder) + 1
        return [
            VersionFile(
                path=row.path[inner:] or row.path.rpartition("/")[2],
                sha256=row.sha256,
                size_bytes=row.size_bytes,
                artifact_id=row.id,
            )
            for row in rows
        ]

    def _signature(self, files: list[VersionFile]) -> dict[str, Any] | None:
        """Return the signature that a model's description states; None if there is none to be read."""
        found = next((f for f in files if f.path == mlmodel.FILE), None)
        if found is None or (found.size_bytes or 0) > mlmodel.MAX_BYTES:
            return None
        content = b"".join(
            self._session.scalars(
                select(RunArtifactChunkRow.data)
                .where(RunArtifactChunkRow.artifact_id == found.artifact_id)
                .order_by(RunArtifactChunkRow.idx)
            )
        )
        return mlmodel.signature_of(content)

    # ------------------------------------------------------------ answers

    def _find(self, body: Body) -> ModelRow:
        return models.find_model(self._session, text_of(body, "name"))

    def _model(self, row: ModelRow) -> dict[str, Any]:
        found = self._session.scalar(
            select(ModelVersionRow)
            .where(ModelVersionRow.model_id == row.id)
            .order_by(ModelVersionRow.number.desc())
            .limit(1)
        )
        return {
            "name": row.name,
            "creation_timestamp": _ms(row.created_at),
            "last_updated_timestamp": _ms(row.updated_at),
            "user_id": row.created_by,
            "description": row.description,
            "latest_versions": [self._version(row, found)] if found is not None else [],
            "tags": pairs(row.tags),
            "aliases": [
                {"alias": each.name, "version": str(each.version)}
                for each in aliases.of_model(self._session, row.id)
            ],
        }

    def _version(self, model: ModelRow, row: ModelVersionRow) -> dict[str, Any]:
        named = self._session.scalars(
            select(ModelAliasRow.name)
            .where(ModelAliasRow.version_id == row.id)
            .order_by(ModelAliasRow.name)
        )
        return {
            "name": model.name,
            "version": str(row.number),
            "creation_timestamp": _ms(row.created_at),
            "last_updated_timestamp": _ms(row.updated_at),
            "user_id": row.created_by,
            "current_stage": "None",
            "description": row.notes,
            "source": (row.source == "mlflow" and row.source_uri)
            or f"mlflow-artifacts:/{REGISTRY}/{row.id}",
            "run_id": self._run_id(row),
            "status": _STATUS[row.state],
            "status_message": row.message,
            "tags": pairs(row.tags),
            "aliases": list(named),
        }

    def _run_id(self, row: ModelVersionRow) -> str:
        if row.source != "mlflow":
            return ""
        found = self._session.scalar(
            select(UnmanagedRunRow.run_id).where(UnmanagedRunRow.trial_id == row.trial_id)
        )
        return found or ""


_STATUS = {
    "making": "PENDING_REGISTRATION",
    "ready": "READY",
    "failed": "FAILED_REGISTRATION",
}


def _number(body: Body) -> int:
    text = text_of(body, "version")
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise invalid(f"version is {text[:64]!r}; it must be the number of a version")
    return int(text)


def _tags(body: Body) -> dict[str, str]:
    return dict(pair_of(item, "tag") for item in items_of(body, "tags", MAX_TAGS))


def _bounded(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > MAX_TAGS:
        raise invalid(f"at most {MAX_TAGS} tags are possible")
    return tags


def _description(body: Body) -> str | None:
    text = body.get("description")
    if text is not None and len(str(text)) > MAX_TEXT_CHARS:
        raise invalid(f"description has more than {MAX_TEXT_CHARS:,} characters")
    return None if text is None else str(text)


def _ms(at: Any) -> int:
    return int(at.timestamp() * 1000)


def read_version(
    database: Database, caller: Caller, path: str, settings: Settings
) -> tuple[int, Iterator[bytes]]:
    """Return a file of a version, which a node reads first if the server lacks it: clients repeat what is
    answered with 503."""
    with database.transaction() as session:
        model, version, inner = version_at(session, path)
        file = fetching.file_of(session, model, version, inner)
        if fetching.num_parts(file) > 1:
            raise invalid(
                f"{inner} is fetched in parts, which MLflow's client cannot do: use `muster model pull "
                f"{model.name}:{version.number} DIR`"
            )
        fetched = fetching.request(session, version, file, 0, caller, settings=settings)
        if fetched.state == "ready":
            content = fetching.find_content(session, file, export_id=fetched.export_id)
            return content.size_bytes, content.stream(database, 0)
    if fetched.state == "failed":
        raise invalid(f"{inner} cannot be read: {fetched.message}")
    raise TrackingError(
        503, "TEMPORARILY_UNAVAILABLE", f"{inner} is being read by {fetched.waits_for}"
    )


_R, _V = "registered-models", "model-versions"
_ENDPOINTS: dict[tuple[str, str, str], Callable[[MlflowRegistry, Body], dict[str, Any]]] = {
    ("POST", _R, "create"): MlflowRegistry.create_model,
    ("GET", _R, "get"): MlflowRegistry.get_model,
    ("PATCH", _R, "update"): MlflowRegistry.update_model,
    ("POST", _R, "rename"): MlflowRegistry.rename_model,
    ("DELETE", _R, "delete"): MlflowRegistry.delete_model,
    ("GET", _R, "search"): MlflowRegistry.search_models,
    ("POST", _R, "search"): MlflowRegistry.search_models,
    ("GET", _R, "get-latest-versions"): MlflowRegistry.latest_versions,
    ("POST", _R, "get-latest-versions"): MlflowRegistry.latest_versions,
    ("POST", _R, "set-tag"): MlflowRegistry.set_model_tag,
    ("DELETE", _R, "delete-tag"): MlflowRegistry.delete_model_tag,
    ("POST", _R, "alias"): MlflowRegistry.set_alias,
    ("GET", _R, "alias"): MlflowRegistry.get_alias,
    ("DELETE", _R, "alias"): MlflowRegistry.delete_alias,
    ("POST", _V, "create"): MlflowRegistry.create_version,
    ("GET", _V, "get"): MlflowRegistry.get_version,
    ("PATCH", _V, "update"): MlflowRegistry.update_version,
    ("DELETE", _V, "delete"): MlflowRegistry.delete_version,
    ("GET", _V, "search"): MlflowRegistry.search_versions,
    ("POST", _V, "search"): MlflowRegistry.search_versions,
    ("GET", _V, "get-download-uri"): MlflowRegistry.download_uri,
    ("POST", _V, "set-tag"): MlflowRegistry.set_version_tag,
    ("DELETE", _V, "delete-tag"): MlflowRegistry.delete_version_tag,
    ("POST", _V, "transition-stage"): MlflowRegistry.refuse_stage,
}
