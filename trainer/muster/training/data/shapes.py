"""The shapes of samples, known without loading them where the data come with the trainer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from muster.document.train_config import TrainConfig
from muster.training import own

from .base import Dataset
from .given import own_data
from .images import NUM_CLASSES
from .texts import VOCABULARY

_IMAGES = {"digits": (1, 8, 8), "synthetic": (1, 16, 16)}


@dataclass(frozen=True, kw_only=True)
class SampleShape:
    """Shape of one sample and its target."""

    inputs: tuple[int, ...]
    classes: int
    """Number of different classes or tokens."""
    type: torch.dtype
    """Data type that a model takes."""
    predicts_tokens: bool
    """Whether there is a target at each token rather than one per sample."""


def shape_of(config: TrainConfig) -> SampleShape:
    """Return the shape of the samples that `config` names. The user's own data are loaded for it.
    Raises ConfigError when they cannot be had."""
    if own.is_own(config.data):
        return _of(own_data(config.data))
    if config.data == "shakespeare":
        return SampleShape(
            inputs=(config.context,), classes=VOCABULARY, type=torch.int64, predicts_tokens=True
        )
    return SampleShape(
        inputs=_IMAGES[config.data], classes=NUM_CLASSES, type=torch.float32, predicts_tokens=False
    )


def _of(dataset: Dataset) -> SampleShape:
    return SampleShape(
        inputs=dataset.inputs,
        classes=dataset.classes,
        type=torch.int64 if dataset.is_text else dataset.train_x.dtype,
        predicts_tokens=dataset.predicts_tokens,
    )
