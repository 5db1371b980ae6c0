"""XGBoost: the metrics of the evaluation sets after each boosting round, counted from 0; of `cv` their
means. Nothing is captured without an evaluation set."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from muster.capture.reporting import guarded, report

ROUTE = "xgboost"


def hook(module: ModuleType) -> None:
    class RoundCapture(module.TrainingCallback):  # type: ignore[misc, name-defined]
        """Reports the metrics of a round."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            _report(epoch, evals_log)
            return False

    original = module.CallbackContainer.__init__

    @functools.wraps(original)
    def init(self: Any, callbacks: Any, *args: Any, **kwargs: Any) -> None:
        # Ours first: one that ends the training keeps those after it from being called.
        original(self, [RoundCapture(), *callbacks], *args, **kwargs)

    module.CallbackContainer.__init__ = init


@guarded(ROUTE)
def _report(epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> None:
    values = {}
    for data, metrics in evals_log.items():
        for metric, history in metrics.items():
            last = history[-1]
            values[f"{data}/{metric}"] = last[0] if isinstance(last, tuple) else last
    report(ROUTE, values, step=epoch)
