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
        has_trained = False

        def before_train(self) -> None:
            self.has_trained = True

        def after_epoch(self) -> None:
            # `Learner.validate` is an epoch as well, of which the recorder has fewer columns.
            if self.has_trained and not module.rank_distrib():
                _report(self.learn)
            self.has_trained = False

    module.defaults.callbacks.append(FastaiCapture)


@guarded(ROUTE)
def _report(learner: Any) -> None:
    if hasattr(learner, "lr_finder") or hasattr(learner, "gather_preds"):
        return  # A search for a learning rate and predictions are no training, as its recorder has it.
    recorder = learner.recorder
    # The first is the epoch; the time it took is a text, which is left out.
    values = dict(zip(recorder.metric_names[1:], recorder.log[1:], strict=False))
    report(ROUTE, values, step=int(learner.train_iter), epoch=float(learner.epoch + 1))
