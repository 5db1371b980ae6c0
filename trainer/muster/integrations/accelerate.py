"""A tracker for Accelerate: `Accelerator(log_with=MusterTracker())`."""

from __future__ import annotations

import importlib
from typing import Any

from muster.capture.reporting import report

_tracking = importlib.import_module("accelerate.tracking")


class MusterTracker(_tracking.GeneralTracker):  # type: ignore[misc, name-defined]
    """Reports what `Accelerator.log` is given, from the main process."""

    name = "muster"
    requires_logging_directory = False
    main_process_only = True

    @property
    def tracker(self) -> Any:
        from muster.sdk.reporter import current
        from muster.sdk.run import Run

        return Run(current())

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Do nothing: the experiment's document has the hyperparameters."""

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        report("accelerate", values, step=step, is_explicit=True)
