"""What turns rows into predictions: the user's function, or the model of a version.

Imported in the computing process alone: it needs torch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from muster.document.train_config import ConfigError
from muster.inference.loading import LoadedModel, load
from muster.training import own

from .predictor_settings import PredictorSettings

Predictor = Callable[[list[Any]], Sequence[Any]]
"""Takes rows, and returns one prediction for each."""


def make_predictor(settings: PredictorSettings) -> Predictor:
    """Return what predicts. Raises ConfigError and CannotLoad."""
    torch.set_grad_enabled(False)
    if settings.function is not None:
        return own.function(settings.function)
    device = _device()
    loaded = load(Path(settings.folder), device=device)
    if loaded.config.dtype != "float32":
        raise ConfigError(
            f"predict.function: a {loaded.config.trainer['model']} continues text, which is no "
            "prediction for a row; name a function of your code that says what is wanted of it"
        )
    return _BuiltIn(loaded, device, settings)


def _device() -> torch.device:
    """Return the device of this worker: each has its own."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    return torch.device("cuda", rank % torch.cuda.device_count())


class _BuiltIn:
    def __init__(
        self, loaded: LoadedModel, device: torch.device, settings: PredictorSettings
    ) -> None:
        self._loaded = loaded
        self._device = device
        self._column = settings.column
        self._key = settings.key
        self._size = math.prod(loaded.inputs)

    def __call__(self, rows: list[Any]) -> list[dict[str, Any]]:
        samples = torch.tensor([self._sample(row) for row in rows], dtype=torch.float32)
        samples = samples.reshape(len(rows), *self._loaded.inputs).to(self._device)
        outputs = self._loaded.module(samples).float()
        scores, labels = outputs.softmax(-1).max(-1)
        return [
            {"label": label, "score": score}
            for label, score in zip(labels.tolist(), scores.tolist(), strict=True)
        ]

    def _sample(self, row: Any) -> list[float]:
        """Return the flat values of a sample. Raises ValueError."""
        flat = _flatten(self._value(row))
        if len(flat) != self._size:
            shape = " × ".join(str(n) for n in self._loaded.inputs)
            raise ValueError(f"it has {len(flat):,} values, and the model takes {shape}")
        return flat

    def _value(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        if row.keys() == {"path"}:
            raise ConfigError(
                "predict.function: how an image becomes an input is up to you; name a function of your "
                "code that reads it from row['path']"
            )
        if self._column is not None:
            if self._column not in row:
                raise ValueError(f"it has no column {self._column!r}")
            return row[self._column]
        others = [name for name in row if name != self._key]
        if len(others) != 1:
            raise ValueError(
                f"it has the columns {', '.join(map(repr, row))[:200]}: name the one with the inputs "
                "in predict.column"
            )
        return row[others[0]]


def _flatten(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [number for item in value for number in _flatten(item)]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} is no number")
    return [float(value)]
