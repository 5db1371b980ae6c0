"""Runs and experiments, as MLflow's API shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.wire import decode_number, encode_number

from .values import TrackedPoint

STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")

PARENT_TAG = "mlflow.parentRunId"
IMPORT_TAG = "muster.importId"
"""A run that is created again with the same value of this tag is the same run, and its params may
change."""
NAME_TAG = "mlflow.runName"
INPUT_MARK = "is_input"
"""Key of the models of a run that it reads; it writes the others."""
MODELS_TAG = "mlflow.log-model.history"
DEFAULT_EXPERIMENT = "Default"
"""Name of the experiment "0", which always exists."""


@dataclass(kw_only=True)
class TrackedExperiment:
    experiment_id: str
    name: str
    created_ms: int
    updated_ms: int
    stage: str = "active"
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def params(self) -> Mapping[str, str]:
        """No params: an experiment can be searched by its name, times and tags."""
        return {}

    @property
    def latest(self) -> Mapping[str, TrackedPoint]:
        """No metrics."""
        return {}

    def shown(self) -> dict[str, Any]:
        return {
            "experiment_id": self.experiment_id,
            "name": self.name,
            "artifact_location": f"mlflow-artifacts:/{self.experiment_id}",
            "lifecycle_stage": self.stage,
            "creation_time": self.created_ms,
            "last_update_time": self.updated_ms,
            "tags": _pairs(self.tags),
        }


@dataclass(kw_only=True)
class TrackedRun:
    run_id: str
    experiment_id: str
    label: str
    """Beginning of its metrics' names; "" for the run that stands for the trial."""
    folder: str
    """Folder of its artifacts, relative to that of all runs."""
    name: str
    rank: int = 0
    user: str = ""
    status: str = "RUNNING"
    stage: str = "active"
    started_ms: int = 0
    ended_ms: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    latest: dict[str, TrackedPoint] = field(default_factory=dict)
    datasets: list[Any] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)

    @property
    def parent_id(self) -> str:
        return self.tags.get(PARENT_TAG, "")

    @property
    def artifact_uri(self) -> str:
        return f"mlflow-artifacts:/{self.experiment_id}/{self.run_id}/artifacts"

    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run_id": self.run_id,
            "run_uuid": self.run_id,
            "run_name": self.name,
            "experiment_id": self.experiment_id,
            "user_id": self.user,
            "status": self.status,
            "start_time": self.started_ms,
            "artifact_uri": self.artifact_uri,
            "lifecycle_stage": self.stage,
        }
        return found if self.ended_ms is None else {**found, "end_time": self.ended_ms}

    def shown(self) -> dict[str, Any]:
        return {
            "info": self.info(),
            "data": {
                "metrics": [metric_json(point) for point in self.latest.values()],
                "params": _pairs(self.params),
                "tags": _pairs(self.tags),
            },
            "inputs": {
                "dataset_inputs": self.datasets,
                "model_inputs": [
                    {k: v for k, v in model.items() if k != INPUT_MARK}
                    for model in self.models
                    if INPUT_MARK in model
                ],
            },
            "outputs": {"model_outputs": [m for m in self.models if INPUT_MARK not in m]},
        }


@dataclass(frozen=True, kw_only=True)
class RunChange:
    """What is new of a run since the last change."""

    run: TrackedRun
    is_new: bool = False
    """Whether it starts afresh: nothing that was known of a run with this id holds any more."""
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    removed_tags: tuple[str, ...] = ()


def run_to_json(run: TrackedRun) -> dict[str, Any]:
    """Return what a later attempt needs to go on with a run."""
    shown = {k: v for k, v in vars(run).items() if k != "latest"}
    latest = [[p.key, p.step, p.time_ms, encode_number(p.value)] for p in run.latest.values()]
    return {**shown, "latest": latest}


def run_from_json(value: Mapping[str, Any]) -> TrackedRun:
    """Return the run of `run_to_json`. Raises ValueError, KeyError and TypeError."""
    latest = {
        str(key): TrackedPoint(str(key), int(step), int(at), decode_number(number))
        for key, step, at, number in value["latest"]
    }
    run = TrackedRun(**{**value, "latest": latest})
    texts = (run.run_id, run.experiment_id, run.label, run.folder, run.name, run.user, run.status)
    if not all(isinstance(text, str) for text in texts) or run.status not in STATUSES:
        raise ValueError("not a run")
    for pairs in (run.params, run.tags):
        if not all(isinstance(v, str) for pair in pairs.items() for v in pair):
            raise ValueError("not params and tags")
    return run


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def metric_json(point: TrackedPoint) -> dict[str, Any]:
    """Return a point as answers have it; NaN and infinities are texts."""
    return {
        "key": point.key,
        "value": encode_number(point.value),
        "timestamp": point.time_ms,
        "step": point.step,
    }
