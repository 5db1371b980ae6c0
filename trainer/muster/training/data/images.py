"""Images that need no download."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import torch
from torch import Tensor

from muster.document.train_config import ConfigError

from .base import Dataset

NUM_CLASSES = 10


def digits() -> Dataset:
    """1,797 scanned digits of 8×8 pixels from scikit-learn (UCI): four fifths to train, a tenth
    each to validate and to test.

    The split does not depend on the trial's seed: trials of a search are compared on equal terms.
    """
    pixels, y = _read_digits()
    x = (pixels / 16).view(-1, 1, 8, 8)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    x, y = x[order], y[order]
    cut, cut_test = len(x) * 4 // 5, len(x) * 9 // 10
    return _cut(x, y, cut, cut_test)


def _read_digits() -> tuple[Tensor, Tensor]:
    """Pixels [1797, 64] in 0..16, and the digits [1797]. Raises ConfigError without scikit-learn.

    Its file is read without importing it, which takes a second of each worker's start.
    """
    found = importlib.util.find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        raise ConfigError("data: digits needs scikit-learn: pip install scikit-learn")
    path = Path(found.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if not path.exists():  # a version that keeps it elsewhere
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]

        pixels, digits = load_digits(return_X_y=True)
        return torch.tensor(pixels, dtype=torch.float32), torch.tensor(digits, dtype=torch.int64)
    lines = gzip.decompress(path.read_bytes()).splitlines()
    table = torch.tensor([[float(value) for value in line.split(b",")] for line in lines])
    return table[:, :-1], table[:, -1].long()


def synthetic(samples: int) -> Dataset:
    """`samples` blurred random prototypes of 16×16 with noise to train, an eighth more each to
    validate and to test."""
    generator = torch.Generator().manual_seed(2)
    prototypes = torch.rand(NUM_CLASSES, 1, 16, 16, generator=generator)
    prototypes = torch.nn.functional.avg_pool2d(prototypes, 3, stride=1, padding=1)
    held_out = max(samples // 8, 1)
    num = samples + 2 * held_out
    y = torch.randint(0, NUM_CLASSES, (num,), generator=generator)
    x = prototypes[y] + 0.3 * torch.randn(num, 1, 16, 16, generator=generator)
    return _cut(x, y, samples, samples + held_out)


def shift(x: Tensor, by: Tensor) -> Tensor:
    """Move each image of x [n, 1, s, s] by its (rows, columns) in -1..1, filling with zeros."""
    side = x.shape[-1]
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))  # [n, 1, s+2, s+2]
    base = torch.arange(side) + 1
    rows = (base[None] - by[:, :1])[:, :, None]  # [n, s, 1]
    columns = (base[None] - by[:, 1:])[:, None, :]  # [n, 1, s]
    return padded[torch.arange(len(x))[:, None, None], 0, rows, columns][:, None]


def _cut(x: Tensor, y: Tensor, cut: int, cut_test: int) -> Dataset:
    return Dataset(
        train_x=x[:cut],
        train_y=y[:cut],
        val_x=x[cut:cut_test],
        val_y=y[cut:cut_test],
        test_x=x[cut_test:],
        test_y=y[cut_test:],
        classes=NUM_CLASSES,
        names=tuple(str(n) for n in range(NUM_CLASSES)),
    )
