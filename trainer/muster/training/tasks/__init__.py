"""The tasks of the built-in trainer."""

from __future__ import annotations

from muster.document.train_config import TrainConfig
from muster.training import data

from .base import Classification, Language, Task

__all__ = ["Task", "make"]


def make(config: TrainConfig, *, global_batch: int) -> Task:
    """Return the task that `config` describes. Raises ConfigError when its data or model cannot be
    had."""
    dataset = data.load(config)
    kind = Language if dataset.predicts_tokens else Classification
    return kind(config, dataset, global_batch=global_batch)
