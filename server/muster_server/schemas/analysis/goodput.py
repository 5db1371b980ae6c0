"""Where slot-seconds go: of a trial, and of the cluster."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from ..base import Output, PartOut
from .continuation import ContinuationOut


class AttemptLedgerOut(Output):
    """The ledger of one attempt."""

    no: int
    queued_s: float | None
    """Seconds in the queue before it was placed, when no slot was held; null where not known."""
    allocated_s: float
    classes: dict[str, float]
    """Class → slot-seconds."""
    parts: dict[str, float]
    """Part of `productive` → slot-seconds; the rest of it is other or unknown."""
    kept_step: int | None
    """Step up to which its progress survived in a later attempt; null for all of it."""
    until: dt.datetime
    """End of the time that this covers."""


class SaveIntervalOut(Output):
    """The checkpoint interval that would have lost least."""

    steps: int
    interval_s: float
    lost_share: float
    lost_share_now: float
    failure_every_s: float
    reason: str
    reason_parts: list[PartOut]


class UseFigureOut(Output):
    """What a run used of one thing."""

    name: Literal["cpu_pct", "memory_bytes", "gpu_pct", "gpu_memory_pct"]
    """CPU and memory of whole nodes, where no other run shared them; mean use of the run's GPUs on a
    node, and the memory in use on the fullest of them."""
    median: float
    peak: float
    num_samples: int


class RunAdviceOut(Output):
    """What to change about a run."""

    text: str
    parts: list[PartOut]
    """`text` as message parts, for translation."""


class EfficiencyOut(Output):
    """What a run asked for, what it used, what it lost and what to change."""

    slots: int
    memory_bytes: int | None
    """Memory asked for on each node; null if none was."""
    used: list[UseFigureOut]
    """Empty without samples. They are of the newest attempt, and kept for seven days."""
    lost: str | None
    """Class of the largest loss; null if nothing was lost."""
    lost_share: float
    """Share of the slot time that it took, 0 to 1."""
    advice: list[RunAdviceOut]


class TrialGoodputOut(Output):
    """Where the slot-seconds of a trial went. The classes sum to the slot-seconds allocated."""

    trial_id: int
    allocated_s: float
    queued_s: float
    """Seconds in the queue over all attempts, beside the ledger."""
    classes: dict[str, float]
    """Class → slot-seconds: preparing, starting, restoring, productive, saving, evaluation, repeated,
    stalled, undetected, finishing, stopping, idle, unmeasured, abandoned. More may follow."""
    parts: dict[str, float]
    """Part of `productive` → slot-seconds: computation, communication, data, bubble; the rest of it is
    other or unknown."""
    headline: str | None
    """The largest losses in a sentence; null while no slot was held."""
    headline_parts: list[PartOut]
    save_interval: SaveIntervalOut | None
    """Null if nothing has failed in the pool, or if it would save less than 1 % of the time."""
    continuation: ContinuationOut | None
    """Which samples its attempts have used; null if its script does not tell."""
    efficiency: EfficiencyOut | None
    """Null while the trial has not ended."""
    attempts: list[AttemptLedgerOut]
    """Its newest attempts, at most 100, in order."""


class GoodputGroupOut(Output):
    """The sums of one project, pool or person."""

    name: str
    allocated_s: float
    cost: float
    classes: dict[str, float]
    parts: dict[str, float]


class GoodputDayOut(Output):
    """The sums of one day, in UTC."""

    day: dt.date
    allocated_s: float
    classes: dict[str, float]


class LossOut(Output):
    """One class of lost time."""

    kind: str
    slot_s: float
    share: float
    """Share of the slot-seconds allocated, 0 to 1."""
    cost: float


class LosingTrialOut(Output):
    """A trial that lost much."""

    trial_id: int
    address: str
    """Numbers of the experiment and the trial: 36.2."""
    name: str
    lost_s: float
    allocated_s: float
    largest: str
    """Class of its largest loss."""


class GoodputOut(Output):
    """Where the slot-seconds of the cluster went in the last days."""

    days: int
    since: dt.date
    counted_until: dt.datetime | None
    """Oldest time until which running attempts have been counted; null if none is running."""
    currency: str
    allocated_s: float
    cost: float
    classes: dict[str, float]
    parts: dict[str, float]
    headline: str | None
    headline_parts: list[PartOut]
    losses: list[LossOut]
    """The five largest losses."""
    groups: list[GoodputGroupOut]
    """Groups by what was asked, those with most slot-seconds first; at most 100."""
    num_groups: int
    trend: list[GoodputDayOut]
    trials: list[LosingTrialOut]
    """The ten trials that lost most."""
