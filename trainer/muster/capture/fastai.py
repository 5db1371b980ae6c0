"""The metrics that the recorder of fastai prints after each epoch, at the number of batches trained so far,
by which its own trackers count."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from muster.capture.reporting import guarded, report

ROUTE = "fastai"


def hook(module: ModuleType) -> None:
    class FastaiCapture(module.Callback):  # type: ignore[misc, name-defined]
        """Reports the metrics of an epoch."""

        order = 60  # After the recorder, which is at 50.

        def after_epoch(self) -> None:
            if not module.rank_distrib():
                _report(self.learn)

    module.defaults.callbacks.append(FastaiCapture)


@guarded(ROUTE)
def _report(learner: Any) -> None:
    if hasattr(learner, "lr_finder") or hasattr(learner, "gather_preds"):
        return  # A search for a learning rate and predictions are no training, as its recorder has it.
    recorder = learner.recorder
    # The first is the epoch and the last the time it took.
    values = dict(zip(recorder.metric_names[1:-1], recorder.log[1:], strict=False))
    report(ROUTE, values, step=int(learner.train_iter), epoch=float(learner.epoch + 1))
