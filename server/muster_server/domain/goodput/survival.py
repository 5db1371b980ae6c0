"""How much of an attempt's progress survived. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster_server.domain.states import TERMINAL_TRIAL, TrialState

_SAME_COUNT = 0.1
"""Difference of two rates below which they are those of the same count: times of values are rough."""


@dataclass(frozen=True, kw_only=True)
class LaterAttempt:
    """An attempt of the same trial that came after the one asked about."""

    start_step: int | None
    """Step that it went on from; None where that is not known."""
    has_rows: bool
    """Whether it has measured steps."""


@dataclass(frozen=True)
class Survived:
    """What survived of an attempt."""

    kept_step: int | None = None
    """Step up to which its progress survived; None for all of it, so far."""
    is_known: bool = True
    """Whether that can be said at all."""


def start_step(*, resume_step: int, first_logged_step: int | None, is_built_in: bool) -> int | None:
    """Return the step that an attempt goes on from; None if nobody can say.

    resume_step: of the checkpoint that it was given; 0 without one. first_logged_step: the first step
    for which the script itself logged a value; None if it logged none. A script that was given no
    checkpoint may have resumed from a file of its own, and neither steps that are counted from outside
    nor values of a log without steps, which are numbered, show it.
    """
    if resume_step:
        return resume_step
    if first_logged_step is not None and first_logged_step > 1:
        return first_logged_step - 1
    return 0 if is_built_in else None


@dataclass(frozen=True)
class StepCount:
    """How the steps that an attempt timed relate to those that its script logs: timed = scale · logged +
    offset. Steps timed from outside begin at 1 in each attempt, and a script may count samples."""

    scale: float = 1.0
    offset: float = 0.0

    @property
    def begun_after(self) -> float:
        """Logged step that the attempt went on from."""
        return max(0.0, -self.offset / self.scale)

    def timed(self, logged: float) -> int:
        """Return the timed step of a logged one."""
        return max(0, round(self.scale * logged + self.offset))


def count_of(
    logged: NDArray[np.int64],
    logged_s: NDArray[np.float64],
    timed: NDArray[np.int64],
    timed_s: NDArray[np.float64],
) -> StepCount | None:
    """Return how two ways to count the steps of one attempt relate, from when each step was reported;
    None if too little was reported to tell.

    All arrays are in step order. A value is never reported before its step was made, so the lowest of
    the offsets is the one with the least delay.
    """
    is_within = (logged_s >= timed_s[0]) & (logged_s <= timed_s[-1]) if len(timed) else timed > 0
    if not np.any(is_within):
        return None
    steps = logged[is_within].astype(np.float64)
    at = np.searchsorted(timed_s, logged_s[is_within], side="right") - 1
    then = timed[at].astype(np.float64)
    scale = 1.0
    if steps[-1] > steps[0] and then[-1] > then[0]:
        scale = float((then[-1] - then[0]) / (steps[-1] - steps[0]))
        scale = 1.0 if abs(scale - 1.0) < _SAME_COUNT else scale
    return StepCount(scale, float(np.min(then - scale * steps)))


def survived(later: Sequence[LaterAttempt]) -> Survived:
    """Return how much of an attempt's progress survived in those after it.

    Attempts that measured no step decide only where none of them has: they may have failed before
    they could load anything.
    """
    starts = [a.start_step for a in later if a.has_rows] or [a.start_step for a in later]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return Survived(is_known=False)
    return Survived(min(known, default=None))


def is_abandoned(state: TrialState, *, has_used_checkpoint: bool) -> bool:
    """Return whether the work of a trial served nothing: it failed or was stopped, by a user or the
    search, and no other trial or model was made from a checkpoint of it."""
    return state in TERMINAL_TRIAL and state != TrialState.COMPLETED and not has_used_checkpoint
