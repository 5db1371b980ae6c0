"""Samples that a function of the user's own gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from muster.document.train_config import ConfigError
from muster.training import own

from .base import Dataset

SPLITS = ("train", "val", "test")


def own_data(name: str, *, measured: bool = False) -> Dataset:
    """Return the user's data: what `module:function` returns.

    measured: allow y that are measurements (floats) as well, for models that are judged and not
        trained here; `classes` is 0 then.

    The function returns {"train": (x, y), "val": (x, y), "test": (x, y)}, where each tensor has one
    sample per row and may be mapped from a file (`torch.from_file`). y holds whole numbers from 0:
    the class of each sample or, in the shape of x, the token to predict at each token. An optional
    entry "names" holds the names of the classes.

    Raises ConfigError naming what is missing or of the wrong shape.
    """
    given = own.function(name)()
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}: expected a mapping with train, val and test, got {given!r:.80}")
    parts = {split: _part(name, split, given.get(split), measured) for split in SPLITS}
    shape = parts["train"][0].shape[1:]
    for split, (x, y) in parts.items():
        if x.shape[1:] != shape or y.shape[1:] != parts["train"][1].shape[1:]:
            raise ConfigError(f"{name}: samples of {split} have another shape than those of train")
    is_measured = any(y.is_floating_point() for _, y in parts.values())
    highest = -1 if is_measured else max(int(y.max()) for _, y in parts.values())
    names = tuple(str(n) for n in given.get("names", ()))
    if names and len(names) <= highest:
        raise ConfigError(f"{name}: {len(names)} names, but a class of number {highest}")
    (train_x, train_y), (val_x, val_y), (test_x, test_y) = parts.values()
    is_text = not (train_x.is_floating_point() or train_y.ndim == 1 or is_measured)
    tokens = int(train_x.max()) + 1 if is_text else 0
    return Dataset(
        train_x=train_x,
        train_y=train_y,
        val_x=val_x,
        val_y=val_y,
        test_x=test_x,
        test_y=test_y,
        classes=max(len(names), highest + 1, tokens),
        names=names,
    )


def _part(name: str, split: str, pair: Any, measured: bool) -> tuple[Tensor, Tensor]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ConfigError(f"{name}: {split} must be a pair (x, y) of tensors")
    x, y = pair
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise ConfigError(f"{name}: {split} must be a pair (x, y) of tensors")
    if len(x) != len(y) or len(x) == 0:
        raise ConfigError(f"{name}: {split} has {len(x)} samples and {len(y)} targets")
    is_whole = not (y.is_floating_point() or y.is_complex()) and int(y.min()) >= 0
    if not (is_whole or (measured and y.is_floating_point())):
        raise ConfigError(f"{name}: targets of {split} must be whole numbers from 0 on")
    return x, y
