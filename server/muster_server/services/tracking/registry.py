"""The model registry as MLflow's clients see it: the models of services.registry under MLflow's names.

Stages are refused: aliases take their place. The source of a version must be artifacts of a run or
logged model of this server; no other address is ever read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.tracking import TrackedPoint, TrackingError, invalid, missing
from muster.tracking.search import Attributes, matcher, ordered
from muster.tracking.values import items_of, key_of, listed, page_of, pair_of, text_of
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
from muster_server.domain.registry.contents import ALIAS_NAME, ALIAS_NAME_RULE, FILES_MAX
from muster_server.errors import Conflict
from muster_server.schemas.registry import (
    MAX_TAGS,
    MAX_TEXT_CHARS,
    ModelIn,
    ModelPatch,
    VersionPatch,
)
from muster_server.settings import Settings

from ..core.callers import Caller
from ..registry import aliases, models, registration
from ..registry.lineage import latest_metrics, lineage_of
from ..registry.places import VersionFile, checked
from .artifacts import REGISTRY, place

SEARCHED_MAX = 10_000
"""Most models, and versions, that one search looks at."""
ASKED_MAX = 200_000
"""Largest `max_results`, as in MLflow's server; its clients ask for 10,000 versions by default."""
PAGE_MAX = 1_000
"""Most models, and versions, in one answer; the token in it leads to the others."""
_NO_PROMPT = {"mlflow.prompt.is_prompt": "false"}
"""Tags of a model that does not say otherwise. MLflow's client excludes prompts from its searches by
the condition that this tag is not 'true'."""
MLMODEL = "MLmodel"
MLMODEL_MAX_BYTES = 1 << 20
_PATH = re.compile(r"/api/2\.0/mlflow/(registered-models|model-versions)/([a-z-]+)")
_SOURCE = re.compile(r"mlflow-artifacts:/(?:/[^/]*/)?/*(.+)")
_RUN_SOURCE = re.compile(r"runs:/([0-9a-f]{32})/(.+)")
_MODEL_SOURCE = re.compile(r"models:/(m-[\w-]{1,62})/?")
_STAGES = (
    "Muster has no stages: let an alias such as production name the version instead "
    "(set_registered_model_alias)"
)

Body = Mapping[str, Any]


def is_registry(path: str) -> bool:
    """Return whether a request is one to the model registry."""
    return _PATH.fullmatch(path) is not None


class MlflowRegistry:
    """The registry for one request, within the caller's transaction."""

    def __init__(self, session: Session, caller: Caller, settings: Settings) -> None:
        self._session = session
        self._caller = caller
        self._settings = settings

    def answer(self, method: str, path: str, body: Body) -> dict[str, Any]:
        """Return the answer to a request. Raises TrackingError and MusterError."""
        found = _PATH.fullmatch(path)
        assert found is not None, "checked: one to the registry"
        do = _ENDPOINTS.get((method, found[1], found[2]))
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
            _Item(
                row,
                _NO_PROMPT | row.tags,
                {"name": row.name, "timestamp": _ms(row.updated_at)},
            )
            for row in rows
        ]
        page, token = _searched(found, body)
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
            _Item(
                (model, row),
                _NO_PROMPT | row.tags,
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
        page, token = _searched(found, body)
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
        if found := _MODEL_SOURCE.fullmatch(source):
            path = f"0/models/{found[1]}/artifacts"
        elif found := _RUN_SOURCE.fullmatch(source):
            path = f"0/{found[1]}/artifacts/{found[2]}"
        elif found := _SOURCE.fullmatch(source):
            path = found[1]
        else:
            raise invalid(
                f"Invalid source {source[:200]!r}: a version is made of artifacts of a run or logged "
                "model of this server, such as runs:/<run_id>/model. Files from elsewhere: "
                "`muster model upload`"
            )
        return place(self._session, self._caller, path.rstrip("/"), writes=True)

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
        """Return the signature that a model's description states; None if there is none to be read. The
        description is data: nothing in it is ever executed."""
        found = next((f for f in files if f.path == MLMODEL), None)
        if found is None or (found.size_bytes or 0) > MLMODEL_MAX_BYTES:
            return None
        content = b"".join(
            self._session.scalars(
                select(RunArtifactChunkRow.data)
                .where(RunArtifactChunkRow.artifact_id == found.artifact_id)
                .order_by(RunArtifactChunkRow.idx)
            )
        )
        try:
            signature = yaml.safe_load(content)["signature"]
            read = {side: _tensors(signature.get(side)) for side in ("inputs", "outputs")}
        except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return read if read["inputs"] or read["outputs"] else None

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
            "tags": _pairs(row.tags),
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
            "source": row.source_uri or f"mlflow-artifacts:/{REGISTRY}/{row.id}",
            "run_id": self._run_id(row),
            "status": _STATUS[row.state],
            "status_message": row.message,
            "tags": _pairs(row.tags),
            "aliases": list(named),
        }

    def _run_id(self, row: ModelVersionRow) -> str:
        if row.source != "mlflow":
            return ""
        found = self._session.scalar(
            select(UnmanagedRunRow.run_id).where(UnmanagedRunRow.trial_id == row.trial_id)
        )
        return found or ""


@dataclass(frozen=True)
class _Item:
    """What a search looks at."""

    row: Any
    tags: Mapping[str, str]
    attributes: Mapping[str, Any]

    @property
    def params(self) -> Mapping[str, str]:
        return {}

    @property
    def latest(self) -> Mapping[str, TrackedPoint]:
        return {}


def _searched(found: list[_Item], body: Body) -> tuple[list[_Item], str]:
    names = (
        "name", "timestamp", "version_number", "run_id", "source_path", "creation_timestamp",
        "last_updated_timestamp",
    )  # fmt: skip
    attributes: Attributes[_Item] = {
        name: lambda item, name=name: item.attributes.get(name)  # type: ignore[misc]
        for name in names
    }
    matches = matcher(str(body.get("filter") or ""), attributes)
    kept = [item for item in found if matches(item)]
    orders = [str(order) for order in listed(body.get("order_by"))]
    return page_of(
        ordered(kept, orders, attributes), body, default=100, limit=ASKED_MAX, page_max=PAGE_MAX
    )


def _tensors(given: Any) -> list[dict[str, Any]]:
    """Return inputs or outputs of a signature as MLflow writes them: JSON of columns or tensors."""
    found = []
    for entry in json.loads(given) if isinstance(given, str) else given or []:
        is_tensor = entry["type"] == "tensor"
        spec = entry["tensor-spec"] if is_tensor else {"dtype": entry["type"], "shape": None}
        shape = spec.get("shape")
        found.append(
            {
                "name": str(entry.get("name") or "")[:200],
                "type": str(spec["dtype"])[:64],
                "shape": [int(n) for n in shape][:16] if shape is not None else None,
            }
        )
    return found[:100]


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


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]


def _ms(at: Any) -> int:
    return int(at.timestamp() * 1000)


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
