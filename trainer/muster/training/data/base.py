"""What a data set is to the trainer: samples by number, in three parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Samples held in memory. The three parts have no sample in common.

    Images: x [n, channels, side, side] float32 in about 0..1, y [n] class numbers.
    Texts: x [n, tokens] of small integers, y the same moved on by one token.
    """

    train_x: Tensor
    train_y: Tensor
    val_x: Tensor
    """Used during training, for early stopping, the best checkpoint and searches."""
    val_y: Tensor
    test_x: Tensor
    """Used once, when training is over; no decision depends on it."""
    test_y: Tensor
    classes: int
    """Number of different classes or tokens."""
    names: tuple[str, ...] = ()
    """Names of the classes; empty if they have none."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """Shape of one sample's x."""
        return tuple(self.train_x.shape[1:])

    @property
    def is_text(self) -> bool:
        """Whether samples are tokens rather than measurements."""
        return not self.train_x.is_floating_point()

    @property
    def predicts_tokens(self) -> bool:
        """Whether there is something to be predicted at each token, not one class of a sample."""
        return self.train_y.ndim > 1

    def split(self, name: Split) -> tuple[Tensor, Tensor]:
        """x and y of one part."""
        return {
            "train": (self.train_x, self.train_y),
            "val": (self.val_x, self.val_y),
            "test": (self.test_x, self.test_y),
        }[name]


def random_like(dataset: Dataset) -> Dataset:
    """Return as many random samples of the same shapes and types, the same ones at every call."""
    generator = torch.Generator().manual_seed(3)

    def samples(x: Tensor) -> Tensor:
        if x.is_floating_point():
            return torch.rand(x.shape, generator=generator, dtype=x.dtype)
        return torch.randint(0, dataset.classes, x.shape, generator=generator, dtype=x.dtype)

    return replace(
        dataset,
        train_x=samples(dataset.train_x),
        train_y=samples(dataset.train_y),
        val_x=samples(dataset.val_x),
        val_y=samples(dataset.val_y),
        test_x=samples(dataset.test_x),
        test_y=samples(dataset.test_y),
    )
