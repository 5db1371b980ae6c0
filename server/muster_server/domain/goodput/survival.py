"""How much of an attempt's progress survived. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster_server.domain.states import TERMINAL_TRIAL, TrialState


@dataclass(frozen=True, kw_only=True)
class LaterAttempt:
    """An attempt of the same trial that came after the one asked about."""

    resume_step: int
    """Step of the checkpoint that it was given; 0 without one."""
    first_step: int | None
    """Step of its first row; None if it measured none."""

    @property
    def start_step(self) -> int:
        """Step that it goes on from. A script that resumes by itself is given no checkpoint, and its
        first row says where it went on."""
        if self.resume_step or self.first_step is None:
            return self.resume_step
        return max(self.first_step - 1, 0)


def kept_step(later: Sequence[LaterAttempt]) -> int | None:
    """Return the step up to which an attempt's progress survived; None: all of it, so far.

    Attempts that measured no step decide only where none of them has: they may have failed before
    they could load anything.
    """
    measured = [attempt for attempt in later if attempt.first_step is not None]
    return min((attempt.start_step for attempt in measured or later), default=None)


def is_abandoned(state: TrialState, *, has_used_checkpoint: bool) -> bool:
    """Return whether the work of a trial served nothing: it failed or was stopped, by a user or the
    search, and no other trial or model was made from a checkpoint of it."""
    return state in TERMINAL_TRIAL and state != TrialState.COMPLETED and not has_used_checkpoint
