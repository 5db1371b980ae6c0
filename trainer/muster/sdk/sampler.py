"""A sampler that goes on in the middle of an epoch, on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from muster.sdk.run import process_run

T = TypeVar("T")


class ResumableSampler(Sampler[int]):
    """Deals the samples of a data set to the ranks like torch's DistributedSampler, in the same order for
    the same seed, and goes on at any position of an epoch with any number of ranks:

        sampler = muster.sampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        if saved:
            sampler.load_state_dict(saved["sampler"])
        for epoch in range(sampler.epoch, 10):
            sampler.set_epoch(epoch)
            for x, y in sampler.over(loader):
                ...  # a checkpoint holds sampler.state_dict()

    With `over`, Muster records which samples each rank was given, and the trial's page says whether every
    sample was used once.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int | None = None,
        drop_last: bool = False,
    ) -> None:
        """Create the sampler.

        num_replicas, rank: default to those of the process group, or of the environment.
        seed: default: that of the trial. All ranks and attempts need the same.
        drop_last: leave out what cannot be dealt evenly at an epoch's end; otherwise some samples are
            given twice there.
        Raises ValueError where the data set is empty, or `rank` not in 0..num_replicas-1.
        """
        run = process_run()
        has_group = dist.is_available() and dist.is_initialized()
        if num_replicas is None:
            num_replicas = dist.get_world_size() if has_group else run.info.world_size
        if rank is None:
            rank = dist.get_rank() if has_group else run.info.rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank: {rank} is not in 0..{num_replicas - 1}, the ranks there are")
        self.num_samples = len(dataset)
        if self.num_samples == 0:
            raise ValueError("dataset: has no samples")
        self.num_replicas, self.rank = num_replicas, rank
        self.shuffle, self.drop_last = shuffle, drop_last
        self.seed = run.seed if seed is None else seed
        self.epoch = 0
        """Epoch of the next sample, from 0."""
        self._position = 0
        """Samples of the epoch that all ranks have used."""
        self._is_followed = False
        """Whether `over` has been used; without it nobody knows how far the loader has read ahead."""
        self._has_dealt = False
        self._num_skipped = run.reporter.around.skip_samples
        self._log = run.reporter.samples

    def set_epoch(self, epoch: int) -> None:
        """Begin `epoch`, from 0; or go on in it if the sampler is within it."""
        if epoch != self.epoch:
            self.epoch, self._position = epoch, 0

    def __len__(self) -> int:
        """Return the number of samples that this rank is given until the epoch's end."""
        left, ranks = self.num_samples - self._position, self.num_replicas
        return left // ranks if self.drop_last else -(-left // ranks)

    def __iter__(self) -> Iterator[int]:
        self._has_dealt = True
        order = self._order()[self._position :]
        num = len(self) * self.num_replicas
        while len(order) < num:
            order += order[: num - len(order)]
        return iter(order[self.rank : num : self.num_replicas])

    def over(self, loader: Iterable[T], *, batch_size: int | None = None) -> Iterator[T]:
        """Iterate over the rest of the epoch and count what is given; then the next epoch begins.

        loader: a DataLoader of this sampler, or what wraps one.
        batch_size: samples of this rank in a batch; default: `loader.batch_size`.
        Raises ValueError where the number of samples in a batch is not known.
        """
        size = batch_size or getattr(loader, "batch_size", None)
        if not size:
            raise ValueError(
                "batch_size: not known of this loader; pass over(loader, batch_size=…)"
            )
        self._is_followed = True
        epoch, start, share = self.epoch, self._position, len(self)
        self._log.begin(
            epoch,
            start,
            num_samples=self.num_samples,
            num_ranks=self.num_replicas,
            order=f"seed {self.seed}" if self.shuffle else "in order",
        )
        given = 0
        for batch in loader:
            given = min(given + size, share)
            self._give(start, given, is_last=given == share)
            yield batch
        if self._position < self.num_samples:  # the loader leaves out a batch that is not full
            self._give(start, given, is_last=True)
        self.epoch, self._position = epoch + 1, 0

    def _give(self, start: int, given: int, *, is_last: bool) -> None:
        """Note that this rank has been given so many samples since `start`."""
        dealt, left = given * self.num_replicas, self.num_samples - start
        self._position = self.num_samples if is_last else start + dealt
        self._log.reach(self.epoch, self._position)
        if is_last:
            self._log.end_epoch(num_padded=max(dealt - left, 0), num_left_out=max(left - dealt, 0))

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint has to hold: the place after the batch that `over` gave last. Every
        rank has the same; call it on all of them, so that each reports how far it is.

        Raises RuntimeError where a loader has read samples without `over`.
        """
        if self._has_dealt and not self._is_followed:
            raise RuntimeError(
                "a loader may have read ahead: iterate over sampler.over(loader), which counts what is used"
            )
        place = self.epoch, self._position
        if self._position == self.num_samples:
            place = self.epoch + 1, 0
        self._log.saved_place = place
        self._log.tell()
        return {
            "epoch": place[0],
            "position": place[1],
            "num_samples": self.num_samples,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint was saved, in its order of samples; behind the samples that a guard has
        the training skip, if it goes on from the checkpoint that the guard chose. Raises ValueError where the
        checkpoint was of a data set of another size, or shuffled otherwise."""
        for name, mine in (("num_samples", self.num_samples), ("shuffle", self.shuffle)):
            if state[name] != mine:
                raise ValueError(f"{name}: the checkpoint has {state[name]}, this sampler {mine}")
        position = int(state["position"]) + self._num_skipped
        self.epoch = int(state["epoch"]) + position // self.num_samples
        self._position = position % self.num_samples
        self.seed = int(state["seed"])

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.num_samples))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(self.num_samples, generator=generator).tolist()


sampler = ResumableSampler
"""`muster.sampler`."""
