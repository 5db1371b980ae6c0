"""Data sets that need no download, and the order in which they are seen.

The order depends on the seed and the epoch alone. A global batch is cut out of it and dealt to the
ranks, so any number of workers with the same global batch sees the same samples at the same step,
and the position in it is just the step number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from muster.training.config import ConfigError, Data

Tensor = torch.Tensor
NUM_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Images:
    """Training and validation images, each [n, 1, side, side] float32 in about 0..1; labels [n]."""

    train_x: Tensor
    train_y: Tensor
    val_x: Tensor
    val_y: Tensor

    @property
    def side(self) -> int:
        return int(self.train_x.shape[-1])


def load(name: Data, *, samples: int) -> Images:
    """`digits`: 1,797 scanned digits of 8×8 pixels from scikit-learn (UCI), a fifth held out.
    `synthetic`: `samples` blurred random prototypes of 16×16 with noise, a quarter more held out.

    The split does not depend on the trial's seed: trials of a search are compared on equal terms.
    """
    if name == "digits":
        return _digits()
    return _synthetic(samples)


def _digits() -> Images:
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError("data: digits needs scikit-learn: pip install scikit-learn") from error
    bunch = load_digits()
    x = torch.tensor(bunch.images / 16.0, dtype=torch.float32)[:, None]  # [n, 1, 8, 8]
    y = torch.tensor(bunch.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    x, y = x[order], y[order]
    cut = len(x) * 4 // 5
    return Images(train_x=x[:cut], train_y=y[:cut], val_x=x[cut:], val_y=y[cut:])


def _synthetic(samples: int) -> Images:
    generator = torch.Generator().manual_seed(2)
    prototypes = torch.rand(NUM_CLASSES, 1, 16, 16, generator=generator)
    prototypes = torch.nn.functional.avg_pool2d(prototypes, 3, stride=1, padding=1)
    num = samples + max(samples // 4, 1)
    y = torch.randint(0, NUM_CLASSES, (num,), generator=generator)
    x = prototypes[y] + 0.3 * torch.randn(num, 1, 16, 16, generator=generator)
    return Images(train_x=x[:samples], train_y=y[:samples], val_x=x[samples:], val_y=y[samples:])


class Order:
    """Which samples each step sees. The incomplete global batch at an epoch's end is left out; the
    next epoch is shuffled anew, so no sample is left out for good."""

    def __init__(self, num_samples: int, *, global_batch: int, seed: int, augment: bool) -> None:
        if global_batch > num_samples:
            raise ConfigError(
                f"the global batch of {global_batch} is larger than the {num_samples} samples there are"
            )
        self.num_samples = num_samples
        self.global_batch = global_batch
        self.steps_per_epoch = num_samples // global_batch
        self._seed = seed
        self._augment = augment
        self._epoch = -1
        self._order = torch.empty(0)
        self._shifts = torch.empty(0)

    def batch(
        self, images: Images, step: int, *, rank: int, world_size: int
    ) -> tuple[Tensor, Tensor]:
        """This rank's part of the global batch of `step` (0-based): x [n/world, 1, s, s], y."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        start = position * self.global_batch
        chosen = self._order[start : start + self.global_batch][rank::world_size]
        x, y = images.train_x[chosen], images.train_y[chosen]
        if self._augment:
            x = shift(x, self._shifts[chosen])
        return x, y

    def _begin(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        self._order = torch.randperm(self.num_samples, generator=generator)
        self._shifts = torch.randint(-1, 2, (self.num_samples, 2), generator=generator)
        self._epoch = epoch


def shift(x: Tensor, by: Tensor) -> Tensor:
    """Move each image of x [n, 1, s, s] by its (rows, columns) in -1..1, filling with zeros."""
    side = x.shape[-1]
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))  # [n, 1, s+2, s+2]
    base = torch.arange(side) + 1
    rows = (base[None] - by[:, :1])[:, :, None]  # [n, s, 1]
    columns = (base[None] - by[:, 1:])[:, None, :]  # [n, 1, s]
    return padded[torch.arange(len(x))[:, None, None], 0, rows, columns][:, None]
