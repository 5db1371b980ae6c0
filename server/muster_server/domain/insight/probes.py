"""Short runs of an experiment that answer a question about it: how their document differs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from muster.document.experiment import ExperimentConfig

Purpose = Literal["diagnose", "scaling"]
"""What a probe is for."""
NEVER_STEPS = 2**31
"""A distance that no probe trains: `validate_every` cannot be switched off."""


def probe_overrides(
    config: ExperimentConfig,
    hparams: Mapping[str, Any],
    *,
    purpose: Purpose,
    name: str,
    num_steps: int,
) -> list[str]:
    """Return the overrides that turn an experiment's document into a short run with one trial.

    The training begins anew with the given hyperparameters. The built-in trainer takes `num_steps`
    steps, each of them a row, and does nothing else: no validation, no test, and no checkpoint
    before the end; for a scaling report it also times the network. A script of its own decides for
    itself how long it runs. The budget of the experiment is not the probe's, no guard acts on what is left
    out of it, no earlier result is taken for it, and its own failures are not retried.

    config: the resolved document of the experiment.
    """
    changes: dict[str, Any] = {
        "name": name,
        "search": {"method": "single"},
        "hyperparameters": dict(hparams),
        "from": None,
        "checkpoints.every": None,
        "restarts": {"user": 0, "infra": 1},
        "budget": None,
        "guards": [],
        "waste": None,
        "reuse": False,
        "resources.min_slots": None,
        "measure.steps": True,
        "measure.comm": True,
    }
    if config.trainer is not None:
        # A hyperparameter wins over the same key of `trainer`.
        mine = {
            "epochs": None,
            "steps": num_steps,
            "validate_every": {"steps": NEVER_STEPS},
            "early_stopping": None,
            "save_best": False,
            "test": False,
        }
        changes["hyperparameters"] = {k: v for k, v in hparams.items() if k not in mine}
        changes |= {f"trainer.{key}": value for key, value in mine.items()}
        changes["trainer.options.rows_per_s"] = 0
        if purpose == "scaling":
            changes["trainer.options.time_network"] = True
    return [f"{path}={json.dumps(value)}" for path, value in changes.items()]
