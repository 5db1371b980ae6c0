"""The order in which samples are seen.

It depends on the seed and the epoch alone. A global batch is cut out of it and dealt to the ranks,
so any number of workers with the same global batch sees the same samples at the same step, and the
position in it is just the step number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from muster.document.train_config import ConfigError

from .base import Dataset
from .images import shift


class SampleOrder:
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
        self, dataset: Dataset, step: int, *, rank: int, world_size: int
    ) -> tuple[Tensor, Tensor]:
        """This rank's part of the global batch of `step` (0-based): x [n/world, …] and y."""
        chosen = self.chosen(step, rank=rank, world_size=world_size)
        x, y = dataset.train_x[chosen], dataset.train_y[chosen]
        if self._augment:
            x = shift(x, self._shifts[chosen])
        return (x.long() if dataset.is_text else x), y.long()

    def chosen(self, step: int, *, rank: int, world_size: int) -> Tensor:
        """Return the numbers of the samples that this rank sees at `step` (0-based)."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        start = position * self.global_batch
        return self._order[start : start + self.global_batch][rank::world_size]

    def _begin(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        self._order = torch.randperm(self.num_samples, generator=generator)
        self._shifts = torch.randint(-1, 2, (self.num_samples, 2), generator=generator)
        self._epoch = epoch
