"""The experiment document of an estimator. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from muster.launch.estimator_job import DEFINITIONS_VARIABLE
from muster.nearest import nearest
from muster.series_rules import clean_name

DEFAULT_CHANNEL = "training"
TORCHRUN = ("torchrun", "torch_distributed", "pytorchddp")
"""Distributions that start a worker on each slot with torchrun."""
DISTRIBUTIONS = (*TORCHRUN, "mpi")
RUNNER = ("-m", "muster.launch.estimator_job")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """Arguments of an estimator."""

    entry_point: str
    instance_count: int = 1
    slots_per_node: int = 1
    slot_type: Literal["cpu", "cuda"] = "cpu"
    distribution: Mapping[str, Any] = field(default_factory=dict)
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    max_run_s: float | None = None
    max_retry_attempts: int = 0
    use_spot_instances: bool | None = None
    checkpoint_storage: str | None = None
    metric_definitions: Sequence[Mapping[str, str]] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    project: str | None = None
    priority: int | None = None
    requirements: Sequence[str] = ()


def document_of(
    spec: JobSpec, channels: Mapping[str, str], search: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the document of one job, or with `search`, which has `hyperparameters` of its own, of
    a search over jobs.

    channels: absolute paths and URLs of data by name. Raises ValueError for arguments that cannot
    work.
    """
    slots_per_node, launcher = _shape(spec)
    slots = spec.instance_count * slots_per_node
    runner = RUNNER if launcher == "torchrun" else ("python", *RUNNER)
    resources: dict[str, Any] = {
        "slots": slots,
        "slot_type": spec.slot_type,
        "nodes": spec.instance_count,
        "pool": spec.pool,
        "priority": spec.priority,
        "preemptible": spec.use_spot_instances,
    }
    variables = dict(spec.environment)
    if spec.metric_definitions:
        variables[DEFINITIONS_VARIABLE] = json.dumps(_definitions(spec.metric_definitions))
    environment = {"variables": variables, "requirements": list(spec.requirements)}
    found: dict[str, Any] = {
        "name": spec.name or PurePath(spec.entry_point).stem,
        "project": spec.project,
        "entrypoint": [*runner, spec.entry_point],
        "launcher": launcher,
        "labels": dict(spec.tags),
        "resources": {key: value for key, value in resources.items() if value is not None},
        "data": dict(channels),
        "hyperparameters": {name: {"const": v} for name, v in spec.hyperparameters.items()},
        "environment": {key: value for key, value in environment.items() if value},
        "restarts": {"user": spec.max_retry_attempts} if spec.max_retry_attempts else {},
        "budget": {"slot_hours": spec.max_run_s * slots / 3600} if spec.max_run_s else {},
        "checkpoints": {"storage": spec.checkpoint_storage} if spec.checkpoint_storage else {},
    }
    if search is not None:
        found["hyperparameters"] |= search["hyperparameters"]
        found["search"] = search["search"]
    return {key: value for key, value in found.items() if value}


def _shape(spec: JobSpec) -> tuple[int, str]:
    """Return the number of slots of each node, and the launcher."""
    enabled = {}
    for name, options in spec.distribution.items():
        if name not in DISTRIBUTIONS:
            near = nearest(name, DISTRIBUTIONS)
            raise ValueError(
                f"distribution {name!r} is not one of {', '.join(DISTRIBUTIONS)}"
                + (f"; did you mean {near!r}?" if near else "")
            )
        options = options if isinstance(options, Mapping) else {"enabled": bool(options)}
        if options.get("enabled"):
            enabled[name] = options
    if len(enabled) > 1:
        raise ValueError(f"distribution: enable one of {', '.join(enabled)}, not several")
    for field_name, value in (
        ("instance_count", spec.instance_count),
        ("slots_per_node", spec.slots_per_node),
    ):
        if value < 1:
            raise ValueError(f"{field_name}={value}: it must be at least 1")
    if not enabled:
        return spec.slots_per_node, "shell"
    (options,) = enabled.values()
    return int(options.get("processes_per_host") or spec.slots_per_node), "torchrun"


def _definitions(definitions: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    found = []
    for definition in definitions:
        try:
            name, pattern = definition["Name"], definition["Regex"]
            groups = re.compile(pattern).groups
        except (KeyError, TypeError):
            raise ValueError(
                f"metric_definitions: {definition!r} is not like "
                '{"Name": "val/loss", "Regex": "loss=([0-9.]+)"}'
            ) from None
        except re.error as error:
            raise ValueError(f"metric_definitions: {name}: {pattern!r}: {error}") from None
        if groups < 1:
            raise ValueError(f"metric_definitions: {name}: {pattern!r} has no group for the value")
        found.append((clean_name(name), pattern))
    return found


def channels_of(inputs: str | Mapping[str, str] | None, base: Path) -> dict[str, str]:
    """Return data by name of channel: paths made absolute, URLs as they are.

    inputs: one place is the channel `training`. Raises ValueError for a name that no variable can
    have.
    """
    given = {DEFAULT_CHANNEL: inputs} if isinstance(inputs, str) else dict(inputs or {})
    found = {}
    for name, place in given.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise ValueError(f"inputs: {name!r} is no name of a channel; use letters, digits and _")
        text = str(place).removeprefix("file://")
        found[name] = text if "://" in text else str((base / Path(text).expanduser()).absolute())
    return found
