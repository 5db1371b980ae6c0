"""The tasks of the built-in trainer."""

from __future__ import annotations

from muster.training.config import TrainConfig

from .base import Classification, Language, Task

__all__ = ["Task", "make"]


def make(config: TrainConfig, *, global_batch: int) -> Task:
    """The task that `config` describes. Raises ConfigError when its data or model cannot be had."""
    kind = Language if config.data == "shakespeare" else Classification
    return kind(config, global_batch=global_batch)
