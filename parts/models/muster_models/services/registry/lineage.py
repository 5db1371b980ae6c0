"""Where a version came from, as it is known when the version is registered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from muster.document.codec import dump
from muster_server.db.models import AllocationRow, ExperimentRow, TrialRow, UnmanagedRunRow

DATA_MAX = 100
METRICS_MAX = 200
_ENVIRONMENT = (
    "python", "image", "pull_policy", "registry_login", "shm_size", "requirements", "setup", "torch",
)  # fmt: skip
"""Keys of the section `environment` that a job of somebody else needs to run the same code."""
_MEASURED = ("time/", "comm/", "throughput/", "memory/", "system/", "gpu/")
"""Groups of metrics about the running of a training, not about its model."""


def lineage_of(
    session: Session, trial: TrialRow, *, attempt_no: int, step: int | None, now: dt.datetime
) -> dict[str, Any]:
    """Return experiment, trial, attempt, step, code, git commit, data sets, recipe, parent and
    slot-hours of what a trial produced. What is not known is left out."""
    experiment = session.scalars(
        select(ExperimentRow)
        .where(ExperimentRow.id == trial.experiment_id)
        .options(undefer(ExperimentRow.code_version))
    ).one()
    config = experiment.config
    found: dict[str, Any] = {
        "experiment_id": experiment.id,
        "experiment_name": experiment.name,
        "trial_id": trial.id,
        "trial_no": trial.no,
        "attempt_no": attempt_no or None,
        "step": step,
        "code_sha256": experiment.blob_sha256,
        "git": _git(experiment.code_version),
        "data": _data(session, experiment, trial),
        "trainer": dump(config.trainer) if config.trainer is not None else None,
        "entrypoint": list(config.entrypoint) if config.entrypoint else None,
        "hyperparameters": trial.hparams or None,
        "parent": _parent(experiment.source),
        "slot_hours": _slot_hours(session, trial.id, now),
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def code_of(session: Session, lineage: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return what a job needs to rebuild a model of the user's own functions: the sections `code` and
    `environment` of the experiment that trained it, without secrets and mounts, and the digest of its code.
    Nothing for a model that is built in, or of which no experiment is known."""
    trainer = lineage.get("trainer") or {}
    if not any(":" in str(trainer.get(key)) for key in ("model", "data")):
        return {}, None
    experiment = session.get(ExperimentRow, lineage["experiment_id"])
    if experiment is None:
        return {}, None
    code = experiment.config.code
    installed = code.installed if code is not None else None
    if installed is None and experiment.blob_sha256 is None:
        return {}, None
    environment = dump(experiment.config.environment)
    return {
        "code": {"path": "."} if installed is None else {"installed": installed},
        "environment": {key: environment[key] for key in _ENVIRONMENT if environment[key]},
    }, experiment.blob_sha256


def latest_metrics(trial: TrialRow) -> dict[str, Any]:
    """Return the last values of a trial's metrics as wire numbers, without measurements of speed and
    memory; at most METRICS_MAX."""
    names = sorted(name for name in trial.summary if not name.startswith(_MEASURED))
    return {name: trial.summary[name]["last"] for name in names[:METRICS_MAX]}


def _git(version: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if version is None:
        return None
    return {name: version[name] for name in ("commit", "branch", "is_dirty") if name in version}


def _data(session: Session, experiment: ExperimentRow, trial: TrialRow) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if experiment.config.trainer is not None:
        found.append({"name": experiment.config.trainer.data, "source": "built-in trainer"})
    for name, place in experiment.config.data.items():
        found.append({"name": name, "source": place if isinstance(place, str) else place.url})
    run = session.get(UnmanagedRunRow, trial.id)
    for entry in run.datasets if run is not None else ():
        dataset = entry.get("dataset") if isinstance(entry, dict) else None
        if isinstance(dataset, dict):
            found.append(
                {
                    "name": str(dataset.get("name") or "")[:200],
                    "digest": str(dataset.get("digest") or "")[:100],
                    "source": str(dataset.get("source") or "")[:500],
                }
            )
    return found[:DATA_MAX]


def _parent(source: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if source is None:
        return None
    names = ("experiment_id", "experiment_name", "checkpoint_id", "trial_id", "trial_no", "step")
    return {name: source[name] for name in names if source.get(name) is not None}


def _slot_hours(session: Session, trial_id: int, now: dt.datetime) -> float | None:
    rows = session.execute(
        select(AllocationRow.created_at, AllocationRow.ended_at, AllocationRow.slots).where(
            AllocationRow.trial_id == trial_id
        )
    ).all()
    if not rows:
        return None
    total_s: float = sum(
        len(slots) * max(0.0, ((ended or now) - begun).total_seconds())
        for begun, ended, slots in rows
    )
    return total_s / 3600
