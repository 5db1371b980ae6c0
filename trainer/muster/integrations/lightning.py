"""A logger for Lightning: `Trainer(logger=MusterLogger())`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from muster.capture.reporting import report

_old_name = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
_loggers = importlib.import_module(
    "pytorch_lightning.loggers" if _old_name else "lightning.pytorch.loggers"
)


class MusterLogger(_loggers.Logger):  # type: ignore[misc, name-defined]
    """Reports what `self.log` hands to loggers, at Lightning's steps, from rank 0."""

    @property
    def name(self) -> str:
        return "muster"

    @property
    def version(self) -> str:
        return "0"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        from muster.sdk.reporter import current

        if current().info.rank == 0:
            values = dict(metrics)
            epoch = values.pop("epoch", None)
            report("lightning", values, step=step, epoch=epoch, is_explicit=True)

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """Do nothing: the experiment's document has the hyperparameters."""
