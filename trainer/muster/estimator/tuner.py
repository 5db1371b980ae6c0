"""Tuner: a search over the hyperparameters of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from muster.client import Frame
from muster.series_rules import clean_name

from .document import channels_of, document_of
from .estimator import Estimator, logs_wanted
from .jobs import TrainingJob

Scaling = Literal["Auto", "Linear", "Logarithmic", "ReverseLogarithmic"]
STRATEGIES: Mapping[str, Mapping[str, str]] = {
    "Bayesian": {"method": "random", "sampler": "tpe"},
    "Random": {"method": "random"},
    "Grid": {"method": "grid"},
    "Hyperband": {"method": "asha"},
}
"""Search by strategy."""


@dataclass(frozen=True)
class ContinuousParameter:
    """A number between two bounds."""

    min_value: float
    max_value: float
    scaling_type: Scaling = "Auto"
    """"Logarithmic" draws its exponent evenly; "Auto" does so for positive bounds of which the larger
    is at least 1,000 times the smaller."""

    def space(self) -> dict[str, Any]:
        low, high = float(self.min_value), float(self.max_value)
        is_log = self.scaling_type == "Logarithmic" or (
            self.scaling_type == "Auto" and low > 0 and high / low >= 1000
        )
        if self.scaling_type == "ReverseLogarithmic":
            raise ValueError(
                "scaling_type='ReverseLogarithmic' is not possible: search over 1 - x with "
                "'Logarithmic'"
            )
        return {"log" if is_log else "uniform": [low, high]}


@dataclass(frozen=True)
class IntegerParameter:
    """A whole number between two bounds, both of which are possible."""

    min_value: int
    max_value: int

    def space(self) -> dict[str, Any]:
        return {"int": [int(self.min_value), int(self.max_value)]}


@dataclass(frozen=True)
class CategoricalParameter:
    """One of several values."""

    values: list[Any]

    def space(self) -> dict[str, Any]:
        return {"choice": list(self.values)}


Parameter = ContinuousParameter | IntegerParameter | CategoricalParameter


class Tuner:
    """A search with the jobs of an estimator."""

    def __init__(
        self,
        estimator: Estimator,
        objective_metric_name: str,
        hyperparameter_ranges: Mapping[str, Parameter],
        *,
        objective_type: Literal["Maximize", "Minimize"] = "Maximize",
        strategy: str = "Bayesian",
        max_jobs: int = 1,
        max_parallel_jobs: int = 1,
        max_epochs: int | None = None,
        random_seed: int = 0,
    ) -> None:
        """Describe a search.

        objective_metric_name: a metric that the script reports, or one of the estimator's
            metric_definitions.
        max_jobs: trials in all; not for Grid, whose ranges say how many there are.
        max_epochs: full length of a trial, for Hyperband, which stops trials early: the script
            reports the metric with `epoch=`.
        Raises ValueError for what cannot work.
        """
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}")
        if objective_type not in ("Maximize", "Minimize"):
            raise ValueError(f"objective_type={objective_type!r} is not Maximize or Minimize")
        if (strategy == "Hyperband") != (max_epochs is not None):
            raise ValueError("max_epochs is needed with strategy='Hyperband', and only there")
        if not hyperparameter_ranges:
            raise ValueError("hyperparameter_ranges is empty: there is nothing to search")
        self.estimator = estimator
        search: dict[str, Any] = {
            **STRATEGIES[strategy],
            "metric": clean_name(objective_metric_name),
            "goal": "max" if objective_type == "Maximize" else "min",
            "concurrent": max_parallel_jobs,
            "seed": random_seed,
        }
        if strategy != "Grid":
            search["trials"] = max_jobs
        if max_epochs is not None:
            search["max_length"] = {"epochs": max_epochs}
        self._search = {
            "search": search,
            "hyperparameters": {n: p.space() for n, p in hyperparameter_ranges.items()},
        }
        self.latest_tuning_job: TrainingJob | None = None

    def fit(
        self,
        inputs: str | Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        logs: str = "None",
        job_name: str | None = None,
    ) -> TrainingJob:
        """Submit the search, and with `wait` show it until it has ended. Raises JobFailed."""
        show_logs = logs_wanted(logs)
        document = document_of(
            self.estimator.spec, channels_of(inputs, Path.cwd()), search=self._search
        )
        job = self.estimator.submit(document, job_name)
        self.latest_tuning_job = job
        if wait:
            job.wait(logs=show_logs)
        return job

    def wait(self) -> None:
        """Show the search until it has ended. Raises JobFailed."""
        self._latest().wait(logs=False)

    def stop(self) -> None:
        """Stop all jobs of the search."""
        self._latest().stop()

    def best_training_job(self) -> TrainingJob:
        """Return the best job so far. Raises LookupError while none has reported the metric."""
        job = self._latest()
        best = job.client.best_trial(job.experiment_id)
        return TrainingJob(job.client, job.experiment_id, int(best["id"]))

    def analytics(self) -> Frame:
        """Return all jobs with hyperparameters and objective, one per row; `to_pandas()` makes it a
        data frame."""
        job = self._latest()
        return job.client.compare(job.experiment_id)

    def _latest(self) -> TrainingJob:
        if self.latest_tuning_job is None:
            raise LookupError("there is no search yet: call fit() first")
        return self.latest_tuning_job
