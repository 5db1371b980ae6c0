"""Whether a trial has been run before: what decides its result, as one key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.document.codec import dump
from muster.document.experiment import ExperimentConfig

from ..search.methods import method_of

_WITHOUT_EFFECT = frozenset(
    {"name", "project", "labels", "notes", "hyperparameters", "array", "max_concurrent", "after",
     "budget", "restarts", "checkpoints", "outputs", "on_disconnect", "stop_grace_s", "preflight",
     "measure", "log_limit_mb", "reuse", "code", "data", "search", "resources", "environment"}
)  # fmt: skip
"""Sections that do not decide what a training comes to, and those of which only a part does. A section
that is not named here counts, so that a new one cannot make two trainings look alike."""
_RESOURCES = ("slots", "min_slots", "slot_type")
_OF_NODES = frozenset({"pull_policy", "registry_login", "warm"})
"""Settings of the environment that are about how a node gets it."""


@dataclass(frozen=True)
class UnknownInputs:
    """Why no trial of a document can be told from another by its inputs."""

    path: str
    """Where in the document."""
    problem: str
    hint: str


def declared(config: ExperimentConfig) -> dict[str, str]:
    """Return the digests of data sets that a document gives, by name."""
    given = {n: d.digest for n, d in config.data.items() if not isinstance(d, str)}
    return {name: digest for name, digest in given.items() if digest is not None}


def obstacle(
    config: ExperimentConfig, code_sha256: str | None, data: Mapping[str, str]
) -> UnknownInputs | None:
    """Return what keeps the inputs of a document's trials from being known; None for nothing.

    code_sha256: digest of its code bundle; None without one. data: digests of its data sets, by name.
    """
    search = config.search
    if search.runner == "external" or config.job_kind is not None:
        what = config.job_kind or "search.runner: external"
        return UnknownInputs(
            "reuse", f"works with trainings that Muster runs, not with {what}", "leave it out"
        )
    if method_of(search.method).compares:
        return UnknownInputs(
            "reuse",
            f"works with trials that train to their end, and {search.method} stops some before",
            "use method: single, grid or random",
        )
    if code_sha256 is None and config.built_in_module is None:
        return UnknownInputs(
            "reuse",
            "needs code that was uploaded: what is installed on the nodes may have changed",
            "use code: {path: .}",
        )
    for name in config.data.keys() - data.keys():
        return UnknownInputs(
            f"data.{name}",
            "has no digest, so reuse cannot tell whether the data are the same",
            'write {folder: /path, digest: "sha256:…"} with the digest that a trial has read '
            "(`muster show`)",
        )
    return None


def inputs_of(
    config: ExperimentConfig, *, code_sha256: str | None, data: Mapping[str, str], version: str
) -> str:
    """Return what all trials of a document have in common, as a digest. There must be no obstacle.

    data: digests of its data sets, by name. version: that of Muster, which counts for what is built in.
    """
    resources, environment = dump(config.resources), dump(config.environment)
    full = dump(config)
    return _digest(
        {
            "document": {key: full[key] for key in full.keys() - _WITHOUT_EFFECT},
            "environment": {key: environment[key] for key in environment.keys() - _OF_NODES},
            "resources": {key: resources[key] for key in _RESOURCES},
            "max_length": dump(config.search.max_length),
            "workdir": config.code.workdir if config.code else None,
            "code": code_sha256,
            "data": dict(data),
            "version": version if config.built_in_module is not None else None,
        }
    )


def key_of(inputs: str, *, hparams: Mapping[str, Any], seed: int) -> str:
    """Return the key of a trial: trials with the same one have had the same inputs."""
    return _digest({"inputs": inputs, "hparams": hparams, "seed": seed})


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
