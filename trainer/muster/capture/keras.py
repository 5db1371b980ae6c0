"""Keras 3: the logs of each epoch. Steps count the batches that the model was trained on, since Keras
has no count over epochs."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from muster.capture.reporting import guarded, report

ROUTE = "keras"


def hook(module: ModuleType) -> None:
    num_batches: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    class EpochCapture(module.Callback):  # type: ignore[misc, name-defined]
        """Reports the logs of an epoch."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            num_batches[self.model] = num_batches.get(self.model, 0) + 1

        def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
            _report(epoch, logs or {}, num_batches.get(self.model, 0))

    original = module.CallbackList.__init__

    @functools.wraps(original)
    def init(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:
        given = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        ours = [each for each in given if each is not None] + [EpochCapture()]
        original(self, ours, *args, **kwargs)

    module.CallbackList.__init__ = init


@guarded(ROUTE)
def _report(epoch: int, logs: dict[str, Any], num_batches: int) -> None:
    report(ROUTE, logs, step=num_batches, epoch=float(epoch + 1))
