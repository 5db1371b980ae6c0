"""What a training is about: its data and their order, its model, its loss, and how it is judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from muster.document.train_config import TrainConfig
from muster.training import data, models
from muster.training.data import Dataset, Split

EVALUATION_BATCH = 512
"""Samples at most that go through the model at once when it is judged."""

MAX_CONFUSED = 128
"""Classes up to which it is counted which one is taken for which."""


class Task(Protocol):
    """One interface for everything the loop and the strategies need to know of what is trained.

    Only tensors on the CPU come out of it; the loop moves them. The loss of a batch is a mean over
    its samples, so that parts of a batch may be weighted by their number of samples.
    """

    @property
    def global_batch(self) -> int:
        """Samples per optimizer step, of all ranks together."""
        ...

    @property
    def num_samples(self) -> int:
        """Number of samples to train with."""
        ...

    @property
    def steps_per_epoch(self) -> int: ...

    @property
    def tokens_per_sample(self) -> int | None:
        """None where samples are not made of tokens."""
        ...

    def model(self) -> nn.Module:
        """Return the model, on the CPU, the same for the same seed."""
        ...

    def batch(self, step: int, *, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        """This rank's part of the global batch of `step` (0-based): inputs and targets."""
        ...

    def held_out(
        self, split: Split, *, rank: int, world_size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """This rank's part of the samples of `split`, piece by piece; each sample comes once."""
        ...

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean over the samples; a scalar to go backward from."""
        ...

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of right predictions, 0..1."""
        ...

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sums over pieces and ranks that judge the model: float64 [k], with fixed k."""
        ...

    def metrics(self, sums: Tensor) -> dict[str, float]:
        """Return the names without a group (`loss`, `accuracy`) and values, from the sums of all
        samples."""
        ...

    def confusion(self, sums: Tensor) -> tuple[list[str], list[list[int]]]:
        """Return the names of the classes, and [true][predicted] → number of samples, from the sums
        of all samples. Both empty where there are no classes, or too many to look at."""
        ...


class Classification:
    """Predictions of one of several classes: of an image, or of each token's successor."""

    def __init__(self, config: TrainConfig, dataset: Dataset, *, global_batch: int) -> None:
        self.config = config
        self.dataset = dataset
        self._global_batch = global_batch
        self._order = data.SampleOrder(
            len(self.dataset.train_x),
            global_batch=global_batch,
            seed=config.seed,
            augment=config.augment,
        )

    @property
    def global_batch(self) -> int:
        return self._global_batch

    @property
    def num_samples(self) -> int:
        return self._order.num_samples

    @property
    def steps_per_epoch(self) -> int:
        return self._order.steps_per_epoch

    @property
    def tokens_per_sample(self) -> int | None:
        return self.dataset.inputs[0] if self.dataset.is_text else None

    def model(self) -> nn.Module:
        return models.build(self.config, inputs=self.dataset.inputs, classes=self.dataset.classes)

    def batch(self, step: int, *, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        return self._order.batch(self.dataset, step, rank=rank, world_size=world_size)

    def held_out(
        self, split: Split, *, rank: int, world_size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = (part[rank::world_size] for part in self.dataset.split(split))
        for part_x, part_y in zip(
            torch.split(x, EVALUATION_BATCH), torch.split(y, EVALUATION_BATCH), strict=True
        ):
            yield (part_x.long() if self.dataset.is_text else part_x), part_y.long()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.argmax(-1) == targets).sum()) / targets.numel()

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="sum")
        predicted = outputs.argmax(-1)
        correct = (predicted == targets).sum()
        basic = [float(loss), float(correct), targets.numel()]
        size = self._num_counted
        pairs = (targets * size + predicted).flatten().cpu() if size else torch.empty(0).long()
        counts = torch.bincount(pairs, minlength=size * size)
        return torch.cat([torch.tensor(basic, dtype=torch.float64), counts.double()])

    def metrics(self, sums: Tensor) -> dict[str, float]:
        loss, correct, count = sums[:3].tolist()
        return {"loss": loss / count, "accuracy": correct / count}

    def confusion(self, sums: Tensor) -> tuple[list[str], list[list[int]]]:
        size = self._num_counted
        names = list(self.dataset.names) or [str(n) for n in range(size)]
        return names[:size], sums[3:].long().reshape(size, size).tolist()

    @property
    def _num_counted(self) -> int:
        """Classes whose confusion is counted."""
        classes = self.dataset.classes
        return 0 if self.dataset.predicts_tokens or classes > MAX_CONFUSED else classes


class Language(Classification):
    """The next token of a text. Perplexity is exp(loss), per token, which is a byte."""

    def metrics(self, sums: Tensor) -> dict[str, float]:
        values = super().metrics(sums)
        try:
            perplexity = math.exp(values["loss"])
        except OverflowError:
            perplexity = math.inf
        return {**values, "perplexity": perplexity}
