"""Data sets by name, and the order in which their samples are seen."""

from __future__ import annotations

from muster.document.train_config import ConfigError, TrainConfig
from muster.training import own

from .ahead import fetch_ahead
from .base import Dataset, Split, random_like
from .given import own_data
from .images import digits, shift, synthetic
from .order import SampleOrder
from .texts import VOCABULARY, shakespeare, windows

__all__ = [
    "VOCABULARY",
    "Dataset",
    "SampleOrder",
    "Split",
    "fetch_ahead",
    "load",
    "shift",
    "windows",
]


def load(config: TrainConfig) -> Dataset:
    """Return the data set that `config` names, or random samples of its shapes. Raises ConfigError
    when it cannot be had."""
    found = _load(config)
    return random_like(found) if config.synthetic else found


def _load(config: TrainConfig) -> Dataset:
    if own.is_own(config.data):
        return own_data(config.data)
    if config.data == "shakespeare":
        if config.augment:
            raise ConfigError("augment: shifts images, and data: shakespeare holds texts")
        return shakespeare(config.context)
    if config.data == "digits":
        return digits()
    return synthetic(config.samples)
