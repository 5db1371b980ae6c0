"""Models that clients of MLflow 3 log: each is a folder of artifacts with a description."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from . import search
from .errors import invalid, missing, no_endpoint
from .runs import TrackedRun
from .values import TrackedPoint, items_of, listed, page_of, pair_of

MODELS_MAX = 1_000
"""Most models of one job."""
MODELS_PAGE_MAX = 1_000
"""Most models in one answer."""
MODEL_PAIRS_MAX = 1_000
"""Most params and tags of one model."""
_STATUSES = ("LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED")
_PATH = re.compile(r"/logged-models/([\w-]+)(/tags(?:/.+)?|/params)?")
_UNFIT = re.compile(r"[^\w.\-]+")


@dataclass(kw_only=True)
class LoggedModel:
    model_id: str
    experiment_id: str
    name: str
    folder: str
    """Folder of its artifacts, relative to that of all runs."""
    created_ms: int
    updated_ms: int
    status: str
    source_run_id: str
    model_type: str
    tags: dict[str, str]
    params: dict[str, str]

    @property
    def latest(self) -> Mapping[str, TrackedPoint]:
        """Its metrics: none, because they are those of its run."""
        return {}

    def shown(self) -> dict[str, Any]:
        info = {
            "model_id": self.model_id,
            "experiment_id": self.experiment_id,
            "name": self.name,
            "creation_timestamp_ms": self.created_ms,
            "last_updated_timestamp_ms": self.updated_ms,
            "artifact_uri": f"mlflow-artifacts:/{self.experiment_id}/models/{self.model_id}/artifacts",
            "status": self.status,
            "model_type": self.model_type,
            "source_run_id": self.source_run_id,
            "tags": [{"key": k, "value": v} for k, v in self.tags.items()],
        }
        params = [{"key": k, "value": v} for k, v in self.params.items()]
        return {"model": {"info": info, "data": {"params": params, "metrics": []}}}


_ATTRIBUTES: search.Attributes[LoggedModel] = {
    "model_id": lambda model: model.model_id,
    "name": lambda model: model.name,
    "status": lambda model: model.status,
    "model_type": lambda model: model.model_type,
    "source_run_id": lambda model: model.source_run_id,
    "creation_timestamp": lambda model: model.created_ms,
    "last_updated_timestamp": lambda model: model.updated_ms,
}


class ModelShelf:
    """The logged models of one job, in memory. A subclass may keep them elsewhere."""

    def __init__(self, run: Callable[[str], TrackedRun], *, trial: str) -> None:
        """Create an empty shelf.

        run: returns a run by its id, or raises TrackingError.
        trial: what no other trial is called, for the ids of models."""
        self.run = run
        self._trial = trial
        self._models: dict[str, LoggedModel] = {}
        self._folders: set[str] = set()
        """Folders of all models, deleted ones included: their artifacts stay among the outputs."""

    def find(self, model_id: str) -> LoggedModel | None:
        """Return a model; None if there is none."""
        return self._models.get(model_id)

    def source_of(self, body: Mapping[str, Any], name: str) -> str:
        """Return the id of the run that a new model of this name belongs to; "" for none."""
        return str(body.get("source_run_id") or "")

    def place(self, name: str, source_run_id: str) -> tuple[str, str]:
        """Return the id of a new model, and the folder of its artifacts. Raises TrackingError."""
        if len(self._folders) >= MODELS_MAX:
            raise invalid(f"a job can log at most {MODELS_MAX} models")
        above = f"{self.run(source_run_id).folder}/models" if source_run_id else "models"
        base = f"{above}/{_UNFIT.sub('-', name).strip('-.')[:80] or 'model'}"
        folder, no = base, 1
        while folder in self._folders:
            no += 1
            folder = f"{base}-{no}"
        self._folders.add(folder)
        known_by = f"muster:{self._trial}/{folder}"
        return f"m-{uuid.uuid5(uuid.NAMESPACE_URL, known_by).hex}", folder

    def keep(self, model: LoggedModel) -> None:
        """Keep a model, new or changed. Raises TrackingError."""
        self._models[model.model_id] = model

    def remove(self, model: LoggedModel) -> None:
        """Forget a model. Raises TrackingError."""
        del self._models[model.model_id]

    def of(self, experiment_ids: Collection[str]) -> list[LoggedModel]:
        """Return the models of these experiments, oldest first."""
        return [m for m in self._models.values() if m.experiment_id in experiment_ids]

    # ------------------------------------------------------------ requests

    def answer(
        self, method: str, path: str, body: Mapping[str, Any], *, now_ms: int
    ) -> dict[str, Any]:
        """Return the answer to a request below /logged-models. Raises TrackingError."""
        if path == "/logged-models" and method == "POST":
            return self._create(body, now_ms).shown()
        if path == "/logged-models/search" and method == "POST":
            return self._search(body)
        found = _PATH.fullmatch(path)
        if found is None:
            raise no_endpoint(method, path)
        model = self.model(found[1])
        if method == "DELETE" and not found[2]:
            self.remove(model)
            return {}
        match method, (found[2] or "").split("/")[1:]:
            case "GET", []:
                pass
            case "PATCH", []:
                model.status = str(body.get("status") or model.status)
                if model.status not in _STATUSES:
                    raise invalid(f"status must be one of {', '.join(_STATUSES)}")
            case "PATCH", ["tags"]:
                self._put(model.tags, body, "tags", "tag")
            case "POST", ["params"]:
                self._put(model.params, body, "params", "param")
            case "DELETE", ["tags", *key]:
                name = "/".join(key)
                if model.tags.pop(name, None) is None:
                    raise missing(f"No tag with key: {name[:250]} in model with ID '{found[1]}'")
            case _:
                raise no_endpoint(method, path)
        if method != "GET":
            model.updated_ms = now_ms
            self.keep(model)
        return model.shown()

    def model(self, model_id: str) -> LoggedModel:
        """Return a model. Raises TrackingError."""
        found = self.find(model_id)
        if found is None:
            raise missing(f"Logged model with ID '{model_id[:64]}' not found.")
        return found

    def _create(self, body: Mapping[str, Any], now_ms: int) -> LoggedModel:
        name = str(body.get("name") or f"model-{uuid.uuid4().hex[:8]}")[:250]
        source = self.source_of(body, name)
        model_id, folder = self.place(name, source)
        model = LoggedModel(
            model_id=model_id,
            experiment_id=str(body.get("experiment_id") or "0"),
            name=name,
            folder=folder,
            created_ms=now_ms,
            updated_ms=now_ms,
            status="LOGGED_MODEL_PENDING",
            source_run_id=source,
            model_type=str(body.get("model_type") or "")[:250],
            tags={},
            params={},
        )
        self._put(model.tags, body, "tags", "tag")
        self._put(model.params, body, "params", "param")
        self.keep(model)
        return model

    def _search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {str(number) for number in body.get("experiment_ids") or []}
        matches = search.matcher(str(body.get("filter") or ""), _ATTRIBUTES)
        found = [model for model in self.of(wanted) if matches(model)]
        if body.get("datasets"):
            raise invalid("models cannot be searched by data sets: their metrics are those of runs")
        found.reverse()  # The youngest first.
        found = search.ordered(
            found, [_order(o) for o in listed(body.get("order_by"))], _ATTRIBUTES
        )
        page, token = page_of(found, body, default=100, limit=MODELS_PAGE_MAX)
        answer: dict[str, Any] = {"models": [model.shown()["model"] for model in page]}
        return {**answer, "next_page_token": token} if token else answer

    @staticmethod
    def _put(known: dict[str, str], body: Mapping[str, Any], name: str, what: str) -> None:
        new = dict(pair_of(item, what) for item in items_of(body, name, MODEL_PAIRS_MAX))
        if len(known.keys() | new.keys()) > MODEL_PAIRS_MAX:
            raise invalid(f"a model can have at most {MODEL_PAIRS_MAX} {name}")
        known.update(new)


def _order(given: Any) -> str:
    """Return an element of `order_by` as the text that other searches have for it."""
    if not isinstance(given, dict):
        raise invalid("Invalid order_by clause: write {'field_name': 'name', 'ascending': true}")
    direction = "DESC" if given.get("ascending") is False else "ASC"
    return f"{given.get('field_name')} {direction}"
