"""Lightning, as `lightning.pytorch` and as `pytorch_lightning`: what `self.log` hands to the loggers,
also of a `Trainer(logger=False)`.

Steps are those that Lightning's loggers get: they count batches from 0, so the value at step 9 is that
after ten steps of the optimizer. Rank 0 reports, as its loggers do.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from muster.capture.reporting import before, guarded, report

ROUTE = "lightning"


def hook(module: ModuleType) -> None:
    connector = getattr(module, "_LoggerConnector", None) or module.LoggerConnector  # 1.x
    before(connector, "log_metrics", _log_metrics)


@guarded(ROUTE)
def _log_metrics(connector: Any, metrics: dict[str, Any], step: int | None = None) -> None:
    trainer = connector.trainer
    if trainer.global_rank != 0 or not metrics:
        return
    values = dict(metrics)
    if step is None:
        # Lightning, too, takes the metric "step" for the step.
        step = int(values.pop("step", trainer.fit_loop.epoch_loop._batches_that_stepped))
    epoch = values.pop("epoch", trainer.current_epoch)
    planned = trainer.max_steps if trainer.max_steps > 0 else None
    report(ROUTE, values, step=step, epoch=float(epoch), num_steps_planned=planned)
