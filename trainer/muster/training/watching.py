"""What is concluded from validations: which one was best, and whether to go on. Pure, no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from muster.document.train_config import ConfigError
from muster.document.training import EarlyStopping

MINIMISED = ("loss", "perplexity", "error")
MAXIMISED = ("accuracy", "f1", "precision", "recall")


def goal_of(metric: str, goal: str | None) -> str:
    """min or max: as said, else by the metric's last word. ConfigError when that is not known."""
    if goal is not None:
        return goal
    last = metric.rpartition("/")[2].rpartition("_")[2]
    if last in MINIMISED:
        return "min"
    if last in MAXIMISED:
        return "max"
    raise ConfigError(
        f"early_stopping.goal: say whether less (min) or more (max) {metric} is better"
    )


@dataclass
class EarlyStoppingWatch:
    """The best value of one metric so far, and since when nothing was better.

    A value is better when it differs by more than `min_delta` from the best one; NaN never is.
    """

    metric: str
    goal: str
    patience: int | None = None
    """Number of consecutive validations without a better value that ends training; None: never."""
    min_delta: float = 0.0
    best: float | None = None
    best_step: int = 0
    num_worse: int = 0
    """Number of validations since the best one."""

    @classmethod
    def of(cls, settings: EarlyStopping | None) -> EarlyStoppingWatch:
        """Return a watch with the document's settings; without them it watches val/loss and never
        stops training."""
        if settings is None:
            return cls(metric="val/loss", goal="min")
        return cls(
            metric=settings.metric,
            goal=goal_of(settings.metric, settings.goal),
            patience=settings.patience,
            min_delta=settings.min_delta,
        )

    def observe(self, values: Mapping[str, float], step: int) -> bool:
        """Take in a validation and return whether it is the best so far.

        Raises ConfigError when it has no such metric, naming those there are.
        """
        if self.metric not in values:
            raise ConfigError(
                f"early_stopping.metric: validations have no {self.metric!r}; "
                f"there are {', '.join(sorted(values))}"
            )
        value = values[self.metric]
        if self._is_better(value):
            self.best, self.best_step, self.num_worse = value, step, 0
            return True
        self.num_worse += 1
        return False

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        if self.best is None:
            return True
        gain = self.best - value if self.goal == "min" else value - self.best
        return gain > self.min_delta

    @property
    def verdict(self) -> str | None:
        """Why to end the training, as a sentence part; None: go on."""
        if self.patience is None or self.num_worse < self.patience:
            return None
        best = "it never was a number" if self.best is None else f"best {self.best:.6g}"
        more = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return (
            f"{self.metric} has not improved{more} for {self.num_worse} "
            f"validation{'s' if self.num_worse > 1 else ''}; {best} at step {self.best_step}"
        )

    def state(self) -> dict[str, Any]:
        """Return the state to save so that a resumed training reaches the same conclusions."""
        return {
            k: v
            for k, v in asdict(self).items()
            if k in ("metric", "best", "best_step", "num_worse")
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave; nothing when it was about another metric."""
        if state.get("metric") == self.metric:
            self.best, self.best_step = state["best"], int(state["best_step"])
            self.num_worse = int(state["num_worse"])
