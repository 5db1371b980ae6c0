"""Whether an interrupted training used every sample once."""

from __future__ import annotations

from typing import Literal

from ..base import Output, PartOut


class StretchOut(Output):
    """Consecutive positions in the order of an epoch, from `start` to before `stop`, both from 0."""

    kind: Literal["repeated", "skipped", "unconfirmed"]
    attempt_no: int
    """Attempt that was given them again, that went on behind them, or whose ranks did not all confirm
    them."""
    epoch: int
    """Number of the epoch, from 0."""
    start: int
    stop: int


class ContinuationOut(Output):
    """Samples that the present state of a training has used, over its attempts. Steps that a restart took
    back are not part of it."""

    is_proven: bool
    """Whether every position between the first and the last was used once, as its ranks have told."""
    verdict: str
    verdict_parts: list[PartOut]
    curve: str
    """How far its loss is from that of a completed trial with the same inputs that was never interrupted;
    empty where there is none."""
    curve_parts: list[PartOut]
    num_samples: int
    """Positions in an epoch."""
    num_epochs: int
    """Complete epochs."""
    num_used: int | None
    """Positions used, each counted once; null where the verdict is that nothing can be known."""
    num_repeated: int
    num_skipped: int
    num_unconfirmed: int
    num_padded: int
    """Samples given twice to fill the last batch of an epoch."""
    num_left_out: int
    """Samples left out at the ends of epochs, where they made no whole batch."""
    num_attempts: int
    """Attempts whose work the present state contains, and the last one."""
    num_ranks: list[int]
    """Number of ranks that samples were dealt to, whenever it changed."""
    stretches: list[StretchOut]
    """At most 20 of each kind; none where nothing can be known."""
