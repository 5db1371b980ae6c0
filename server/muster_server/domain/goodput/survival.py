"""How much of an attempt's progress survived. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster_server.domain.states import TERMINAL_TRIAL, TrialState


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
    checkpoint may have resumed from a file of its own, and steps that are counted from outside do not
    show it.
    """
    if resume_step:
        return resume_step
    if first_logged_step is not None:
        return max(first_logged_step - 1, 0)
    return 0 if is_built_in else None


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
