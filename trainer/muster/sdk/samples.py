"""Record of the samples that this rank was given, from which the control plane proves that a training
that was interrupted used every sample once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from muster import wire

TELL_EVERY_S = 5.0
"""Longest time between two reports while samples are being used."""


class SampleLog:
    """Samples that a rank was given, as spans. Called by the training thread alone."""

    def __init__(
        self, record: Callable[[wire.SamplesRecord], None], *, rank: int, local_rank: int
    ) -> None:
        self._record = record
        self._told = wire.SamplesRecord(rank=rank, local_rank=local_rank, spans=[])
        """Last record that was sent."""
        self._now = self._told
        self._told_at = 0.0
        self.place_of_step: Callable[[int], tuple[int, int]] | None = None
        """Returns the epoch and position after a step, where that follows from the step."""
        self.saved_place: tuple[int, int] | None = None
        """Epoch and position that the script has put into the checkpoint it is about to write."""

    def begin(
        self, epoch: int, position: int, *, num_samples: int, num_ranks: int, order: str
    ) -> None:
        """Note where the next samples come from. Goes on with the last span if it ended there."""
        spans = self._now.spans
        last = spans[-1] if spans else None
        if last is not None and (last.num_samples, last.num_ranks, last.order) == (
            num_samples,
            num_ranks,
            order,
        ):
            if last.end == epoch * num_samples + position:
                return
            if last.begin == last.end:
                spans = spans[:-1]  # nothing of it was used
        if len(spans) >= wire.SAMPLE_SPANS_MAX:
            self._now = replace(self._now, num_spans_cut=self._now.num_spans_cut + 1)
            return
        span = wire.SampleSpan(
            first_epoch=epoch,
            first=position,
            last_epoch=epoch,
            last=position,
            num_samples=num_samples,
            num_ranks=num_ranks,
            order=order[: wire.SAMPLE_ORDER_CHARS],
        )
        self._now = replace(self._now, spans=[*spans, span])
        self.tell()

    def reach(self, epoch: int, position: int) -> None:
        """Note that this rank was given its share of the samples up to `position` of `epoch`."""
        if self._now.num_spans_cut or not self._now.spans:
            return
        last = replace(self._now.spans[-1], last_epoch=epoch, last=position)
        self._now = replace(self._now, spans=[*self._now.spans[:-1], last])
        if time.monotonic() >= self._told_at + TELL_EVERY_S:
            self.tell()

    def end_epoch(self, *, num_padded: int = 0, num_left_out: int = 0) -> None:
        """Note how the end of an epoch was made even, in samples over all ranks."""
        self._now = replace(
            self._now,
            num_padded=self._now.num_padded + num_padded,
            num_left_out=self._now.num_left_out + num_left_out,
        )
        self.tell()

    def saved(self, step: int) -> None:
        """Note that a checkpoint of `step` is complete."""
        if not self._now.spans:
            return
        last = self._now.spans[-1]
        place = self.saved_place or (last.last_epoch, last.last)
        if self.place_of_step is not None:
            place = self.place_of_step(step)
        self.saved_place = None
        evened = self._now.num_padded, self._now.num_left_out
        save = [step, *place, *evened, len(self._now.spans)]
        saves = [*self._now.saves, save][-wire.SAMPLE_SAVES_MAX :]
        self._now = replace(self._now, saves=saves)
        self.tell()

    def tell(self) -> None:
        """Report what is new."""
        if self._now != self._told:
            self._told, self._told_at = self._now, time.monotonic()
            self._record(self._now)
