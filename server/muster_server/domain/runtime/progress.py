"""When a running trial is expected to end, from what it has reported itself. Or nothing at all."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from muster.document.common import Length
from muster.document.experiment import ExperimentConfig

MIN_ELAPSED_S = 10.0
"""A shorter run says nothing about the rate: the first steps are slow."""
MIN_STEPS = 5
STALE_S = 60.0
"""Time in seconds without a report after which, if it also lasts for STALE_STEPS steps, the rate is
no longer trusted."""
STALE_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a trial is, and how far it was when its attempt began to run."""

    started_at: dt.datetime
    """When the attempt's workers ran."""
    reported_at: dt.datetime | None
    """Time at which `step` was reported; None if not in this attempt."""
    step: int
    first_step: int
    """Step of the checkpoint the attempt continued from; 0 if it began anew."""
    num_steps_planned: int | None = None
    epoch: float | None = None
    num_epochs_planned: float | None = None
    """Used when the steps planned are not known."""


def expected_end(progress: Progress, *, now: dt.datetime) -> dt.datetime | None:
    """Return when the planned steps are done if the trial goes on at the mean rate of its attempt.

    The rate includes the attempt's start-up, so early estimates are late rather than early. A trial
    that is stopped early ends sooner. None when the plan is not known, when there is too little to
    go by (MIN_ELAPSED_S, MIN_STEPS), or when it has not reported for too long.
    """
    steps_per_s = rate(progress)
    remaining = remaining_steps(progress)
    if steps_per_s is None or remaining is None or progress.reported_at is None:
        return None
    silent_s = (now - progress.reported_at).total_seconds()
    if silent_s > max(STALE_S, STALE_STEPS / steps_per_s):
        return None
    end = progress.reported_at + dt.timedelta(seconds=remaining / steps_per_s)
    return max(end, now)


def rate(progress: Progress) -> float | None:
    """Return the steps per second of the attempt so far; None if there is too little to go by."""
    if progress.reported_at is None:
        return None
    elapsed_s = (progress.reported_at - progress.started_at).total_seconds()
    num_steps = progress.step - progress.first_step
    if elapsed_s < MIN_ELAPSED_S or num_steps < MIN_STEPS:
        return None
    return num_steps / elapsed_s


def remaining_steps(progress: Progress) -> float | None:
    """Return the number of steps still to do, at least 0; None if the total is unknown."""
    if progress.num_steps_planned is not None:
        return float(max(0, progress.num_steps_planned - progress.step))
    epoch, planned = progress.epoch, progress.num_epochs_planned
    if not epoch or planned is None or progress.step <= 0:
        return None
    return max(0.0, (planned - epoch) * progress.step / epoch)


def planned_length(config: ExperimentConfig) -> tuple[int | None, float | None]:
    """(steps, epochs) a resolved document plans for a trial, where it does."""
    length, trainer = config.search.max_length or Length(), config.trainer or Length()
    return length.steps or trainer.steps, length.epochs or trainer.epochs
